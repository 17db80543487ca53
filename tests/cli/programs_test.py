#!/usr/bin/env python3
"""Goal: a command whose work another program does starts that program, in the same process. Where
the program was not built, the command says so, and what to do.

Method: `attndb` in folders of its own, alone and beside what it starts; a simulation that is ended
by a signal; the bytes of the programs. What a started server does is tested in tests/server.
"""

import os
import pathlib
import re
import shutil
import signal
import time
import unittest.mock

import cli_case
from cli_case import CliCase, ERROR, INTERRUPTED, NOT_FOUND, UNSUPPORTED, USAGE, has_engine

# Half an hour of work, which a signal ends.
LONG = ("simulate", "--conversations", 100_000, "--memory", ",".join(map(str, range(1, 60))))
SHORT = ("simulate", "--conversations", 100, "--policy", "lru")


def beside(name):
    return pathlib.Path(cli_case.attndb()).parent / name


class ProgramsTest(CliCase):
    def started(self):
        """{command: program}, of this build."""
        programs = {"simulate": "attndb-simulate"}
        if has_engine():
            programs["serve"] = "attndb-server"
        return programs

    def alone(self):
        """A copy of attndb in a folder of its own, which is the one that is run from here on."""
        folder = self.dir / "bin"
        folder.mkdir()
        copy = shutil.copy(cli_case.attndb(), folder / "attndb")
        patch = unittest.mock.patch.object(cli_case, "_attndb", str(copy))
        patch.start()
        self.addCleanup(patch.stop)
        return folder

    def test_a_program_that_was_not_built_is_named_and_how_to_build_it(self):
        folder = self.alone()
        for command, program in self.started().items():
            with self.subTest(command=command):
                said = [program, "is not there", str(folder / program), "'make build' builds it"]
                said += ["Boost 1.81"] if command == "serve" else []
                self.assert_fails(UNSUPPORTED, command, says=said)
        self.assertFalse(self.store.exists())

    def test_an_installed_attndb_does_not_advise_to_run_make(self):
        self.alone()
        advice = {"simulate": "install attndb again", "serve": "Boost 1.81"}
        for command in self.started():
            with self.subTest(command=command):
                done = self.assert_fails(UNSUPPORTED, command, says=[advice[command]],
                                         cwd=self.dir)
                self.assertNotIn("make build", done.err)

    def test_a_program_that_can_not_be_run_is_not_said_to_be_missing(self):
        folder = self.alone()
        for command, program in self.started().items():
            with self.subTest(command=command):
                (folder / program).write_text("")  # It has no right to be executed.
                said = [str(folder / program), "can't be run", "executable"]
                done = self.assert_fails(ERROR, command, says=said)
                self.assertNotIn("not there", done.err)
                self.assertNotIn("make build", done.err)

    def test_help_and_mistakes_need_no_other_program(self):
        self.alone()
        for command in self.started():
            self.assertIn("Examples:", self.run_ok(command, "--help").out)
            self.assert_fails(USAGE, command, "--no-such-flag", says=["--no-such-flag"])
        self.assert_fails(USAGE, "simulate", "--rate", "0", says=["--rate"])
        if has_engine():
            self.assert_fails(USAGE, "serve", "--port", "99999", says=["--port"])

    def test_doctor_says_which_programs_are_there(self):
        programs = self.run_json("doctor", "--fast")["programs"]
        for program in self.started().values():
            self.assertEqual(programs[program], str(beside(program)))
        self.alone()
        programs = self.run_json("doctor", "--fast")["programs"]
        self.assertEqual(programs, {"attndb-chat": None, "attndb-server": None,
                                    "attndb-simulate": None})
        self.assertIn("not built", self.run_ok("doctor", "--fast").out)

    def test_a_link_to_attndb_finds_what_lies_beside_the_file(self):
        link = self.dir / "link"
        link.symlink_to(cli_case.attndb())
        with unittest.mock.patch.object(cli_case, "_attndb", str(link)):
            self.assertIn("100 synthetic conversations", self.run_ok(*SHORT).out)

    def test_the_exit_code_is_the_programs(self):
        # attndb opens neither file.
        self.assert_fails(NOT_FOUND, *SHORT, "--trace", self.dir / "no.jsonl", says=["no.jsonl"])
        if has_engine():
            self.assert_fails(NOT_FOUND, "serve", "--keys", self.dir / "no.json", says=["no.json"])

    def test_it_is_the_same_process_and_signals_reach_it(self):
        process = self.start(*LONG)
        self.addCleanup(process.kill)
        folder = pathlib.Path("/proc", str(process.pid))
        deadline = time.monotonic() + 120
        bit = 1 << (signal.SIGTERM - 1)
        while True:  # Until the simulation catches the signal.
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), deadline)
            [caught] = re.findall(r"^SigCgt:\s*([0-9a-f]+)", (folder / "status").read_text(),
                                  re.MULTILINE)
            if int(caught, 16) & bit:
                break
            time.sleep(0.01)
        self.assertEqual(os.readlink(folder / "exe"), str(beside("attndb-simulate")))
        words = (folder / "cmdline").read_text().split("\0")
        self.assertEqual(words[:-1], ["attndb", *map(str, LONG)])
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
        self.assertEqual(process.returncode, INTERRUPTED)

    def test_a_program_knows_the_flags_that_attndb_shows(self):
        def options(text):
            return text.split("\nExamples:")[0]
        for command, program in self.started().items():
            shown = options(self.run_ok(command, "--help").out)
            with unittest.mock.patch.object(cli_case, "_attndb", str(beside(program))):
                self.assertEqual(options(self.run_ok(command, "--help").out), shown)
                self.assertEqual(self.run_any("ls").code, USAGE)

    def test_attndb_has_neither_the_server_nor_the_simulator_in_it(self):
        lib = pathlib.Path(cli_case.attndb()).parents[1] / "lib"
        text = b"synthetic conversations of ShareGPT's shape"
        self.assertIn(text, (lib / "libattndb_simulate.so").read_bytes())
        for path in (pathlib.Path(cli_case.attndb()), lib / "libattndb.so"):
            self.assertNotIn(text, path.read_bytes())
        if has_engine():
            page = (cli_case.ROOT / "server/page/page.css").read_bytes()[:200]
            self.assertIn(page, beside("attndb-server").read_bytes())
            self.assertNotIn(page, pathlib.Path(cli_case.attndb()).read_bytes())


if __name__ == "__main__":
    cli_case.main()
