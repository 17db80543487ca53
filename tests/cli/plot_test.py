#!/usr/bin/env python3
"""Goal: `plot` draws of files and stored contexts what attndb.plot draws, and says what it lacks.

Method: programs that stand for Python, whatever they print; and the Python of the set-up, where it
is, on what the real model captures.
"""

import json
import os
import pathlib
import signal
import subprocess
import time
import unittest

import cli_case
from cli_case import (CliCase, ERROR, INTERRUPTED, NOT_FOUND, ROOT, UNSUPPORTED, USAGE, engine,
                      has_engine)

PYTHON = ROOT / ".deps/venv/bin/python"
TEXT = "The lighthouse of Skerry was built in 1870. Its keeper was called Maren. " * 8
EMPTY = "\x02" + 7 * "\0" + "{}"  # A safetensors file with nothing in it.
NAMES = ["tokens_for_mass", "attention", "plan_errors"]
POINT = {"plan": "window", "error": 0.125, "bytes_per_token": 10, "full_bytes_per_token": 40,
         "selected": 0}


def can_draw():
    if not PYTHON.exists():
        return False
    words = [PYTHON, "-P", "-c", "import attndb.plot; attndb.plot.pictures"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def has_model():
    return has_engine() and any(model["name"] == "smollm2" for model in engine()["models"])


class FakeTest(CliCase):
    """A program stands for Python: it prints lines, and ends as it is told."""

    def setUp(self):
        super().setUp()
        self.file = self.write("some.safetensors", EMPTY)

    def python(self, *lines, end="exit 0"):
        path = self.dir / "python"
        said = "\n".join(f"echo '{line}'" for line in lines)
        path.write_text(f'#!/bin/sh\necho "$@" > {self.dir}/words\n{said}\n{end}\n')
        path.chmod(0o755)
        return {"ATTNDB_PYTHON": str(path)}

    def test_what_it_drew_is_told(self):
        env = self.python('{"file": "out/a.png"}', "matplotlib says something",
                          json.dumps({"layer": 3, "head": 1, "plans": [POINT]}))
        args = ("plot", self.file, "-o", "out", "--layer", 3, "--queries", 4)
        done = self.run_ok(*args, env=env)
        self.assertTrue(done.out.startswith("out/a.png\n"), done)
        self.assertIn("window  12.50 %", done.out)
        self.assertIn("25.0 %", done.out)
        result = self.run_json(*args, env=env)
        self.assertEqual(result, {"source": self.file, "files": ["out/a.png"], "layer": 3,
                                  "head": 1, "plans": [POINT]})
        words = (self.dir / "words").read_text().split()
        self.assertEqual(words[:3], ["-P", "-m", "attndb.plot"], "not what the folder has")
        for pair in (["--layer", "3"], ["--queries", "4"], ["--output", "out"], ["--", self.file]):
            self.assertIn(pair, [words[i:i + 2] for i in range(len(words))])
        self.assertNotIn("--head", words)

    def test_what_it_refuses_has_the_code_of_that(self):
        for code, exit_code in (("invalid argument", USAGE), ("not found", NOT_FOUND),
                                ("unsupported", UNSUPPORTED), ("i/o error", ERROR)):
            env = self.python(json.dumps({"error": {"code": code, "message": "no such head"}}),
                              end="exit 1")
            self.assert_fails(exit_code, "plot", self.file, "-o", "out", says=["no such head"],
                              env=env)

    def test_what_it_lacks_is_named(self):
        for line, says in (
                ("/usr/bin/python3: No module named attndb", "No module named attndb"),
                ("ImportError: attndb.plot needs matplotlib: pip install matplotlib",
                 "attndb.plot needs matplotlib")):
            env = self.python(end=f"echo 'Traceback:' >&2; echo '{line}' >&2; exit 1")
            self.assert_fails(UNSUPPORTED, "plot", self.file, "-o", "out",
                              says=[says, "ATTNDB_PYTHON", "pip install"], env=env)
        self.assert_fails(UNSUPPORTED, "plot", self.file, "-o", "out",
                          says=["'/nonexistent' can't be run", "ATTNDB_PYTHON"],
                          env={"ATTNDB_PYTHON": "/nonexistent"})

    def test_a_python_without_the_package_is_told_so(self):
        env = self.python(end='exec python3 -I -S "$@"')
        self.assert_fails(UNSUPPORTED, "plot", self.file, "-o", "out",
                          says=["python: No module named 'attndb'; ", "pip install"], env=env)

    def test_whatever_it_prints_is_no_harm(self):
        for lines, end, code in (
                ([], "exit 0", UNSUPPORTED),  # Another version's: it has drawn nothing.
                (['{"plans": 5}', '{"file": 7}'], "exit 0", UNSUPPORTED),
                (['{"plans": [7]}'], "exit 0", UNSUPPORTED),
                (["[]", "{", "null", '{"error": 5}'], "echo 'Killed: x' >&2; exit 3", ERROR),
                (['{"error": {"code": 5}}'], "exit 1", ERROR),
                ([], "kill -SEGV $$", ERROR),
                ([], "yes | tr -d '\\n'", ERROR)):  # A line without an end.
            with self.subTest(lines=lines, end=end):
                env = self.python(*lines, end=end)
                done = self.run_any("plot", self.file, "-o", "out", env=env)
                self.assertEqual(done.code, code, done)
                self.assertEqual(len(done.err.splitlines()), 1, done)

    def test_a_signal_ends_it_too(self):
        env = self.python(end=f"echo $$ > {self.dir}/pid\nexec sleep 1000")
        process = self.start("plot", self.file, "-o", "out", env=env)
        pid = self.dir / "pid"
        deadline = time.monotonic() + cli_case.WAIT
        while not pid.exists() or not pid.read_text().strip():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=cli_case.WAIT)
        self.assertEqual((process.returncode, err), (INTERRUPTED, b"attndb: interrupted\n"))
        self.assertFalse(pathlib.Path(f"/proc/{pid.read_text().strip()}").exists())

    def test_mistakes_are_seen_before_python_is_asked(self):
        env = self.python(end="exit 9")
        for args, code, says in (
                ([self.file, "-o", "out", "--format", "gif"], USAGE, ["expected png, svg or pdf"]),
                ([self.write("a.txt", "A text."), "-o", "out"], USAGE,
                 ["a.txt' is no KV file", "attndb capture"]),
                ([self.dir, "-o", "out"], USAGE, ["is no KV file"]),
                ([self.dir / "no.safetensors", "-o", "out"], NOT_FOUND,
                 ["no.safetensors' is no file and no context"]),
                (["nobody", "-o", "out"], NOT_FOUND, ["'nobody' is no file and no context"])):
            self.assert_fails(code, "plot", *args, says=says, env=env)
        if has_engine():
            self.assert_fails(USAGE, "plot", self.file, "-o", "out", "--head", "-1",
                              says=["--head"], env=env)
        self.assertFalse((self.dir / "words").exists())


