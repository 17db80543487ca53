"""What the tests of the command line share: a store of their own, and a way to run `attndb` in it.

A test program is run with --attndb PATH. It exits with 77 (ctest: skipped) where the model that it
needs is not set up.
"""

import argparse
import atexit
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "testing"))

import shuffled  # noqa: E402
from program_environment import environment  # noqa: E402

SKIPPED = 77
WAIT = 120  # Seconds, for what takes few where nobody else is busy.

# Exit codes: docs/cli.md.
OK, ERROR, USAGE, NOT_FOUND, DAMAGE, BUSY = 0, 1, 2, 3, 4, 5
NO_ROOM, DIFFERS, NAME_TAKEN, READ_ONLY, UNSUPPORTED, OTHER_MODEL = 6, 7, 8, 9, 10, 11
NO_TEXT, INTERRUPTED = 12, 130

_attndb = None


def attndb():
    return _attndb


class Done:
    """A run that has ended."""

    def __init__(self, code, out, err):
        self.code = code
        self.out = out
        self.err = err

    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"exit code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class CliCase(unittest.TestCase):
    """Each test has an empty folder, `self.dir`, and in it the path of a store, `self.store`."""

    maxDiff = None
    program = "attndb"  # What it calls itself.

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="attndb-cli-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.store = self.dir / "store"

    def write(self, name, text):
        path = self.dir / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def start(self, *args, **options):
        """A running process with pipes; the caller ends it."""
        env = environment(self.store)
        env.update(options.pop("env", {}))
        return subprocess.Popen([_attndb, *map(str, args)], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
                                cwd=options.pop("cwd", ROOT), **options)

    def run_any(self, *args, stdin="", env=None, timeout=300, **options):
        process = self.start(*args, env=env or {}, **options)
        try:
            out, err = process.communicate(stdin.encode(), timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        return Done(process.returncode, out.decode("utf-8", "replace"),
                    err.decode("utf-8", "replace"))

    def run_ok(self, *args, **options):
        done = self.run_any(*args, **options)
        self.assertEqual(done.code, OK, f"{self.program} {' '.join(map(str, args))}: {done}")
        return done

    def run_json(self, *args, **options):
        return self.run_ok(*args, "--json", **options).json()

    def commands(self):
        """The names of the commands, by the help."""
        listed = self.run_ok("--help").out.split("\nCommands:\n")[1].split("\n\n")[0]
        return re.findall(r"^  ([a-z-]+)", listed, re.MULTILINE)

    def assert_fails(self, code, *args, says=(), **options):
        """It fails with `code`, in words and in JSON, and says each of `says`, in few lines."""
        done = self.run_any(*args, **options)
        self.assertEqual(done.code, code, f"{self.program} {' '.join(map(str, args))}: {done}")
        self.assertTrue(done.err.startswith(f"{self.program}: "), done)
        self.assertLessEqual(len(done.err.splitlines()), 3, done)
        self.assertNotIn("bug of attndb", done.err)
        for text in says:
            self.assertIn(text, done.err)
        in_json = self.run_any(*args, "--json", **options)
        self.assertEqual(in_json.code, code, in_json)
        error = in_json.json()["error"]
        self.assertEqual(error["exit_code"], code)
        for text in says:
            self.assertIn(text, error["message"] + "; " + error.get("advice", ""))
        return done


class SharedStoreCase(CliCase):
    """Each test works on a copy of a store that `fill` makes once for all classes that have it."""

    _shared = {}  # By the function that fills it.

    @staticmethod
    def fill(case):
        """Imports into `case.store` what each test finds."""
        raise NotImplementedError

    def setUp(self):
        super().setUp()
        if self.fill not in self._shared:
            case = CliCase()
            folder = tempfile.mkdtemp(prefix="attndb-cli-shared-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            case.store = pathlib.Path(folder) / "store"
            self.fill(case)
            self._shared[self.fill] = case.store
        shutil.copytree(self._shared[self.fill], self.store)


@functools.cache
def engine():
    """What `doctor` says of the engine in this build."""
    done = subprocess.run([_attndb, "doctor", "--fast", "--json"], capture_output=True, cwd=ROOT,
                          env=environment("/nonexistent/store"), check=False)
    return json.loads(done.stdout)["engine"]


def has_engine():
    return engine()["name"] != "none"


def another_model(folder):
    """A model file beside smollm2's: the same, with another name in its head and another weight."""
    name = b"Smollm2 135M 8k Lc100K Mix1 Ep2"
    data = bytearray(pathlib.Path(engine()["models"][0]["path"]).read_bytes())
    at = data.index(name)
    data[at:at + len(name)] = b"Another Model".ljust(len(name))
    data[-1] ^= 1
    path = folder / "other.gguf"
    path.write_bytes(data)
    return path


def skip_without_model():
    """Ends the program as skipped if SmolLM2 is not set up here."""
    models = engine()["models"]
    if not any(model["name"] == "smollm2" for model in models):
        print("no model smollm2 here: scripts/setup.sh brings it")
        sys.exit(SKIPPED)


def main(needs_model=False):
    global _attndb
    parser = argparse.ArgumentParser()
    parser.add_argument("--attndb", required=True)
    args, rest = parser.parse_known_args()
    _attndb = os.path.abspath(args.attndb)
    if needs_model:
        skip_without_model()
    unittest.main(module="__main__", argv=[sys.argv[0], *rest], testLoader=shuffled.Loader())
