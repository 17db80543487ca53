#!/usr/bin/env python3
"""Goal: a conversation that outgrows its window goes on, says what has left, and is continued by
another process where one alone would be; who does not want that is told before anything is run.

Method: SmolLM2 on a short text with small windows. Greedy answers with plan=full, which gives the
same bits each time: two processes must say what one says.
"""

import cli_case
from cli_case import NOT_FOUND, SharedStoreCase, USAGE

TEXT = ("The bakery opens at six and sells rye bread. Nine boats have room in the harbour. "
        "A ferry runs to the mainland on Tuesdays. The school has two rooms and forty pupils. "
        "Sheep graze on the northern hills until October. The post office closes at noon. "
        "The lighthouse of Skerry was built in 1870. Its keeper is called Maren. "
        "The lamp shines every twelve seconds. The spare key hangs behind the red door.\n")
QUESTIONS = ["What is the keeper called?", "Tell me a story about the lamp.",
             "And what happened then?", "Tell me more.", "How did it end?",
             "What did Maren say?"]
WINDOW = 256


def chat(case, name, questions):
    """The turns of a chat about skerry."""
    return case.run_json("chat", "-c", "skerry", "--name", name, "--max-tokens", 60, "--plan",
                         "full", "--window", WINDOW, stdin="\n".join(questions) + "\n")["turns"]


class OverflowCase(SharedStoreCase):
    @staticmethod
    def fill(case):
        case.run_ok("import", "-", "--name", "skerry", stdin=TEXT)

    def num_tokens(self, name):
        return self.run_json("describe", name)["num_tokens"]