@unittest.skipUnless(can_draw(), "make python: the package is not there")
class PlotTest(CliCase):
    def plot(self, *args):
        out = self.dir / "pictures"
        env = {"ATTNDB_PYTHON": str(PYTHON), "OMP_NUM_THREADS": "1"}
        result = self.run_json("plot", *args, "-o", out, env=env)
        self.assertEqual(result["files"], [f"{out}/{name}.png" for name in NAMES])
        for path in result["files"]:
            self.assertEqual(pathlib.Path(path).read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
        return result

    def test_a_file_without_q_is_refused(self):
        path = self.write("none.safetensors", EMPTY)
        self.assert_fails(USAGE, "plot", path, "-o", self.dir / "out", says=["none.safetensors"],
                          env={"ATTNDB_PYTHON": str(PYTHON)})
        self.assertFalse((self.dir / "out").exists())

    def test_pictures_of_a_captured_file(self):
        if not has_model():
            self.skipTest("no model")
        file = self.dir / "text.safetensors"
        self.run_ok("capture", self.write("text.txt", TEXT), "-o", file, "--layers", "0,7",
                    "--queries", "8")
        result = self.plot(file, "--head", "2")
        self.assertIn(result["layer"], (0, 7))
        self.assertEqual(result["head"], 2)
        self.assertEqual(result["plan"], "dipr(alpha=0.012)")
        self.assertEqual(len(result["plans"]), 7)
        self.assertTrue(all(0 <= plan["error"] < 1 for plan in result["plans"]))

    def test_pictures_of_a_stored_context(self):
        """Its last tokens are run again for their q: the file is the one that `capture` writes."""
        if not has_model():
            self.skipTest("no model")
        text = self.write("text.txt", TEXT)
        self.run_ok("import", text, "--name", "skerry")
        before = self.run_json("describe", "skerry")
        result = self.plot("skerry", "--queries", "2", "--layer", "7", "--head", "2")
        self.assertEqual(self.run_json("describe", "skerry"), before, "looking is not using")
        file = self.dir / "text.safetensors"
        self.run_ok("capture", text, "-o", file, "--queries", "2")
        expected = self.plot(file, "--queries", "2", "--layer", "7", "--head", "2")
        for ours, theirs in zip(result["plans"], expected["plans"]):
            self.assertAlmostEqual(ours["error"], theirs["error"], delta=2e-3, msg=ours)
            self.assertEqual(ours["full_bytes_per_token"], theirs["full_bytes_per_token"])
        self.run_ok("mv", "skerry", "notes/skerry")
        again = self.plot("notes/skerry", "--queries", "2", "--layer", "7", "--head", "2")
        self.assertEqual([plan["plan"] for plan in again["plans"]],
                         [plan["plan"] for plan in result["plans"]], "a name may have a slash")
        self.run_ok("mv", "notes/skerry", "skerry")
        env = {"ATTNDB_PYTHON": str(PYTHON)}
        self.assert_fails(NOT_FOUND, "plot", "nobody", "-o", "out", says=["nobody"], env=env)
        self.assert_fails(UNSUPPORTED, "plot", "skerry", "-o", "out", "--server", "http://h",
                          says=["not through http://h"], env=env)


if __name__ == "__main__":
    os.environ.setdefault("MPLCONFIGDIR", "/tmp")
    cli_case.main()
