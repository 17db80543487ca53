#!/usr/bin/env python3
"""Goal: an import that is killed or interrupted resumes from its last checkpoint, and a store is
clean after each.

Method: a document of some thousand tokens, checkpoints every few hundred; SIGKILL, SIGINT and
SIGTERM at several moments; then the same command again, and the answer of an import that nobody
disturbed.
"""

import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time

import cli_case
from cli_case import CliCase, ERROR, INTERRUPTED, NO_ROOM, OK, USAGE, WAIT

CHECKPOINT = 512  # The tokens of one pass through the model: there is none more often.
# By the full plan, whose answer hangs on the KV alone: auto's hangs on where segments end, too.
QUESTION = ("ask", "-c", "ships", "Which ship came in line 7?", "--max-tokens", 12,
            "--plan", "full", "-q")


def document(num_lines):
    return "".join(f"Line {i}: the ship number {i * 37 % 101} came in at {i % 24} o'clock.\n"
                   for i in range(num_lines))


class InterruptTest(CliCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="attndb-cli-shared-"))
        cls.path = cls.shared / "ships.txt"
        cls.path.write_text(document(100))
        case = CliCase()
        case.store = cls.shared / "undisturbed"
        case.run_ok("import", cls.path)
        cls.answer = case.run_ok(*QUESTION).out

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared, ignore_errors=True)

    def setUp(self):
        super().setUp()
        self.command = ("import", self.path, "--checkpoint", CHECKPOINT)

    def contexts(self):
        done = self.run_any("ls", "--json")
        return done.json().get("contexts", []) if done.code == OK else []

    def num_stored(self):
        return sum(context["num_tokens"] for context in self.contexts())

    def files(self):
        return {path.name for path in self.store.glob("segments/*")}

    def has_checkpoint(self):
        return any(context["name"] == "" for context in self.contexts())

    def wait_for_checkpoint(self, process, beyond=0, is_there=None):
        """Stops the process there: on a loaded machine it would come to its end meanwhile."""
        deadline = time.monotonic() + WAIT
        before = self.files()
        while True:
            if self.files() != before:  # There may be a checkpoint.
                process.send_signal(signal.SIGSTOP)
                if is_there() if is_there else self.num_stored() > beyond:
                    break
                process.send_signal(signal.SIGCONT)
            self.assertIsNone(process.poll(), "the import ended before its first checkpoint")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        self.assertIsNone(process.poll(), "the import ended before it was stopped")

    @staticmethod
    def interrupt(process, number=signal.SIGINT):
        """Also one that is stopped."""
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)

    def assert_resumes_and_answers(self, least):
        done = self.run_json(*self.command)
        self.assertGreaterEqual(done["reused_tokens"], least)
        self.assertFalse(done["already_imported"])
        self.assert_is_imported()

    def assert_is_imported(self):
        self.assertEqual([context["name"] for context in self.contexts()], ["ships"])
        self.run_ok("verify")
        self.assertEqual(self.run_ok(*QUESTION).out, self.answer)

    def test_sigterm_ends_the_reading_of_a_long_text(self):
        num_bytes = 200 << 20
        for path in (self.long_text(num_bytes), self.endless_word(num_bytes)):
            with self.subTest(path=path):
                self.assert_sigterm_ends_its_reading(path, num_bytes)

    def assert_sigterm_ends_its_reading(self, path, num_bytes):
        process = self.start("import", path)
        deadline = time.monotonic() + WAIT
        # The text is read first, then the model is loaded, and tokens come last: only they take so
        # much more memory than the text.
        while self.own_bytes(process) < num_bytes * 1.2:
            self.assertIsNone(process.poll(), "it ended before it was interrupted")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        spent, of_others = self.cpu_seconds(process), self.cpu_seconds_of_ended()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=WAIT)
        # By its own time: how busy the machine is says nothing of it.
        self.assertLess(self.cpu_seconds_of_ended() - of_others - spent, 5)
        self.assertEqual(process.returncode, INTERRUPTED, err)
        self.assertIn(b"was read; nothing is stored", err)
        self.assertFalse(self.store.exists())

    def test_a_text_beyond_every_length_takes_little_memory(self):
        num_bytes = 200 << 20
        path = self.long_text(num_bytes)

        def limit():  # The model, the text, and the tokens of all lengths that a scaling reaches.
            resource.setrlimit(resource.RLIMIT_AS, (3 * num_bytes + (1 << 30),) * 2)

        done = self.run_any("import", path, preexec_fn=limit)
        self.assertEqual(done.code, USAGE, done)
        self.assertIn("has more than 8,388,608 tokens", done.err)
        self.assertIn("shorter document", done.err)

    def test_a_file_of_zeros_is_refused_unread_by_the_model(self):
        path = self.dir / "zeros.txt"
        with open(path, "wb") as zeros:
            zeros.truncate(900 << 20)  # Sparse.
        before = self.cpu_seconds_of_ended()
        done = self.run_any("import", path)
        self.assertLess(self.cpu_seconds_of_ended() - before, 20)
        self.assertEqual(done.code, USAGE, done)
        self.assertIn("zeros.txt' has a byte 0, at byte 0, expected a text", done.err)

    def test_too_little_memory_for_a_text_has_its_own_exit_code(self):
        path = self.long_text(200 << 20)

        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (180 << 20,) * 2)

        done = self.run_any("import", path, preexec_fn=limit)
        self.assertEqual(done.code, NO_ROOM, done)
        self.assertIn("memory", done.err)
        self.assertNotIn("bug of attndb", done.err)

    def long_text(self, num_bytes):
        path = self.dir / "long.txt"
        line = document(8)
        with open(path, "w", encoding="utf-8") as file:
            for _ in range(num_bytes // len(line) + 1):
                file.write(line)
        return path

    def endless_word(self, num_bytes):
        return self.write("word.txt", "x" * num_bytes)

    @staticmethod
    def cpu_seconds(process):
        with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def cpu_seconds_of_ended():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    @staticmethod
    def own_bytes(process):
        """Resident, without pages of files, such as those of a model."""
        with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        return int(fields.get("RssAnon", "0 kB").split()[0]) << 10

    def test_kill_9_at_any_moment_leaves_a_clean_store_that_resumes(self):
        """One import goes through all of it: a whole one takes ten seconds."""
        self.kill_soon_after_the_start()
        self.kill_behind_a_checkpoint()
        self.interrupt_with_json()
        done = self.run_ok(*self.command)
        [resumed] = re.findall(r"resumed at ([\d,]+) of [\d,]+ tokens", done.err)
        self.assertGreaterEqual(int(resumed.replace(",", "")), CHECKPOINT)
        self.assertIn("imported 'ships'", done.out)
        self.assert_is_imported()

    def kill_soon_after_the_start(self):
        for delay in (0.0, 0.1, 0.2, 0.4, 0.8):
            process = self.start(*self.command)
            time.sleep(delay)
            process.kill()
            process.communicate()
            if self.store.exists() and self.run_any("ls").code == OK:
                self.run_ok("verify")

    def kill_behind_a_checkpoint(self):
        process = self.start(*self.command)
        self.wait_for_checkpoint(process, beyond=self.num_stored())
        process.kill()
        process.communicate()
        left = self.contexts()
        self.assertEqual({context["name"] for context in left}, {""})
        note = self.run_any("explain", "--file", self.path, "--json").json()
        self.assertEqual(note["num_reused"], max(context["num_tokens"] for context in left))

    def interrupt_with_json(self):
        process = self.start(*self.command, "--json")
        self.wait_for_checkpoint(process, beyond=self.num_stored())
        self.interrupt(process)
        out, _ = process.communicate(timeout=WAIT)
        self.assertEqual(process.returncode, INTERRUPTED)
        self.assertIn(b'"cancelled"', out)

    def test_ctrl_c_keeps_what_is_done_and_ends_with_130(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                before = self.num_stored()
                process = self.start(*self.command)
                self.wait_for_checkpoint(process, beyond=before)
                self.interrupt(process, number)
                _, err = process.communicate(timeout=WAIT)
                self.assertEqual(process.returncode, INTERRUPTED, err)
                self.assertIn(b"interrupted at", err)
                left = self.contexts()
                self.assertEqual(len(left), 1, left)
                self.assertEqual(left[0]["name"], "")
                self.assertGreater(left[0]["num_tokens"], before)
        self.assert_resumes_and_answers(1)

    def test_ctrl_c_in_an_answer_ends_it_with_130(self):
        self.run_ok("import", "-", "--name", "s", stdin="Ships come and go.")
        process = self.start("ask", "-c", "s", "Tell me a very long story.", "--max-tokens", 5000)
        process.stdout.read(5)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WAIT)
        self.assertEqual(process.returncode, INTERRUPTED)

    def folder_with_a_long_text(self):
        """Eighteen texts; the fourth is the long one."""
        folder = self.dir / "notes"
        folder.mkdir()
        for i in range(18):
            (folder / f"n{i:02}.txt").write_text(f"Note {i} is a short one.")
        shutil.copy(self.path, folder / "n03.txt")
        return folder

    def test_an_interrupted_import_of_a_folder_counts_what_it_has_done(self):
        command = ("import", self.folder_with_a_long_text(), "--checkpoint", CHECKPOINT)
        process = self.start(*command)
        self.wait_for_checkpoint(process, is_there=self.has_checkpoint)
        self.interrupt(process)
        out, err = process.communicate(timeout=WAIT)
        self.assertEqual(process.returncode, INTERRUPTED, err)
        self.assertRegex(out.decode(), r"\nimported 3 of 18 files in .*; left: 15\n$")
        self.assertIn(b"n03.txt': interrupted at", err)

        process = self.start(*command, "--json")
        self.wait_for_checkpoint(process, beyond=self.num_stored())
        self.interrupt(process)
        out, _ = process.communicate(timeout=WAIT)
        told = json.loads(out)
        self.assertEqual((told["num_done"], told["num_failed"], told["num_left"]), (3, 0, 15))
        self.assertEqual(told["imports"][-1]["error"]["exit_code"], INTERRUPTED)

        done = self.run_ok(*command)
        self.assertRegex(done.out, r"\nimported 18 of 18 files in [^;]*\n$")

    def test_an_interrupted_import_in_parts_goes_on_with_its_part(self):
        command = ("import", self.path, "--split", "--part-tokens", 1500, "--raw", "--checkpoint",
                   CHECKPOINT)
        process = self.start(*command)
        self.wait_for_checkpoint(process, is_there=self.has_checkpoint)
        self.interrupt(process)
        out, err = process.communicate(timeout=WAIT)
        self.assertEqual(process.returncode, INTERRUPTED, err)
        self.assertRegex(err.decode(), r"part \d of \d: interrupted at")
        self.assertIn(b"imported 0 of 1 file in", out)
        done = self.run_ok(*command)
        self.assertIn("'ships.1' to 'ships.", done.err)
        names = sorted(context["name"] for context in self.contexts())
        self.assertEqual("".join(self.run_ok("cat", name).out for name in names),
                         self.path.read_text())

    def test_a_stdin_that_is_closed_is_no_text(self):
        self.run_ok("import", "-", "--name", "s", stdin="Ships come and go.")
        for words in ("import - --name closed", "chat -c s", "ask -c s", "append s -"):
            with self.subTest(words=words):
                done = self.run_in_shell(f'"$0" {words} <&-')
                self.assertEqual(done.returncode, USAGE, done)
                self.assertIn(b"stdin is closed", done.stderr)

    def test_nothing_is_written_to_a_file_instead_of_a_closed_output(self):
        path = self.write("s.txt", "Ships come and go.")
        done = self.run_in_shell(f'"$0" import {path} <&- >&- 2>&-')
        self.assertEqual(done.returncode, ERROR, done)  # What is printed can't be.
        self.run_ok("verify")
        self.assertTrue(self.run_json("import", path)["already_imported"])

    def run_in_shell(self, command):
        return subprocess.run(["sh", "-c", command, cli_case.attndb()], capture_output=True,
                              env=cli_case.environment(self.store), timeout=WAIT, check=False)

    def test_checkpoints_of_another_document_stay(self):
        process = self.start(*self.command)
        self.wait_for_checkpoint(process)
        process.kill()
        process.communicate()
        left = self.contexts()[0]["num_tokens"]
        self.run_ok("import", "-", "--name", "small", "--checkpoint", 16,
                    stdin="Another text. " * 40)
        kept = [context for context in self.contexts() if context["name"] == ""]
        self.assertEqual([context["num_tokens"] for context in kept], [left])


if __name__ == "__main__":
    cli_case.main(needs_model=True)
