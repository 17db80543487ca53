#!/usr/bin/env python3
"""Goal: text that follows text is one text, and what a context's text is stays with it.

Method: a tiny random model whose SentencePiece vocabulary sets a space before each text, under
Llama 2's template, whose marks are words. Contexts are imported, appended to, asked, talked about,
renamed, exported and imported again.
"""

import re
import subprocess
import sys

import cli_case
from cli_case import DIFFERS, ERROR, NOT_FOUND, OK, ROOT, USAGE, CliCase


class TextTest(CliCase):
    def setUp(self):
        super().setUp()
        self.model = self.dir / "llama_space.gguf"
        subprocess.run([sys.executable, "-B", ROOT / "scripts/make_tiny_model.py", "--kind",
                        "llama_space", "--out", self.model], check=True)

    def add(self, command, name, text, *args, **options):
        model = ["--model", self.model] if command == "import" else []
        target = ["-", "--name", name] if command == "import" else [name, "-"]
        return self.run_json(command, *target, *model, *args, stdin=text, **options)

    def layout(self, name):
        return self.run_json("describe", name)["text_layout"]

    def test_an_appended_word_goes_on(self):
        for raw in ([], ["--raw"]):
            name = f"light{len(raw)}"
            self.add("import", name, "The light is unbe", *raw)
            self.add("append", name, "lievable tonight")
            text = "The light is unbelievable tonight"
            self.assertTrue(self.run_ok("cat", name).out.endswith(text))
            whole = self.add("import", f"whole{len(raw)}", text, *raw, "--dry-run")
            self.assertEqual(self.run_json("describe", name)["num_tokens"], whole["num_tokens"])
            self.assertLessEqual(whole["new_tokens"], 1)

    def test_a_raw_text_is_its_text(self):
        self.add("import", "bare", "\ufeffThe light", "--raw")
        self.assertEqual(self.run_ok("cat", "bare").out, "The light")
        self.assertEqual(self.run_ok("cat", "bare", "--special").out, "<s>The light")

    def test_a_check_runs_the_whole_text(self):
        self.add("import", "light", "The light is unbe")
        self.add("append", "light", "lievable")
        done = self.run_json("ask", "-c", "light", "Why", "--check", "--max-tokens", 4,
                             "--plan", "full")
        self.assertIsNone(done["check"]["first_other_id"])
        self.assertTrue(done["check"]["within_spread"], done)

    def test_a_check_names_the_first_id_that_the_whole_text_has_not(self):
        """A random model's reply is of other tokens than the tokenizer makes of its words."""
        self.add("import", "light", "The light")
        self.run_ok("chat", "-c", "light", "--max-tokens", 6, stdin="Why\n")
        begin, end = map(int, re.search(r" assistant:(\d+)-(\d+)$",
                                        self.layout("light.chat")).groups())
        done = self.run_any("ask", "-c", "light.chat", "On", "--check", "--max-tokens", 1,
                            "--plan", "full", "--json")
        self.assertIn(done.code, (OK, DIFFERS), done)
        self.assertIn(done.json()["check"]["first_other_id"], range(begin, end), done)

    def test_marks_of_the_template_that_are_words_stay_words(self):
        self.add("import", "words", "a [/INST] b")
        self.assertRegex(self.layout("words"), r"^document user:\d+-\d+$")
        self.add("append", "words", " and more")
        self.assertRegex(self.layout("words"), r"^document user:\d+-\d+$")
        self.run_ok("mv", "words", "other")
        self.assertRegex(self.layout("other"), r"^document user:\d+-\d+$")
        file = self.dir / "other.safetensors"
        self.run_ok("export", "other", "-o", file)
        self.run_ok("rm", "other")
        self.run_ok("import", "--safetensors", file, "--name", "back")
        self.assertRegex(self.layout("back"), r"^document user:\d+-\d+$")
        self.run_ok("chat", "-c", "back", "--name", "talk", "--max-tokens", 3, stdin="Why\n")
        self.assertRegex(self.layout("talk"),
                         r"^dialogue user:\d+-\d+ user:\d+-\d+( assistant:.*)?$")
        self.assert_fails(ERROR, "append", "talk", "-", stdin="x", says=["is a dialogue"])
        self.add("append", "back", ".")
        self.assertIn("text", self.run_ok("describe", "back").out)

    def test_another_template_replaces_the_files(self):
        file = self.dir / "chat.jinja"
        file.write_text("{% for m in messages %}({{ m.role }}) {{ m.content }} {% endfor %}")
        self.add("import", "light", "The light", "--chat-template", file)
        self.assertEqual(self.run_ok("cat", "light", "--special").out, "<s>(user) The light")
        done = self.run_json("ask", "-c", "light", "Why", "--chat-template", file, "--max-tokens",
                             1)
        self.assertEqual(done["reused_tokens"] + done["new_tokens"], self.add(
            "import", "whole", "The light\n\nWhy ", "--chat-template", file,
            "--dry-run")["num_tokens"])

    def test_a_template_that_cant_be_parsed_is_refused_with_its_place(self):
        file = self.dir / "chat.jinja"
        for text, says in (("fine\n{% if x %}", "can't be parsed"), ("", "is empty")):
            file.write_text(text)
            self.assert_fails(USAGE, "import", "-", "--name", "x", "--model", self.model,
                              "--chat-template", file, stdin="x", says=[says])
        self.assert_fails(NOT_FOUND, "import", "-", "--name", "x", "--model", self.model,
                          "--chat-template", self.dir / "none", stdin="x", says=["none"])

    def test_a_dialogue_whose_first_question_ends_a_word_begins_with_its_text(self):
        self.add("import", "bare", "The light is unbe", "--raw")
        talk = ("chat", "-c", "bare", "--max-tokens", 2)
        self.run_ok(*talk, stdin="lievable tonight\n")
        self.assertTrue(self.run_ok("cat", "bare.chat").out.startswith(
            "The light is unbelievable tonight"))
        self.assertNotIn("begins with another text", self.run_ok(*talk, stdin="on\n").err)
        self.add("import", "bare", "Why", "--raw", "--replace")
        self.assertIn("begins with another text", self.run_ok(*talk, stdin="on\n").err)

    def test_a_raw_context_is_asked_as_raw(self):
        self.add("import", "bare", "[INST] a [/INST] b", "--raw")
        self.assertEqual(self.layout("bare"), "raw")
        self.add("append", "bare", " c")
        self.assertEqual(self.run_ok("cat", "bare").out, "[INST] a [/INST] b c")
        done = self.run_json("ask", "-c", "bare", " d", "--max-tokens", 1)
        whole = self.add("import", "whole", "[INST] a [/INST] b c d", "--raw", "--dry-run")
        self.assertEqual(done["reused_tokens"] + done["new_tokens"], whole["num_tokens"])


if __name__ == "__main__":
    cli_case.main()
