#!/usr/bin/env python3
"""Goal: the command line explains itself, and refuses what it does not understand, without a model.

Method: help of every command; wrong words, flags and values; stores that are missing or unusable.
"""

import os
import re
import signal
import subprocess
import unittest

import cli_case
from cli_case import CliCase, DAMAGE, ERROR, NOT_FOUND, OK, UNSUPPORTED, USAGE, has_engine

ENGINE_COMMANDS = ["import", "append", "ask", "chat", "find", "serve", "explain", "cat", "capture"]
COMMANDS = ["import", "append", "export", "ask", "chat", "find", "serve", "ls", "describe",
            "explain", "cat", "mv", "rm", "pin", "ttl", "quota", "declare-equal", "verify", "build",
            "compact", "stats", "doctor", "simulate", "capture", "plot", "completion", "man"]


def commands_of_this_build():
    """Those whose flags it knows."""
    return [name for name in COMMANDS if has_engine() or name not in ENGINE_COMMANDS]


class HelpTest(CliCase):
    def test_the_help_lists_every_command(self):
        help_text = self.run_ok("--help").out
        for command in COMMANDS:
            self.assertRegex(help_text, rf"\n  {command} ")
        self.assertIn("Exit codes:", help_text)
        listed = help_text.split("\nCommands:\n")[1].split("\n\n")[0]
        self.assertEqual(set(re.findall(r"^  ([a-z-]+)", listed, re.MULTILINE)), set(COMMANDS))

    def test_help_is_a_command_too(self):
        self.assertEqual(self.run_ok().out, self.run_ok("--help").out)
        self.assertEqual(self.run_ok("help").out, self.run_ok("--help").out)
        self.assertEqual(self.run_ok("help", "ls").out, self.run_ok("ls", "--help").out)
        self.assert_fails(USAGE, "help", "lst", says=["unknown command 'lst'", "mean 'ls'?"])
        self.assert_fails(USAGE, "lst", "--help", says=["unknown command 'lst'"])

    def test_every_command_has_help_with_examples_and_the_common_options(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                help_text = self.run_ok(command, "--help").out
                self.assertIn("Examples:\n  ", help_text)
                for flag in ("--db", "--tenant", "--json", "--quiet", "--wait"):
                    self.assertIn(flag, help_text)

    def test_every_example_of_the_help_has_flags_that_exist(self):
        for command in commands_of_this_build():
            help_text = self.run_ok(command, "--help").out
            options, examples = help_text.split("Examples:")
            for flag in re.findall(r" (--[a-z-]+)", examples):
                self.assertIn(flag, options, command)

    def test_the_version(self):
        self.assertRegex(self.run_ok("--version").out, r"^attndb \d+\.\d+\.\d+\n$")


class UsageTest(CliCase):
    def test_what_is_not_understood_is_a_usage_error_that_points_at_the_help(self):
        for args in (["frobnicate"], ["ls", "--no-such-flag"], ["describe"], ["rm"],
                     ["ttl", "x"], ["ls", "--wait", "soon"]):
            with self.subTest(args=args):
                self.assert_fails(USAGE, *args, says=["--help"])

    def test_what_is_meant_is_guessed(self):
        for args, says in ((["lst"], "unknown command 'lst'; did you mean 'ls'?"),
                           (["frobnicate", "x"], "unknown command 'frobnicate'; see"),
                           (["--jsn", "ls"], "unknown option --jsn; did you mean --json?"),
                           (["ls", "--sever", "x"],
                            "unknown option --sever; did you mean --server?"),
                           (["ls", "--sorted=name"],
                            "unknown option --sorted; did you mean --sort?"),
                           (["describe", "a", "b"], "unexpected argument 'b'"),
                           (["describe"], "CONTEXT is missing"),
                           (["rm"], "CONTEXT is missing"),
                           (["build", "a"], "--index INDEX is missing"),
                           (["ls", "--wait", "soon"],
                            "--wait: expected a number from 0 to 31536000, found 'soon'"),
                           (["ls", "--wait", "-1"], "found '-1'"),
                           (["compact", "--segment-tokens", "1.5"],
                            "--segment-tokens: expected a whole number from 1 to"),
                           (["ls", "--sort", "age"], "--sort: expected created, used")):
            with self.subTest(args=args):
                self.assert_fails(USAGE, *args, says=[says])
        if has_engine():
            self.assert_fails(USAGE, "import", "x", "--kv-dtype", "q8_0",
                              says=["--kv-dtype: expected f16, bf16 or f32, found 'q8_0'"])

    def test_bench_says_that_it_is_a_program_of_its_own(self):
        for args in (["bench"], ["bench", "attention", "--tokens", "500"],
                     ["--db", self.store, "bench", "index"]):
            with self.subTest(args=args):
                self.assert_fails(USAGE, *args, says=["no command", "attndb-bench", "make bench"])
        # As a value it means itself.
        self.assert_fails(NOT_FOUND, "describe", "bench", says=["attndb import"])

    def test_a_question_needs_a_context(self):
        if not has_engine():
            self.skipTest("no engine")
        self.assert_fails(USAGE, "ask", "a question", says=["--context", "--find"])

    def test_a_build_without_an_engine_says_how_to_get_one(self):
        if has_engine():
            self.skipTest("this build has one")
        for command in ENGINE_COMMANDS:
            self.assert_fails(UNSUPPORTED, command, "x", says=["-DATTNDB_BUILD_LLAMA=ON"])

    def test_values_are_checked_before_anything_is_done(self):
        self.assert_fails(USAGE, "ttl", "x", "soon", says=["'soon'", "7d"])
        self.assert_fails(USAGE, "quota", "much", says=["'much'"])
        self.assert_fails(USAGE, "quota", "0", says=["quota none"])
        for tokens in ("0", "-1", "many", str(2**31 + 1)):
            self.assert_fails(USAGE, "compact", "--segment-tokens", tokens,
                              says=["--segment-tokens"])
        self.assert_fails(USAGE, "build", "a", says=["--index"])
        self.assert_fails(USAGE, "build", "a", "--index", "pq", "--m", "0", says=["--m"])
        self.assert_fails(USAGE, "declare-equal", "a", "hex:0", says=["hex:0", "digits"])
        self.assert_fails(USAGE, "declare-equal", "a", "a", says=["one fingerprint"])
        self.assertFalse(self.store.exists())

    def test_a_file_from_stdin_needs_a_name(self):
        if not has_engine():
            self.skipTest("no engine")
        self.assert_fails(USAGE, "import", "-", says=["--name"], stdin="text")
        self.assert_fails(NOT_FOUND, "import", self.dir / "no.txt", says=["no.txt"])
        self.assert_fails(USAGE, "import", self.dir, says=["is a folder"])
        self.assert_fails(USAGE, "import", self.write("empty.txt", ""), says=["is empty"])
        self.assert_fails(USAGE, "ask", "-c", "x", "", says=["the question is empty"])
        for content, says in ((b"caf\xe9", "is not UTF-8 at byte 3"),
                              (b"GGUF\x03\0\0\0", "GGUF model"),
                              (b"\x40" + 7 * b"\0" + b'{"a": 1}', "is a safetensors file")):
            path = self.dir / "text.txt"
            path.write_bytes(content)
            self.assert_fails(USAGE, "import", path, says=["text.txt", says])
        with open(path, "wb") as huge:
            huge.truncate(1 << 34)  # Sparse.
        self.assert_fails(USAGE, "import", path, says=["more than 1 GiB"])
        self.assertFalse(self.store.exists())


class StoreTest(CliCase):
    def test_reading_a_store_that_is_not_there_says_how_to_make_one(self):
        for args in (["ls"], ["stats"], ["describe", "x"], ["rm", "x"], ["pin", "x"],
                     ["ttl", "x", "1h"], ["verify"], ["compact"], ["quota"],
                     ["build", "x", "--index", "pq"], ["declare-equal", "a", "b"]):
            with self.subTest(args=args):
                self.assert_fails(NOT_FOUND, *args, says=["attndb import"])
        self.assertFalse(self.store.exists())

    def test_db_names_the_store_rather_than_the_environment(self):
        other = str(self.dir / "other")
        done = self.assert_fails(NOT_FOUND, "ls", "--db", other)
        self.assertIn(other, done.err)

    def test_a_file_or_foreign_folder_is_no_store(self):
        self.store.write_text("hello")
        done = self.run_any("ls")
        self.assertIn(done.code, (ERROR, USAGE, NOT_FOUND, DAMAGE, UNSUPPORTED), done)
        self.assertEqual(self.store.read_text(), "hello")

class DoctorTest(CliCase):
    def test_doctor_reports_machine_store_engine_and_environment(self):
        text = self.run_ok("doctor", "--fast").out
        for title in ("machine\n", "store\n", "engine\n", "environment\n", "ATTNDB_PATH"):
            self.assertIn(title, text)
        report = self.run_json("doctor", "--fast")
        self.assertGreaterEqual(report["machine"]["num_cores"], 1)
        self.assertEqual(report["environment"]["ATTNDB_PATH"], str(self.store))
        self.assertFalse(self.store.exists())
        # Without an engine there is nothing to try.
        self.assertEqual(report["engine"]["forward"] is not None, has_engine())
        self.assertEqual(bool(report["engine"]["instruction_sets"]), has_engine())

    def test_doctor_measures_and_leaves_nothing(self):
        report = self.run_json("doctor")
        self.assertGreater(report["machine"]["read_bandwidth_one_core"], 1e8)
        self.assertGreater(report["store"]["fsync_seconds"], 0)
        self.assertGreater(report["store"]["read_bytes_per_second"], 1e5)
        self.assertEqual(list(self.dir.iterdir()), [])

    def test_variables_that_can_not_be_read_are_refused_and_told(self):
        for name, value, says in (("ATTNDB_THREADS", "lots", "a whole number from 1 to 1024"),
                                  ("ATTNDB_THREADS", "0", "a whole number"),
                                  ("ATTNDB_ISA", "neon", "scalar, avx2, avx512 or avx512vnni")):
            with self.subTest(name=name, value=value):
                self.assert_fails(USAGE, "ls", env={name: value},
                                  says=[f"{name}: expected {says}", f"found '{value}'"])
                warnings = self.run_json("doctor", "--fast", env={name: value})["warnings"]
                self.assertTrue(any(name in warning for warning in warnings), warnings)
        report = self.run_json("doctor", "--fast", env={"ATTNDB_KEY": "open-sesame"})
        self.assertEqual(report["environment"]["ATTNDB_KEY"], "(set)")

    def test_doctor_warns_of_scalar_kernels(self):
        done = self.run_ok("doctor", "--fast", env={"ATTNDB_ISA": "scalar"})
        self.assertIn("WARNING  the scalar kernels", done.out)
        self.assertEqual(done.code, OK)


class OutputTest(CliCase):
    def test_a_reader_that_goes_is_no_error(self):
        signals = {"preexec_fn": lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN)}
        read, write = os.pipe()
        os.close(read)
        with open(write, "wb") as pipe:
            done = subprocess.run([cli_case.attndb(), "--help"], stdout=pipe,
                                  stderr=subprocess.PIPE, check=False, **signals)
        self.assertEqual((done.returncode, done.stderr), (OK, b""))

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_a_full_disk_behind_stdout_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([cli_case.attndb(), "--version"], stdout=full,
                                  stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, ERROR)
        self.assertIn(b"stdout", done.stderr)


if __name__ == "__main__":
    cli_case.main()
