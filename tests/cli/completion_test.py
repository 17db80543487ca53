#!/usr/bin/env python3
"""Goal: shells complete what the command line has, the manual page says it, and neither makes or
locks a store.

Method: the scripts are checked by the shells that are here; bash's function is called as readline
calls it, and what it offers compared with --help; roff's own warnings judge the page.
"""

import fcntl
import os
import re
import shlex
import shutil
import subprocess
import unittest

import cli_case
from cli_case import CliCase, USAGE
from kv_file_test import KvFile

# What readline would do: PROGRAM's words, the last of them being completed.
CALL_BASH = """
source <(attndb completion bash)
COMP_WORDS=(%s)
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_attndb
printf '%%s\\n' "${COMPREPLY[@]}"
"""


class CompletionCase(CliCase):
    def setUp(self):
        super().setUp()
        programs = self.dir / "programs"
        programs.mkdir()
        (programs / "attndb").symlink_to(cli_case.attndb())
        self.env = cli_case.environment(self.store)
        self.env["PATH"] = f"{programs}:{self.env['PATH']}"

    def shell(self, *command, **options):
        done = subprocess.run(command, env=self.env, cwd=self.dir, capture_output=True, text=True,
                              timeout=60, check=False, **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""), command)
        return done.stdout

    def offered(self, *words):
        """What bash offers for the last word."""
        quoted = " ".join(shlex.quote(word) for word in ("attndb", *words))
        return [line for line in self.shell("bash", "-c", CALL_BASH % quoted).split("\n") if line]

    def flags(self, *command):
        options = self.run_ok(*command, "--help").out.split("\nExamples:")[0]
        names = [line.split("  ")[1] for line in options.split("\n") if line.startswith("  -")]
        return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", " ".join(names)))


class BashTest(CompletionCase):
    def test_commands_are_those_of_the_help(self):
        self.assertEqual(set(self.offered("")), {*self.commands(), "help"})
        self.assertEqual(self.offered("desc"), ["describe"])
        self.assertEqual(self.offered("--db", "x", "desc"), ["describe"])
        self.assertEqual(set(self.offered("help", "")), {*self.commands(), "help"})

    def test_flags_of_a_command_are_those_of_its_help(self):
        self.assertEqual(set(self.offered("-")), self.flags())
        for command in self.commands():
            with self.subTest(command=command):
                self.assertEqual(set(self.offered(command, "-")), self.flags(command))

    def test_files_and_folders_are_offered_where_they_are_meant(self):
        (self.dir / "book.txt").write_text("x")
        (self.dir / "books").mkdir()
        self.assertEqual(self.offered("simulate", "--trace", "boo"), ["book.txt", "books"])
        self.assertEqual(self.offered("simulate", "--trace", "=", "boo"), ["book.txt", "books"])
        self.assertEqual(self.offered("ls", "--db", "boo"), ["books"])
        self.assertEqual(self.offered("ls", "--sort", ""), [])
        self.assertEqual(self.offered("completion", ""), ["bash", "zsh", "fish"])

    def test_contexts_are_offered_by_name(self):
        for name in ("book", "bible", "other"):
            file = KvFile(tokens=[len(name), 2, 3]).write(self.dir / "file")
            self.run_ok("import", "--safetensors", file, "--name", name, "--tenant",
                        "alice" if name == "other" else "default")
        self.assertEqual(self.offered("describe", "b"), ["book", "bible"])
        self.assertEqual(self.offered("rm", "book", "bi"), ["bible"])
        self.assertEqual(self.offered("describe", "--json", "bo"), ["book"])
        self.assertEqual(self.offered("--tenant", "alice", "describe", ""), ["other"])
        self.assertEqual(self.offered("describe", "--tenant", "alice", ""), ["other"])
        self.assertEqual(self.offered("ttl", "book", ""), [])
        with open(self.store / "LOCK", "rb") as lock:  # Beside another writer.
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assertEqual(self.offered("pin", "boo"), ["book"])

    def test_without_a_store_nothing_is_offered_and_none_is_made(self):
        self.assertEqual(self.offered("describe", ""), [])
        self.assertFalse(self.store.exists())


class ScriptTest(CompletionCase):
    def test_the_shells_that_are_here_can_read_their_scripts(self):
        for shell in ("bash", "zsh", "fish"):
            with self.subTest(shell=shell):
                script = self.run_ok("completion", shell).out
                for command in self.commands():
                    self.assertIn(command, script)
                if shutil.which(shell):
                    self.shell(shell, "-n", input=script)

    @unittest.skipUnless(shutil.which("fish"), "no fish")
    def test_fish_offers_what_bash_does(self):
        self.env["HOME"] = str(self.dir)
        def offered(line):
            text = self.shell("fish", "--no-config", "-c",
                              "attndb completion fish | source; complete -C " + shlex.quote(line))
            return [row.split("\t")[0] for row in text.split("\n") if row]
        self.assertEqual(set(offered("attndb ")), {*self.commands(), "help"})
        self.assertIn("--sort", offered("attndb ls --"))
        self.assertNotIn("--sort", offered("attndb rm --"))
        self.assertEqual(offered("attndb completion "), ["bash", "fish", "zsh"])

    def test_another_shell_is_refused(self):
        self.assert_fails(USAGE, "completion", "tcsh",
                          says=["expected bash, zsh or fish, found 'tcsh'"])
        self.assert_fails(USAGE, "completion", says=["bash|zsh|fish is missing"])

    def test_it_needs_neither_a_store_nor_good_variables(self):
        for args in (["completion", "bash"], ["man"]):
            self.run_ok(*args, env={"ATTNDB_URL": "http://127.0.0.1:1", "ATTNDB_ISA": "neon"})
        self.assertFalse(self.store.exists())
        self.assertIn("_attndb", self.run_json("completion", "zsh")["text"])


class ManPageTest(CompletionCase):
    def test_it_has_every_command_and_flag_of_the_help(self):
        page = self.run_ok("man").out.replace("\\-", "-")
        self.assertTrue(page.startswith('.TH ATTNDB 1 "" "attndb '))
        for command in self.commands():
            section = page.split(f"\n.SS {command}\n")[1].split("\n.S")[0]
            for flag in self.flags(command) - self.flags():
                self.assertIn(f"\\fB{flag}\\fR", section, command)

    @unittest.skipUnless(shutil.which("groff"), "no groff")
    def test_roff_has_nothing_against_it(self):
        text = self.shell("groff", "-man", "-Tutf8", "-ww", "-z", input=self.run_ok("man").out)
        self.assertEqual(text, "")


if __name__ == "__main__":
    cli_case.main()