class LongChatTest(OverflowCase):
    """The store has `long` as well: a chat in one process that has outgrown its window."""

    turns = None  # The turns of that chat; `fill` sets them.

    @staticmethod
    def fill(case):
        OverflowCase.fill(case)
        LongChatTest.turns = chat(case, "long", QUESTIONS)

    def test_a_chat_goes_on_past_its_window_and_says_so(self):
        turns = self.turns
        dropped = [ranges for turn in turns for ranges in turn["dropped"]]
        self.assertGreaterEqual(len(dropped), 2)
        # Half of the window leaves each time, behind what left before.
        for (_, end), (begin, _) in zip(dropped, dropped[1:]):
            self.assertEqual(begin, end)
        num_tokens = self.num_tokens("long")
        num_left = sum(end - begin for begin, end in dropped)
        self.assertEqual(num_left % (WINDOW // 2), 0)
        self.assertGreater(num_tokens, WINDOW + WINDOW // 2)
        self.assertLessEqual(num_tokens - num_left, WINDOW)
        # The store has all of it, what left among it.
        self.assertEqual(num_tokens, turns[-1]["reused_tokens"] + turns[-1]["new_tokens"]
                         + turns[-1]["generated_tokens"])

    def test_two_processes_say_what_one_says(self):
        two = [chat(self, "two", [question])[0] for question in QUESTIONS]
        for key in ("answer", "dropped", "reused_tokens", "new_tokens"):
            self.assertEqual([turn[key] for turn in two], [turn[key] for turn in self.turns], key)

    def test_a_chat_that_has_lost_tokens_can_be_asked(self):
        num_dropped = self.run_json("describe", "long")["num_dropped"]
        self.assertEqual(num_dropped % (WINDOW // 2), 0)
        self.assertGreater(num_dropped, 0)
        within = ("ask", "-c", "long", "--window", WINDOW)
        done = self.run_json(*within, "Who are you?", "--max-tokens", 8)
        self.assertEqual(done["reused_tokens"], self.num_tokens("long"))
        self.assert_fails(USAGE, *within, "Who?", "--check",
                          says=[f"{num_dropped} of the context's tokens have left it"])

    def test_a_larger_window_has_again_what_a_smaller_one_lost(self):
        num_tokens = self.num_tokens("long")
        first_cut = self.run_json("describe", "long")["cuts"][0]["at"]
        asked = self.run_json("ask", "-c", "long", "Who are you?", "--max-tokens", 8, "--plan",
                              "full", "--check")
        self.assertEqual(asked["dropped"], [])
        self.assertEqual(asked["reused_tokens"], first_cut - 1)
        self.assertGreater(asked["new_tokens"], num_tokens - first_cut)
        # A chat that goes on stores what it has run.
        stdin = "Who are you?\n"
        turn = self.run_json("chat", "--name", "long", "--max-tokens", 8, stdin=stdin)["turns"][0]
        self.assertEqual(turn["reused_tokens"], first_cut - 1)
        self.assertEqual(self.run_json("describe", "long")["num_dropped"], 0)


class ChatTest(OverflowCase):
    def test_it_is_said_once_a_turn_on_stderr(self):
        command = ("chat", "-c", "skerry", "--max-tokens", 60, "--window", WINDOW)
        stdin = "\n".join(QUESTIONS) + "\n"
        done = self.run_ok(*command, "--name", "a", "--keep-first", 7, stdin=stdin)
        said = [line for line in done.err.splitlines() if "outgrown" in line]
        self.assertGreaterEqual(len(said), 2)
        self.assertIn("the conversation has outgrown its window of 256 tokens: the oldest 128 "
                      "after the first 7 are no longer attended to", said)
        self.assertNotIn("outgrown", done.out)
        stdin = "\n".join(QUESTIONS[:3]) + "\n"  # Enough to outgrow it once.
        self.assertEqual(self.run_ok(*command, "--name", "b", "-q", stdin=stdin).err, "")
        self.assertGreater(self.run_json("describe", "b")["num_dropped"], 0)

    def test_what_fits_loses_nothing(self):
        done = self.run_ok("chat", "-c", "skerry", "--max-tokens", 12, stdin="Who?\nWhen?\n")
        self.assertNotIn("outgrown", done.err)
        turns = self.run_json("chat", "-c", "skerry", "--name", "x", "--max-tokens", 12,
                              stdin="Who?\n")["turns"]
        self.assertEqual(turns[0]["dropped"], [])

    def test_refuse_ends_before_anything_is_run(self):
        before = self.num_tokens("skerry")
        self.assert_fails(USAGE, "chat", "-c", "skerry", "--name", "r", "--window", WINDOW,
                          "--overflow", "refuse", "--max-tokens", 200, stdin="Who?\n",
                          says=["tokens and its answer up to 200, but the window has 256",
                                "--overflow truncate"])
        self.assert_fails(NOT_FOUND, "describe", "r", says=['"r"'])
        self.assertEqual(self.num_tokens("skerry"), before)
        fits = self.run_json("chat", "-c", "skerry", "--name", "r", "--window", WINDOW,
                             "--overflow", "refuse", "--max-tokens", 8, stdin="Who?\n")
        self.assertEqual(fits["turns"][0]["dropped"], [])


class AskTest(OverflowCase):
    def test_a_context_longer_than_the_window_is_asked_about_its_end(self):
        num_tokens = self.num_tokens("skerry")
        ask = ("ask", "-c", "skerry", "What is the keeper called?", "--max-tokens", 14, "--window",
               90)
        done = self.run_json(*ask)
        # The line's end and the question's gap are one token together.
        self.assertEqual(done["dropped"], [[4, 4 + num_tokens - 46]])
        self.assertIn("Maren", done["answer"])
        bakery = ("ask", "-c", "skerry", "When does the bakery open?", "--max-tokens", 14)
        self.assertIn("six", self.run_json(*bakery)["answer"])
        self.assertNotIn("six", self.run_json(*bakery, "--window", 90)["answer"])
        self.assertIn("are no longer attended to", self.run_ok(*ask).err)
        self.assertEqual(self.run_ok(*ask, "-q").err, "")
        # For that answer only.
        again = self.run_json("ask", "-c", "skerry", "Who?", "--max-tokens", 4)
        self.assertEqual((again["dropped"], again["reused_tokens"]), ([], num_tokens - 1))

    def test_the_system_message_stays_in_front(self):
        system = "Answer like a pirate who has been at sea for forty years."
        self.run_ok("import", "-", "--name", "pirate", "--system", system, stdin=TEXT)
        dropped = self.run_json("ask", "-c", "pirate", "Who?", "--max-tokens", 4, "--window",
                                116)["dropped"]
        self.assertGreater(dropped[0][0], 12)  # At least as many tokens as it has words.
        self.assertLess(dropped[0][0], 40)
        self.run_ok("import", "-", "--name", "raw", "--raw", stdin=TEXT)
        dropped = self.run_json("ask", "-c", "raw", "Who?", "--max-tokens", 4, "--window",
                                64)["dropped"]
        self.assertEqual(dropped[0][0], 4)

    def test_what_does_not_go_together_is_refused(self):
        ask = ("ask", "-c", "skerry", "Who?", "--max-tokens", 8)
        self.assert_fails(USAGE, *ask, "--window", 64, "--overflow", "refuse",
                          says=["tokens and its answer up to 8, but the window has 64"])
        self.assert_fails(USAGE, *ask, "--window", 64, "--check", says=["leave --check out"])
        self.assert_fails(USAGE, *ask, "--overflow", "stop",
                          says=["'stop', expected truncate or refuse"])
        self.assert_fails(USAGE, *ask, "--window", 8193, says=["--window is 8,193", "8,192 tokens"])
        self.assert_fails(USAGE, *ask, "--window", 64, "--keep-first", 32,
                          says=["64 tokens has 32 left", "keep_first, 32"])
        self.run_ok("import", "-", "--name", "other", "--system", "Be brief.", stdin=TEXT)
        # Contexts beside each other take what the longest takes, and can't lose tokens.
        self.assert_fails(USAGE, *ask, "-c", "other", "--window", 64,
                          says=["but the window has 64", "give a smaller --max-tokens"])
        self.run_ok(*ask, "-c", "other", "--window", WINDOW)


if __name__ == "__main__":
    cli_case.main(needs_model=True)
