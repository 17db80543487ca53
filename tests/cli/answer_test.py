#!/usr/bin/env python3
"""Goal: a second process answers from the stored context, as plain llama.cpp does; a chat goes on.

Method: SmolLM2 on short texts, a process for each step; --check is the judge of the answers. The
text is imported once, and each test works on a copy of that store.
"""

import os
import pty
import select
import subprocess
import unittest

import cli_case
from cli_case import DIFFERS, INTERRUPTED, NOT_FOUND, OK, SharedStoreCase, USAGE

TEXT = ("The lighthouse of Skerry was built in 1870. Its keeper is called Maren. "
        "The lamp shines every twelve seconds. The spare key hangs behind the red door.\n") * 4


class AnswerCase(SharedStoreCase):
    @staticmethod
    def fill(case):
        case.run_ok("import", "-", "--name", "skerry", stdin=TEXT)


class AskTest(AnswerCase):
    def test_the_answer_comes_from_the_context_and_equals_plain_llama_cpp(self):
        stored = self.run_json("describe", "skerry")["num_tokens"]
        done = self.run_json("ask", "-c", "skerry", "What is the keeper called?", "--check")
        self.assertIn("Maren", done["answer"])
        # The line's end and the question's gap are other tokens together.
        self.assertEqual(done["reused_tokens"], stored - 1)
        self.assertLess(done["new_tokens"], 40)
        self.assertIsNone(done["check"]["first_other_id"])
        self.assertTrue(done["check"]["within_spread"], done)
        self.assertGreaterEqual(done["check"]["num_compared"], done["generated_tokens"])
        self.assertGreater(done["first_token_ms"], 0)
        self.assertGreater(done["check"]["cold_prefill_ms"], 0)
        self.assertGreater(done["second_token_ms"], done["first_token_ms"])

    def test_text_goes_to_stdout_and_figures_to_stderr(self):
        done = self.run_ok("ask", "-c", "skerry", "What is the keeper called?")
        self.assertIn("Maren", done.out)
        self.assertTrue(done.out.endswith("\n"))
        self.assertRegex(done.err, r"reused [\d,]+ tokens, ran \d+ new; "
                                   r"first token after [\d.]+ \w+, second after [\d.]+ \w+; ")
        quiet = self.run_ok("ask", "-c", "skerry", "-q", "What is the keeper called?")
        self.assertEqual(quiet.out, done.out)
        self.assertEqual(quiet.err, "")
        self.assertEqual(self.run_ok("ask", "-c", "skerry", "-q",
                                     stdin="What is the keeper called?\n").out, done.out)

    def test_greedy_answers_repeat_and_seeds_decide_drawn_ones(self):
        ask = ("ask", "-c", "skerry", "Tell me a story.", "--max-tokens", 24, "-q")
        self.assertEqual(self.run_ok(*ask).out, self.run_ok(*ask).out)
        drawn = (*ask, "--temp", "1.5", "--top-k", "0", "--top-p", "1", "--min-p", "0")
        self.assertEqual(self.run_ok(*drawn, "--seed", 1).out, self.run_ok(*drawn, "--seed", 1).out)
        self.assertNotEqual(self.run_ok(*drawn, "--seed", 1).out,
                            self.run_ok(*drawn, "--seed", 2).out)

    def test_plans_are_taken_and_bad_ones_point_at_the_column(self):
        done = self.run_json("ask", "-c", "skerry", "Who?", "--max-tokens", 4, "--plan",
                             "topk(k=8,sink=4,window=16); layers 0: full")
        self.assertIn("topk", done["plan"])
        self.assert_fails(USAGE, "ask", "-c", "skerry", "Who?", "--plan", "topk(k=)",
                          says=["column"])
        self.assert_fails(USAGE, "ask", "-c", "skerry", "Who?", "--plan", "magic", says=["magic"])
        done = self.run_json("ask", "-c", "skerry", "Who?", "--max-tokens", 4)
        self.assertTrue(done["plan"].startswith("auto(error=0.01"), done["plan"])
        for plan in ("auto(error=0.03", "mass(p=0.9,bits=8,remainder=sample:64"):
            done = self.run_json("ask", "-c", "skerry", "Who?", "--max-tokens", 4, "--plan",
                                 plan + ")")
            self.assertTrue(done["plan"].startswith(plan), done["plan"])

    def test_explain_shows_what_was_attended_to(self):
        ask = ("ask", "-c", "skerry", "Who?", "--max-tokens", 4, "--explain", "--plan",
               "topk(k=8,sink=4,window=16)")
        layers = self.run_json(*ask)["explain"]["layers"]
        self.assertEqual(len(layers), 30)
        for layer in layers:
            self.assertEqual((layer["ran"], layer["substitutes"]), (layer["plan"], []))
            self.assertEqual(layer["selected_mean"], 8)
            self.assertGreater(layer["bytes_touched"], 0)
            self.assertGreater(layer["score_us"], 0)
            self.assertGreater(layer["attend_us"], 0)
        self.assertRegex(self.run_ok(*ask, "--verbose").err, r"0-29 +topk\(k=8,sink=4,window=16\)")
        self.assertRegex(self.run_ok(*ask).err, r"layers +30 search \(90 of 90 kv heads\), 0 read")
        both = subprocess.run([cli_case.attndb(), *map(str, ask)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, cwd=cli_case.ROOT, check=True,
                              env=cli_case.environment(self.store)).stdout.decode()
        self.assertRegex(both, r"\nreused \d+ tokens, ran ", "statistics begin a line")
        self.check_what_ran_instead_of_an_index()

    def check_what_ran_instead_of_an_index(self):
        done = self.run_ok("ask", "-c", "skerry", "Who?", "--max-tokens", 2, "--explain", "--json",
                           "--plan", "topk(k=8,sink=4,window=16,index=graph)")
        explained = done.json()["explain"]
        [substitute] = explained["substitutes"]
        self.assertEqual((substitute["ran"], substitute["wanted"]), ("index=flat", "index=graph"))
        self.assertRegex(substitute["because"], "^(not built|too few tokens.*2,048)$")
        for layer in explained["layers"]:
            self.assertEqual(layer["ran"], "topk(k=8,sink=4,window=16)")
            [own] = layer["substitutes"]
            self.assertEqual({**own, "share": 1}, {**substitute, "share": 1})
        self.assertIn("ran       index=flat instead of index=graph: " + substitute["because"],
                      done.err)

    def test_a_check_that_differs_has_its_own_exit_code(self):
        done = self.run_any("ask", "-c", "skerry", "What is the keeper called?", "--check",
                            "--max-tokens", 12, "--plan", "window(sink=1,window=4)")
        self.assertEqual(done.code, DIFFERS, done)
        self.assertRegex(done.err, r"\Acheck: behind the answer, plain llama.cpp reads the whole "
                                   r"prompt of \d+ tokens once; that takes about [\d.]+ m?s\n",
                         "before it is waited for")
        self.assertRegex(done.err, r"differs: attndb \(plan window\(.*\)\) chose .*, plain "
                                   r"llama.cpp .* after the same tokens\n"
                                   r"check: llama.cpp's logits of these two tokens are [\d.]+ "
                                   r"apart; .*change that by [\d.]+ here, by [\d.]+ at most: "
                                   r"more than rounding: the plan's approximation, which "
                                   r"--plan full is without\n")

    def test_what_cannot_be_asked(self):
        self.assert_fails(NOT_FOUND, "ask", "-c", "nobody", "Who?", says=["nobody"])
        self.assert_fails(USAGE, "ask", "-c", "skerry", says=["question"])
        self.assert_fails(USAGE, "ask", "-c", "skerry", "Who?", "--check", "--temp", "1",
                          says=["--temp"])
        self.assert_fails(USAGE, "ask", "-c", "skerry", "Who?", "--max-tokens", "0")

    def test_max_tokens_is_kept(self):
        done = self.run_json("ask", "-c", "skerry", "Tell me a story.", "--max-tokens", 7)
        self.assertEqual(done["generated_tokens"], 7)
        self.assertEqual(done["finish"], "max_tokens")

    def test_raw_text_goes_on_as_raw_text(self):
        self.run_ok("import", "-", "--name", "raw", "--raw", stdin="One, two, three, four,")
        done = self.run_json("ask", "-c", "raw", " five, six,", "--max-tokens", 4, "--check")
        self.assertIn("seven", done["answer"])
        self.assertTrue(done["check"]["within_spread"], done)

    def test_an_open_pipe_that_closes_ends_the_answer(self):
        command = (f"'{cli_case.attndb()}' ask -c skerry 'Tell me a long story.' --max-tokens 400 "
                   "| head -c 10 >/dev/null")
        done = subprocess.run(["bash", "-c", command], env=cli_case.environment(self.store),
                              cwd=cli_case.ROOT, capture_output=True, timeout=120, check=False)
        self.assertEqual(done.returncode, OK)

    def test_explain_a_plan_and_a_prompt(self):
        text = self.run_ok("explain", "skerry", "--plan", "topk(k=8); layers 0: full").out
        self.assertIn("29 search (87 of 90 kv heads), 1 reads everything", text)
        self.assertLessEqual(len(text.splitlines()), 8)
        self.assertLessEqual(max(map(len, text.splitlines())), 100)
        tables = self.run_ok("explain", "skerry", "--verbose", "--plan",
                             "topk(k=8); layers 0: full").out
        self.assertIn("topk", tables)
        self.assertIn("runs [why]", tables)
        ruled = self.run_json("explain", "skerry", "--plan", "auto(rules=alaya,memory=24)")
        self.assertEqual(ruled["layers"][7]["reason"], "Fig. 8: short context: full")
        explained = self.run_json("explain", "skerry")
        self.assertEqual(len(explained["layers"]), 30)
        missing = self.run_json("explain", "skerry", "--plan", "topk(k=8,index=graph)")
        [substitute] = missing["substitutes"]
        self.assertEqual((substitute["ran"], substitute["wanted"]), ("index=flat", "index=graph"))
        self.assertAlmostEqual(substitute["share"], 1)
        self.assertRegex(substitute["because"], "^(not built|too few tokens.*2,048)$")
        self.assertEqual(missing["layers"][7]["ran"], "topk(k=8,sink=16,window=128)")
        text = self.run_ok("explain", "skerry", "--plan", "topk(k=8,index=graph)").out
        self.assertIn("ran       index=flat instead of index=graph: " + substitute["because"], text)
        path = self.write("t.txt", TEXT + "More.")
        hit = self.run_json("explain", "--file", path)
        self.assertGreater(hit["num_reused"], 100)
        self.assertEqual(hit["context"], "skerry")
        miss = self.run_json("explain", "--prompt", "Something else.", "--raw")
        self.assertEqual(miss["num_reused"], 0)
        self.assert_fails(USAGE, "explain")
        self.assert_fails(NOT_FOUND, "explain", "nobody")


class ChatTest(AnswerCase):
    def test_a_later_process_continues(self):
        first = self.run_json("chat", "-c", "skerry", "--max-tokens", 24,
                              stdin="What is the keeper called?\n\nWhen was it built?\n")
        self.assertEqual(first["name"], "skerry.chat")
        self.assertEqual(len(first["turns"]), 2)
        self.assertIn("Maren", first["turns"][0]["answer"])
        kept = self.run_json("describe", "skerry.chat")
        self.assertEqual(kept["title"], "What is the keeper called?")
        names = [context["name"] for context in self.run_json("ls")["contexts"]]
        self.assertEqual(sorted(names), ["skerry", "skerry.chat"])

        second = self.run_json("chat", "-c", "skerry", "--max-tokens", 16,
                               stdin="How often does the lamp shine?\n")
        turn = second["turns"][0]
        self.assertEqual(turn["reused_tokens"], kept["num_tokens"])
        self.assertLess(turn["new_tokens"], 40)
        grown = self.run_json("describe", "skerry.chat")
        self.assertGreater(grown["num_tokens"], kept["num_tokens"])
        self.assertEqual(grown["title"], "What is the keeper called?")
        by_name = self.run_json("chat", "--name", "skerry.chat", "--max-tokens", 4,
                                stdin="Thanks.\n")
        self.assertEqual(by_name["name"], "skerry.chat")

    def test_a_chat_says_what_it_goes_on_with(self):
        chat = ("chat", "-c", "skerry", "--max-tokens", 4)
        self.run_ok(*chat, stdin="Who?\n")
        self.assertIn("goes on with 'skerry.chat'\n", self.run_ok(*chat, stdin="And?\n").err)
        changed = "which begins with another text than 'skerry' has now"
        self.run_ok("append", "skerry", "-", stdin="The doctor is called Bo.")
        self.assertIn(changed, self.run_ok(*chat, stdin="And?\n").err)
        self.run_ok("import", "-", "--name", "skerry", "--replace", stdin="Another document.")
        self.assertIn(changed, self.run_ok(*chat, stdin="And?\n").err)
        named = self.run_ok("chat", "--name", "skerry.chat", stdin="")
        self.assertIn("goes on with 'skerry.chat'\n", named.err)
        self.run_ok("mv", "skerry", "island")
        self.assert_fails(NOT_FOUND, *chat, stdin="And?\n",
                          says=["skerry", "--name skerry.chat"])
        self.run_ok("import", "-", "--name", "skerry", stdin=TEXT)
        self.assertIn("goes on with 'skerry.chat'\n", self.run_ok(*chat, stdin="And?\n").err)

    def test_two_processes_say_what_one_says(self):
        questions = ["What is the keeper called?", "Where is the spare key?"]
        one = self.run_json("chat", "-c", "skerry", "--name", "one", "--max-tokens", 20,
                            stdin="\n".join(questions) + "\n")
        answers = [turn["answer"] for turn in one["turns"]]
        two = [self.run_json("chat", "-c", "skerry", "--name", "two", "--max-tokens", 20,
                             stdin=question + "\n")["turns"][0]["answer"]
               for question in questions]
        self.assertEqual(two, answers)

    def test_a_pipe_gets_one_answer_a_line_turn(self):
        done = self.run_ok("chat", "-c", "skerry", "-q", "--max-tokens", 12, stdin="Who?\nWhen?\n")
        self.assertGreaterEqual(len(done.out.splitlines()), 2)
        self.assertEqual(done.err, "")
        self.assertEqual(self.run_ok("chat", "-c", "skerry", "-q", stdin="").out, "")

    def test_a_chat_never_replaces_a_document(self):
        self.run_ok("import", "-", "--name", "other", stdin="Another document.")
        for name in ("skerry", "other"):
            self.assert_fails(USAGE, "chat", "-c", "skerry", "--name", name, stdin="Who?\n",
                              says=["document"])
        self.assert_fails(NOT_FOUND, "chat", "--name", "nobody", stdin="Who?\n")
        self.assert_fails(USAGE, "chat", stdin="Who?\n")

    def test_a_chat_can_be_asked(self):
        self.run_ok("chat", "-c", "skerry", "--max-tokens", 12, stdin="I am called Bo. Hello!\n")
        done = self.run_json("ask", "-c", "skerry.chat", "What is the keeper called?", "--check",
                             "--max-tokens", 16)
        self.assertTrue(done["check"]["within_spread"], done)

    def test_commands_say_and_change_what_is_asked(self):
        self.run_ok("import", "-", "--name", "other", stdin="The mill of Brae was built in 1912.")
        lines = ["/context", "Who is the keeper?", "/plan window(sink=4,window=64)",
                 "/context other", "When was the mill built?", "/quit", "Never asked?"]
        done = self.run_any("chat", "-c", "skerry", "--max-tokens", 4, "--json",
                            stdin="\n".join(lines) + "\n")
        self.assertEqual(done.code, OK, done)
        turns = done.json()["turns"]
        self.assertEqual([turn["question"] for turn in turns], [lines[1], lines[4]])
        self.assertEqual([turn["name"] for turn in turns], ["skerry.chat", "other.chat"])
        self.assertEqual(done.json()["name"], "other.chat")
        self.assertRegex(done.err, r"'skerry', \d+ tokens with what was said; turns are stored as "
                                   r"'skerry.chat'\n")
        self.assertIn("\nplan window(sink=4,window=64)\n'other', ", done.err)
        self.assertEqual(self.run_json("describe", "other.chat")["name"], "other.chat")

    def test_a_wrong_command_ends_a_pipe(self):
        for line, code, says in (("/frobnicate", USAGE, "/help lists them"),
                                 ("/plan nonsense", USAGE, "nonsense"),
                                 ("/context nobody", NOT_FOUND, "nobody"),
                                 ("/context #99", NOT_FOUND, "#99")):
            self.assert_fails(code, "chat", "-c", "skerry", stdin=line + "\nWho?\n", says=[says])
        names = [context["name"] for context in self.run_json("ls")["contexts"]]
        self.assertEqual(names, ["skerry"])


class TerminalTest(AnswerCase):
    """A chat on a terminal, with editing of lines (xterm) and without (dumb)."""

    def setUp(self):
        super().setUp()
        self.history = self.dir / "state" / "attndb" / "chat_history"

    def talk(self, terminal, *typed):
        """Types each when it is asked; (exit code, what the terminal showed)."""
        env = cli_case.environment(self.store)
        env.update(TERM=terminal, XDG_STATE_HOME=str(self.dir / "state"))
        process, screen = pty.fork()
        if process == 0:
            os.execve(cli_case.attndb(),
                      ["attndb", "chat", "-c", "skerry", "--max-tokens", "4"], env)
        shown = b""
        for keys in (*typed, None):
            begin = len(shown)
            while keys is None or b"\n> " not in shown[begin:]:
                ready, _, _ = select.select([screen], [], [], 120)
                self.assertTrue(ready, shown)
                try:
                    part = os.read(screen, 4096)
                except OSError:  # The other end is closed.
                    part = b""
                if not part:
                    break
                shown += part
            if keys is not None:
                os.write(screen, keys)
        os.close(screen)
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), shown

    def test_there_is_a_prompt_and_ctrl_d_ends(self):
        for terminal in ("dumb", "xterm"):
            code, shown = self.talk(terminal, b"/help\n", b"/frobnicate\n", b"Who?\n", b"\x04")
            self.assertEqual(code, OK, shown)
            self.assertIn(b"Ctrl-D", shown)
            self.assertIn(b"/context NAME", shown)
            self.assertIn(b"unknown command '/frobnicate'", shown)
            self.assertIn(b"tokens/s", shown)

    def test_ctrl_c_at_the_prompt_ends(self):
        for terminal in ("dumb", "xterm"):
            code, shown = self.talk(terminal, b"\x03")
            self.assertEqual(code, INTERRUPTED, shown)

    def test_lines_are_edited_and_come_back_in_a_later_chat(self):
        code, shown = self.talk("xterm", b"/planx\x7f\n", "/\u0444x\x7f\n".encode(), b"/quit\n")
        self.assertEqual(code, OK, shown)
        if not self.history.exists():
            self.skipTest("a build without libedit")
        self.assertIn(b"plan auto(error=0.01)", shown)
        self.assertIn("unknown command '/\u0444'".encode(), shown)
        self.assertEqual(self.history.stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.history.parent.stat().st_mode & 0o777, 0o700)
        code, shown = self.talk("xterm", b"\x1b[A\x1b[A\x1b[A\n", b"\x04")  # Three lines up.
        self.assertEqual(code, OK, shown)
        self.assertIn(b"plan auto(error=0.01)", shown)

    def test_a_history_that_can_not_be_written_ends_nothing(self):
        (self.dir / "state").write_text("a file")
        code, shown = self.talk("xterm", b"/plan\n", b"/quit\n")
        self.assertEqual(code, OK, shown)
        self.assertIn(b"plan auto(error=0.01)", shown)


if __name__ == "__main__":
    cli_case.main(needs_model=True)
