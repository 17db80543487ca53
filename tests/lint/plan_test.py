#!/usr/bin/env python3
"""Goal: docs/plan.md has for each published method a passage that names its source and an example,
and says what each column of Explain's tables is.

Method: the passage is the paragraph in which a method's own words stand and the two that follow it;
the columns are those that src/api/explain.cc writes.
"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PLAN_MD = ROOT / "docs/plan.md"

# Method: (words of its paragraph, its source, its example).
METHODS = {
    "StreamingLLM": ("`window` is StreamingLLM", "2309.17453", "window(sink=4,window=1020)"),
    "DIPRS": ("`walk=diprs` is DIPRS", "Algorithm 1 (6.1.3)", "walk=diprs,l0=1024"),
    "2-hop expansion": ("`expand=all` is the filtered search", "(7.1)", "expand=all)`"),
    "rules": ("`auto(rules=alaya)` runs Fig. 8", "Fig. 8 of AlayaDB",
              "auto(rules=alaya,memory=24)"),
    "RoarGraph": ("`index=roargraph` is RoarGraph whole", "Chen et al., section 4",
                  "alaya(index=roargraph,walk=diprs"),
    "graphs of q heads": ("`graphs=head`, of either graph", "App. C",
                          "retrieval_attention(index=roargraph,graphs=head)"),
    "training": ("Graphs are trained by rows of q", "AlayaDB 9.2.1", "--query-sample 0.4"),
    "insertion": ("`grow_graphs`", "Appendix C", "--grow-graphs`"),
    "exact tail": ("With `tail=exact`", "RetrievalAttention keeps", "tail=exact)'"),
    "static set": ("With `static=prefill:n`", "RetrievalAttention's Alg. 1", "static=prefill:64)"),
    "pyramid": ("`budget=pyramid` gives", "App. F", "budget=pyramid)`"),
    "lists": ("`import_context` of Python takes lists", "Table 2", "db.import_context(spec, ["),
    "filters": ("`Session::SetFilter`", "7.1", "--tokens 1200-1500,2000-2400"),
    "several contexts": ("`DB::CreateSessionOver`", "AlayaDB", "db.create_session_over(spec"),
    "find": ("`attndb find`", "AlayaDB", "attndb find \""),
    "PQCache": ("product codes, as PQCache", "2407.12820", "`pqcache(ratio=0.1,m=4,b=8)`"),
    "Quest": ("- *quest*", "2406.10774", "`topk(k=1024,index=quest)`"),
    "InfLLM": ("- *infllm*", "2402.04617", "`topk(k=2048,index=infllm)`"),
    "RetroInfer": ("- *wave*", "2505.02922", "`topk(k=1024,index=wave)`"),
    "clusters": ("`remainder=clusters` is for plans", "RetroInfer",
                 "`topk(k=512,index=pq,remainder=clusters)`"),
    "own types": ("Query and index types can be extended", "[Alaya] 6", "`pages(best=8)`"),
}


def passages(text):
    """Each paragraph with the two behind it."""
    parts = re.split(r"\n\s*\n", text)
    return ["\n".join(parts[i:i + 3]) for i in range(len(parts))]


class PlanTest(unittest.TestCase):
    def test_each_method_has_a_source_and_an_example(self):
        all_passages = passages(PLAN_MD.read_text(encoding="utf-8"))
        for method, (words, source, example) in METHODS.items():
            with self.subTest(method):
                told = [passage for passage in all_passages if words in passage]
                self.assertTrue(told, f"no paragraph has: {words}")
                self.assertTrue(any(source in passage and example in passage for passage in told),
                                f"expected beside '{words}': {source} and {example}")

    def test_each_column_of_explain_is_told(self):
        source = (ROOT / "src/api/explain.cc").read_text(encoding="utf-8")
        tables = re.findall(r'rows = \{\{("layers".*?)\}\};', source, re.DOTALL)
        self.assertEqual(len(tables), 2)
        text = PLAN_MD.read_text(encoding="utf-8")
        for name, columns in zip(("second", "first"), tables):  # As the source has them.
            told = text.split(f"| column of the {name} table | what |")[1].split("\n\n")[0]
            for column in re.findall(r'"([^"]+)"', columns):
                self.assertIn(f"`{column}`", told, f"the {name} table")


if __name__ == "__main__":
    unittest.main()
