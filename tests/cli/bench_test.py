#!/usr/bin/env python3
"""Goal: `attndb-bench` measures plans and indexes on synthetic vectors and on .npy files, says
which, and docs/bench.md has its flags.

Method: small geometries; .npy files written by hand, good ones and damaged ones; a peer that is a
script here. Captures and their stretching are in bench_test. No figure of speed is judged.
"""

import json
import random
import re
import struct
import sys

import cli_case
from cli_case import CliCase, NOT_FOUND, UNSUPPORTED, USAGE


def npy(shape, values, descr="<f4"):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    data = struct.pack(f"<{len(values)}{'f' if descr == '<f4' else 'e'}", *values)
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


class BenchCase(CliCase):
    program = "attndb-bench"
    SMALL = ("attention", "--tokens", 500, "--geometry", "2x2x32", "--rows", 2)

    def save(self, name, shape, descr="<f4", seed=1):
        generator = random.Random(seed)
        count = 1
        for size in shape:
            count *= size
        path = self.dir / name
        path.write_bytes(npy(shape, [generator.gauss(0, 1) for _ in range(count)], descr))
        return str(path)


class AttentionTest(BenchCase):
    def test_synthetic_vectors_are_labelled_so_and_nothing_is_left(self):
        folder = self.dir / "tmp"
        folder.mkdir()
        done = self.run_ok(*self.SMALL, env={"TMPDIR": str(folder)})
        for text in ("synthetic", "GB/s", "partly the cache's", "best by"):
            self.assertIn(text, done.out)
        self.assertEqual(list(folder.iterdir()), [])

    def test_plans_select_what_they_say_in_every_type(self):
        for dtype in ("bf16", "f32"):
            result = self.run_json(*self.SMALL, "--dtype", dtype, "--plan",
                                   "topk(k=16,sink=4,window=32)", "--plan", "window",
                                   "--try-plan", "topk(k=16,index=coarse)")
            full, topk, window = result["plans"]
            self.assertEqual((full["plan"], full["error_worst_head"]), ("full", 0))
            self.assertGreater(full["ms_median"], 0)
            self.assertAlmostEqual(topk["selected_mean"], 16, places=1)
            self.assertIn("topk(k=16", topk["canonical"])
            self.assertGreater(window["error_mean"], topk["error_mean"])
            self.assertLess(topk["mass"], 1)
            [left_out] = result["left_out"]
            self.assertEqual(left_out["plan"], "topk(k=16,index=coarse)")
            self.assertIn("coarse", left_out["because"])
            self.assertEqual((topk["ran"], topk["substitutes"]), (topk["canonical"], []))
            self.assertEqual(result["heads"]["origin"], "synthetic")
            self.assertEqual(result["heads"]["num_tokens"], 500)
            self.assertTrue(result["fits_cache"])

    def test_a_fallback_is_never_reported_as_the_index(self):
        graph, reason = "topk(k=16,index=graph)", "index=flat instead of index=graph: too few"
        self.assert_fails(UNSUPPORTED, *self.SMALL, "--plan", graph, says=[graph, reason])
        result = self.run_json(*self.SMALL, "--try-plan", graph, "--plan", "auto(error=0.1)")
        [left_out] = result["left_out"]
        self.assertEqual(left_out["plan"], graph)
        self.assertIn(reason, left_out["because"])
        auto = result["plans"][1]
        self.assertEqual((auto["ran"], auto["best_by_bytes"], auto["best_by_time"]),
                         ("full", False, False))
        self.assertEqual(auto["substitutes"], [{"ran": "full", "wanted": "auto",
                                                "because": "short context", "share": 1.0}])
        text = self.run_ok(*self.SMALL, "--try-plan", graph, "--plan", "auto(error=0.1)").out
        self.assertIn(f"left out: {graph}: {reason}", text)
        self.assertIn("auto(error=0.1): full instead of auto: short context\n", text)

    def test_a_sweep_marks_its_frontier(self):
        result = self.run_json(*self.SMALL, "--sweep")
        self.assertGreater(len(result["plans"]), 10)
        self.assertTrue(any(plan["best_by_bytes"] for plan in result["plans"][1:]))
        self.assertFalse(all(plan["best_by_bytes"] for plan in result["plans"]))

    def test_vectors_from_files(self):
        keys = self.save("k.npy", (300, 2, 16), "<f2")
        values = self.save("v.npy", (300, 2, 16), "<f2", seed=2)
        queries = self.save("q.npy", (5, 4, 16), seed=3)
        result = self.run_json("attention", "--keys", keys, "--values", values,
                               "--queries", queries, "--repeat", 2)
        self.assertEqual(result["num_steps"], 10)
        heads = result["heads"]
        self.assertEqual(heads["origin"], "arrays")
        self.assertEqual((heads["num_tokens"], heads["num_q_heads"], heads["num_kv_heads"],
                          heads["head_dim"]), (300, 4, 2, 16))

    def test_files_that_do_not_fit_or_are_damaged_are_refused(self):
        keys = self.save("k.npy", (30, 2, 16))
        values = self.save("v.npy", (31, 2, 16))
        queries = self.save("q.npy", (5, 4, 16))
        run = ("attention", "--keys", keys, "--queries", queries, "--values")
        self.assert_fails(USAGE, *run, values, says=["[30, 2, 16]", "[31, 2, 16]"])
        self.assert_fails(NOT_FOUND, *run, self.dir / "none.npy", says=["none.npy"])
        self.assert_fails(USAGE, "attention", "--keys", keys, says=["go together"])
        damaged = self.dir / "d.npy"
        whole = (self.dir / "k.npy").read_bytes()
        for content in (b"", b"hello", whole[:20], whole[:-1], whole + b"x",
                        whole.replace(b"(30, ", b"(99, "), whole.replace(b"<f4", b"<f8")):
            damaged.write_bytes(content)
            self.assert_fails(USAGE, *run, damaged, says=["d.npy"])

    def test_requests_that_do_not_go_together_are_refused(self):
        for bench in ("attention", "index"):
            self.assert_fails(USAGE, bench, "--geometry", "9y", says=["llama3-8b", "8x4x128"])
            for flags in (["--stretch", 9000], ["--first-tokens", 9], ["--group-size", 1],
                          ["--layers", "0"]):
                self.assert_fails(USAGE, bench, *flags, says=["--capture"])
            self.assert_fails(USAGE, bench, "--capture", "x", "--geometry", "smollm2",
                              says=["one of"])
            self.assert_fails(NOT_FOUND, bench, "--capture", self.dir / "none.safetensors",
                              says=["none.safetensors"])

    def test_a_bad_plan_points_at_the_column(self):
        self.assert_fails(USAGE, *self.SMALL, "--plan", "topk(k=16", says=["column"])


