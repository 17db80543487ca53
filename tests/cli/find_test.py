#!/usr/bin/env python3
"""Goal: `find` names the passage of the stored context that a question is about, and what it skips.

Method: SmolLM2 on three short texts, a process for each step.
"""

import unittest

import cli_case
from cli_case import CliCase, NOT_FOUND, USAGE

TEXTS = {
    "skerry": "The lighthouse of Skerry was built in 1870. Its keeper is called Maren. The lamp "
              "shines every twelve seconds. The spare key hangs behind the red door.",
    "orchard": "The orchard at Wetherby has ninety plum trees. In autumn the fruit is dried on "
               "wooden racks. Old Tobias guards it with two geese.",
    "museum": "The museum of Dunmore shows clocks and maps. It opens at ten. The director, Ottilie "
              "Brandt, lives above the ticket office.",
}
QUESTIONS = {
    "What is the keeper of Skerry called?": "skerry",
    "How many plum trees has the orchard at Wetherby?": "orchard",
    "Where does Ottilie Brandt live?": "museum",
}


class FindTest(CliCase):
    def test_the_passage_of_the_right_context_comes_first(self):
        for name, text in TEXTS.items():
            self.run_ok("import", "-", "--name", name, stdin=text)
        for question, name in QUESTIONS.items():
            found = self.run_json("find", question)
            self.assertEqual(found["passages"][0]["context"], name, found)
            self.assertEqual(found["num_contexts"], 3)
            self.assertEqual(found["skipped"], [])
        words = TEXTS["museum"][-40:]
        self.assertIn(words, found["passages"][0]["text"])
        scores = [passage["score"] for passage in found["passages"]]
        self.assertEqual(scores, sorted(scores, reverse=True))
        self.assertTrue(all(score >= 0.005 for score in scores), "a score of 0 is no finding")

        done = self.run_ok("find", "Where does Ottilie Brandt live?", "--limit", 1)
        self.assertEqual(len(done.out.splitlines()), 2, done)
        self.assertIn("museum", done.out)
        self.assertIn("of 3 contexts in", done.err)
        quiet = self.run_ok("find", "-q", "-c", "orchard", stdin="Where is Ottilie Brandt?\n")
        self.assertNotIn("museum", quiet.out)
        self.assertEqual(quiet.err, "")

        self.assert_fails(NOT_FOUND, "find", "Who?", "-c", "nobody", says=["nobody"])
        self.assert_fails(USAGE, "find", "Who?", "--limit", 0, says=["limit"])
        self.assert_fails(USAGE, "find", "Who?", "--passage-tokens", 63, says=["even"])
        self.assert_fails(USAGE, "find", stdin="\n", says=["the question on stdin is empty"])

        # Other keys than those of this model's float16 contexts.
        self.run_ok("import", "-", "--name", "wide", "--kv-dtype", "f32", stdin=TEXTS["skerry"])
        skipped = self.run_json("find", "Who?")["skipped"]
        self.assertEqual(skipped, [{"context": "wide", "reason": "of another model"}])

    def test_an_empty_store_says_what_to_do(self):
        self.assert_fails(NOT_FOUND, "find", "Who?", says=["no store at"])
        self.run_ok("import", "-", "--name", "a", stdin="A short text.")
        self.run_ok("rm", "a")
        self.assert_fails(NOT_FOUND, "find", "Who?", says=["no contexts", "attndb import"])


if __name__ == "__main__":
    cli_case.main(needs_model=True)
