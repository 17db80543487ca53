#!/usr/bin/env python3
"""Goal: `attndb ask` runs every plan that docs/plan.md gives as a paper's setting, and --tokens.

Method: SmolLM2 and one short context. The tokens that a plan's own numbers leave are computed here
and compared with those that --explain says were selected; where they are all, answers are `full`'s.
"""

import pathlib
import re
import shutil
import tempfile

import cli_case
from cli_case import CliCase, USAGE

PLAN_MD = cli_case.ROOT / "docs/plan.md"
# Repeated, so that the model is certain how it goes on, and rounding decides nothing. Longer than
# sinks and windows but InfLLM's. Shorter than what has an index, which would take longer to build
# than all of this: keys are scored, and the tests of each index tell what it finds.
SENTENCES = ("The lighthouse of Skerry was built in 1870. Its keeper is called Maren. "
             "The lamp shines every twelve seconds. The spare key hangs behind the red door.\n")
NUM_LAYERS = 30


def plans_of_papers():
    section = PLAN_MD.read_text(encoding="utf-8").split("## The papers' settings")[1]
    section = section.split("\n## ")[0]
    rows = [line.split("|")[3] for line in section.splitlines() if line.startswith("| ")][1:]
    return [plan for row in rows for plan in re.findall(r"`([^`]+)`", row)]


def arguments(plan):
    """The numbers of a plan whose presets are written out: {"k": 100.0, "sink": 128.0, ...}."""
    return {key: float(value) for key, value in re.findall(r"(\w+)=([0-9.]+)(?=[,)])", plan)}


def k_of_layer(plan, layer):
    share = 1.95 - layer / (NUM_LAYERS - 1) * 1.9 if "budget=pyramid" in plan else 1
    return max(1, round(share * arguments(plan)["k"]))


class StoredCase(CliCase):
    """`self.store` is the class's, with the context skerry."""

    text = ""

    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="attndb-cli-plans-"))
        cls.addClassCleanup(shutil.rmtree, cls.shared, ignore_errors=True)
        case = CliCase()
        case.store = cls.shared / "store"
        case.run_ok("import", "-", "--name", "skerry", "--raw", stdin=cls.text)

    def setUp(self):
        super().setUp()
        self.store = self.shared / "store"

    def ask(self, text, *args):
        return self.run_json("ask", "-c", "skerry", text, "--explain", "--max-tokens", 4, *args)


class PapersTest(StoredCase):
    text = SENTENCES * 24

    def test_the_table_has_plans(self):
        self.assertLessEqual({"full", "pqcache", "infllm", "auto(rules=alaya)"},
                             set(plans_of_papers()))

    def test_each_of_its_plans_attends_to_as_many_tokens_as_it_says(self):
        text = "The lighthouse of Skerry was built"
        full = self.ask(text, "--plan", "full")
        self.assertEqual(full["answer"], " in 18")
        for plan in plans_of_papers():
            with self.subTest(plan):
                done = self.ask(text, "--plan", plan)
                self.assertEqual(done["generated_tokens"], 4)
                layers = done["explain"]["layers"]
                self.assertEqual([layer["plan"] for layer in layers], [done["plan"]] * NUM_LAYERS)
                if all([self.attends_to_all(layer) for layer in layers]):
                    self.assertEqual(done["answer"], full["answer"])

    def attends_to_all(self, layer):
        """Whether sinks, window and what may be selected hold all tokens; checks its figures."""
        plan, middle = layer["plan"], layer["num_middle"]
        selected, numbers = layer["selected_mean"], arguments(plan)
        self.assertGreater(layer["bytes_touched"], 0)
        if middle == 0:
            self.assertEqual(selected, 0)
            self.assertIn("full", plan + layer["reason"])
            return True
        held = numbers["sink"] + numbers["window"]
        self.assertLessEqual(middle, layer["num_tokens"] - held)
        if "ratio" in numbers:
            expected = max(1, numbers["ratio"] * layer["num_tokens"] - held)
            self.assertAlmostEqual(selected, expected, delta=3)  # Earlier rows see fewer tokens.
            return False
        most = min(k_of_layer(plan, layer["layer"]), middle) if "k" in numbers else middle
        self.assertLessEqual(selected, most)
        if "static=" in plan:  # Static tokens leave fewer than k, or none once they are known.
            return False
        if "k" not in numbers:
            self.assertGreater(selected, 0)
            return False
        self.assertGreaterEqual(selected, min(most, middle - layer["num_queries"]))
        return most == middle


class TokensTest(StoredCase):
    text = "The keeper is called Maren. " * 20 + "The keeper is called Tobias. " * 40

    def test_an_answer_is_of_the_tokens_that_are_named(self):
        num_tokens = self.run_json("describe", "skerry")["num_tokens"]
        question = ("The keeper is called", "--plan", "full")
        every = self.ask(*question)
        self.assertIn("Tobias", every["answer"])
        begin = self.ask(*question, "--tokens", "10-30,40-100")
        self.assertIn("Maren", begin["answer"])
        for whole, part in zip(every["explain"]["layers"], begin["explain"]["layers"]):
            # The first 4 are seen, too. Without --tokens the question takes the last space.
            hidden = num_tokens - 1 - (4 + 20 + 60)
            self.assertEqual(whole["num_tokens"] - part["num_tokens"], hidden)
            self.assertLess(part["bytes_touched"], whole["bytes_touched"] / 2)
        same = self.ask(*question, "--tokens", f"0-{num_tokens}")
        self.assertEqual(same["answer"], every["answer"])

    def test_ranges_that_are_none_are_refused(self):
        ask = ("ask", "-c", "skerry", "Who?", "--tokens")
        for text in ("9-5", "5", "5-9,7-12", "a-b"):
            self.assert_fails(USAGE, *ask, text, says=[text])
        self.assert_fails(USAGE, *ask, "10-1000000", says=["1000000"])


if __name__ == "__main__":
    cli_case.main(needs_model=True)