# A peer that looks for the best keys itself, in double precision: its recall is how true the truth
# is. And one that can't run.
PEER = """
import ast, json, pathlib, struct, sys
folder, k = pathlib.Path(sys.argv[-1]), 20

def rows(path, kind):
    data = path.read_bytes()
    end = 10 + struct.unpack("<H", data[8:10])[0]
    count, dim = ast.literal_eval(data[10:end].decode())["shape"]
    values = struct.unpack("<%d%s" % (count * dim, kind), data[end:])
    return [values[i * dim:(i + 1) * dim] for i in range(count)]

for head in json.loads((folder / "heads.json").read_text())["heads"]:
    keys, train, test = (rows(folder / (head["name"] + kind), "f")
                         for kind in (".keys.npy", ".train.npy", ".test.npy"))
    truth = rows(folder / (head["name"] + ".truth.npy"), "i")
    found = 0
    for q, best in zip(test, truth, strict=True):
        scores = [sum(a * b for a, b in zip(q, key)) for key in keys]
        found += len(set(best) & set(sorted(range(len(keys)), key=lambda i: -scores[i])[:k]))
    sizes = {"keys": len(keys), "train": len(train), "test": len(test), "dim": len(keys[0])}
    print(json.dumps({"head": head["name"], "peer": "all", "recall": found / k / len(test),
                      "us_per_query": 0.001, "build": sizes, "search": {},
                      "index_bytes": head["n"] * 4}))
print(json.dumps({"head": None, "peer": "none", "left_out": "not installed"}))
print("what is no JSON is passed over")
"""


class IndexTest(BenchCase):
    SMALL = ("index", "--geometry", "2x2x32", "-k", 20, "--num-queries", 8, "--rounds", 2)

    def test_recall_of_a_scan_is_whole_and_nothing_is_left(self):
        folder = self.dir / "tmp"
        folder.mkdir()
        scan, graph = "topk(k=20,bits=exact)", "topk(k=20,index=graph,beam_width=20)"
        result = self.run_json(*self.SMALL, "--tokens", 4096, "--plan", scan, "--plan", graph,
                               "--heads", "0:1", "--query-sample", 0.2, "--segment-tokens", 8192,
                               "--temp-dir", folder)
        self.assertEqual(list(folder.iterdir()), [])
        self.assertEqual((result["origin"], result["k"], result["num_queries"],
                          result["num_rounds"]), ("synthetic", 20, 8, 2))
        [head] = result["heads"]
        self.assertEqual((head["name"], head["num_segments"], head["group_size"]), ("L0H1", 1, 2))
        by_scan, by_graph = head["results"]
        self.assertEqual((by_scan["setting"], by_scan["visited"]), (scan, 1))
        self.assertAlmostEqual(by_scan["recall"], 1)  # A quotient of sums.
        self.assertEqual(by_graph["setting"], graph)
        self.assertGreater(by_graph["bytes_per_key"], 0)
        self.assertEqual([best["peer"] for best in head["best"]], [None, None])
        text = self.run_ok(*self.SMALL, "--tokens", 4096, "--plan", scan).out
        for word in ("synthetic", "of the 20 best", "L0H0", scan):
            self.assertIn(word, text)

    def test_a_peer_gets_the_same_heads_and_its_figures_stand_beside(self):
        script = self.write("peer.py", PEER)
        run = (*self.SMALL, "--tokens", 1500, "--dtype", "f32", "--plan", "topk(k=20,bits=exact)",
               "--query-sample", 0.01, "--peers", f"{sys.executable} {script}")
        [head] = self.run_json(*run)["heads"]
        peer = next(result for result in head["results"] if result["name"] == "all")
        self.assertEqual(peer["recall"], 1)
        self.assertEqual(peer["setting"], f"dim=32 keys={head['num_keys']} test=16 "
                                          f"train={head['num_keys'] // 100}; ")
        self.assertEqual(peer["bytes_per_key"], 4)
        self.assertEqual(head["left_out"], ["none: not installed"])
        self.assertEqual([best["peer"]["name"] for best in head["best"]], ["all", "all"])
        text = self.run_ok(*run).out
        self.assertIn("left out: none: not installed", text)
        self.assertIn("MISSED", text)  # Nobody is faster than a peer that does nothing.

    def test_a_peer_that_fails_or_lies_is_an_error(self):
        for line in ("sys.exit(3)", "print('{')", "print('{\"recall\": 1}')",
                     "print('{\"recall\": 1, \"head\": \"x\", \"peer\": \"p\", "
                     "\"us_per_query\": 1}')"):
            script = self.write("peer.py", f"import sys\n{line}\n")
            done = self.run_any(*self.SMALL, "--tokens", 1500, "--plan", "topk(k=20,bits=exact)",
                                "--peers", f"{sys.executable} {script}")
            self.assertNotEqual(done.code, 0, line)
            self.assertTrue(done.err.startswith("attndb-bench: "), done)

    def test_heads_that_are_not_there_are_refused(self):
        for heads in ("0:2", "1:0", "0", "0:", "x:0", "0:0,"):
            self.assert_fails(USAGE, *self.SMALL, "--heads", heads, says=["layer:kv head"])


class HelpTest(BenchCase):
    def test_what_is_not_understood_points_at_the_help(self):
        for args in (["frobnicate"], ["attention", "--tokens", "0"],
                     ["attention", "--dtype", "int3"], ["index", "--rounds", "0"],
                     ["attention", "--db", "x"]):
            with self.subTest(args=args):
                self.assert_fails(USAGE, *args, says=["--help"])
        self.assertEqual(self.run_ok().out, self.run_ok("--help").out)
        self.assertRegex(self.run_ok("--version").out, r"^attndb-bench \d+\.\d+\.\d+\n$")

    def flags(self, command):
        options = self.run_ok(command, "--help").out.split("Examples:")[0]
        return set(re.findall(r"^\s+(?:-\w,)?(--?[a-z-]+)", options, re.MULTILINE))

    def test_its_page_has_the_flags_that_there_are_and_no_others(self):
        page = (cli_case.ROOT / "docs/bench.md").read_text(encoding="utf-8")
        common = page.split("## attndb-bench\n")[1].split("\n## ")[0]
        for command in ("attention", "index"):
            text = common + page.split(f"## attndb-bench {command}\n")[1].split("\n## ")[0]
            named = " ".join(re.findall(r"^\| (`-.*?`) \|", text, re.MULTILINE))
            documented = set(re.findall(r"(?<![\w-])(--[a-z-]+|-k)", named))
            self.assertEqual(self.flags(command), documented | {"--help"}, command)

    def test_the_commands_that_are_shown_have_the_flags_they_use(self):
        page = (cli_case.ROOT / "docs/bench.md").read_text(encoding="utf-8")
        shown = re.findall(r"^(attndb-bench .*)$", page, re.MULTILINE)
        for command in ("attention", "index"):
            shown += re.findall(r"^  (attndb-bench .*)$", self.run_ok(command, "--help").out,
                                re.MULTILINE)
        self.assertGreater(len(shown), 6)
        for line in shown:
            flags = self.flags(line.split()[1])
            for flag in re.findall(r" (--?[a-z-]+)", line):
                self.assertIn(flag, flags, line)


if __name__ == "__main__":
    cli_case.main()
