#!/usr/bin/env python3
"""Goal: what a test leaves out of a short run, a part of scripts/test_long.sh runs.

Method: the programs whose sources use testing/test_size.h, and the test files that use
        python/tests/hf/sizes.py, against the list of the script; the same on small trees made here,
        with uses that nothing reaches; the script in a tree whose programs say how they were run.
"""

import argparse
import collections
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
sys.path.insert(0, str(ROOT / "scripts"))

import lint_common  # noqa: E402

HEADER = "testing/test_size.h"
OF_TARGET = re.compile(r" -o \S*?CMakeFiles/([^/]+)\.dir/")
CALL = re.compile(r"\b(Sized|IsLongRun)\s*\(")
COMMANDS = [ROOT / "build/release/compile_commands.json"]


def targets(root, databases):
    """The targets that compile each source, relative to `root`; of batches, no sources."""
    found = collections.defaultdict(set)
    for database in databases:
        for entry in json.loads(database.read_text()):
            path = pathlib.Path(entry["directory"], entry["file"]).resolve()
            match = OF_TARGET.search(entry["command"])
            if match and path.is_relative_to(root):
                found[path.relative_to(root)].add(match[1])
    return found


def sized_programs(root, databases):
    """(program, source) of each use of a size in C++; None for a program where there is no one."""
    compiled = targets(root, databases)
    for path in lint_common.code_files(root):
        text = lint_common.read(root, path)
        if path.with_suffix(".h") == pathlib.Path(HEADER):
            continue
        included = {name for _, _, name in lint_common.includes(text)}
        if HEADER in included and CALL.search(lint_common.blank(text)):
            for target in compiled.get(path, {None}):
                yield target, path


def sized_python(root):
    """The test files of pytest that use sizes.py: by an import, by way of other modules, or by a
    script of theirs whose name they mention."""
    for folder in sorted({path.parent for path in (root / "python/tests").rglob("sizes.py")}):
        texts = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.py")}
        users = {"sizes"}
        while True:
            use = re.compile(r"^\s*(?:from|import) (?:%s)\b|[\"'](?:%s)\.py[\"']" %
                             (("|".join(users),) * 2), re.MULTILINE)
            more = {name for name, text in texts.items() if use.search(text)} - users
            if not more:
                break
            users |= more
        for name in sorted(users):
            if name.startswith("test_"):
                yield str((folder / f"{name}.py").relative_to(root))


def unreached(root, databases, listed):
    """What is wrong, a line each."""
    problems = []
    for program, path in sized_programs(root, databases):
        if program is None:
            problems.append(f"{path}: uses a size, but is no source of a test program")
        elif program not in listed:
            problems.append(f"{path}: uses a size, and no part of test_long.sh runs {program}")
    for path in sized_python(root):
        if path not in listed:
            problems.append(f"{path}: uses a size, and no part of test_long.sh runs it")
    return sorted(problems)


def listed_by(script):
    done = subprocess.run([script, "--list"], capture_output=True, text=True, check=True)
    return dict(reversed(line.split()) for line in done.stdout.splitlines())


class TreeTest(unittest.TestCase):
    def test_every_use_of_a_size_is_reached(self):
        listed = listed_by(ROOT / "scripts/test_long.sh")
        self.assertEqual(unreached(ROOT, COMMANDS, listed), [])

    def test_every_program_that_is_listed_has_a_size(self):
        listed = listed_by(ROOT / "scripts/test_long.sh")
        used = {program for program, _ in sized_programs(ROOT, COMMANDS)} | set(sized_python(ROOT))
        self.assertEqual(set(listed) - used, set())


class OnePlaceTest(unittest.TestCase):
    """What tests and scripts tell each other is read and written in one place a language."""

    def test_variables_and_lines_are_named_in_one_file_a_language(self):
        testing = {"testing/test_size.h", "testing/test_size.cc", "testing/test_size_test.cc"}
        python = {"python/tests/hf/sizes.py", "python/tests/hf/test_sizes.py"}
        lint = {f"tests/lint/{name}_test.py" for name in ("long_runs", "sizes", "stress")}
        for name, scripts in (("COUNT", {"scripts/counts.sh"}),
                              ("TEST_SIZE", {"scripts/test_long.sh"})):
            word = f"ATTNDB_{name}"
            found = {str(path) for path in lint_common.all_files(ROOT)
                     if path.suffix in (".h", ".cc", ".c", ".py", ".sh", ".cmake", ".txt")
                     and word in lint_common.read(ROOT, path)}
            self.assertEqual(found - testing - python - lint - scripts, set(), word)


class UnreachedTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.entries = []

    def write(self, path, text, target=None):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)
        if target:
            self.entries.append({"directory": str(self.root), "file": path,
                                 "command": f"c++ -o src/CMakeFiles/{target}.dir/x.o -c {path}"})

    def unreached(self, *listed):
        (self.root / "commands.json").write_text(json.dumps(self.entries))
        return unreached(self.root, [self.root / "commands.json"], listed)

    def test_a_use_in_a_program_that_no_part_runs(self):
        include = f'#include "{HEADER}"\n'
        self.write("src/a_test.cc", include + "int n = test::Sized(1, 2);\n", "a_test")
        self.write("src/b_test.cc", include + "bool b = IsLongRun();\n", "b_test")
        self.write("src/c_test.cc", include + "// Sized(1, 2)\nvoid f() { PrintCount(1); }\n", "c")
        self.write("src/d_test.cc", "Struct Sized();\n", "d_test")
        self.assertEqual(self.unreached("a_test"), [
            "src/b_test.cc: uses a size, and no part of test_long.sh runs b_test"])
        self.assertEqual(self.unreached("a_test", "b_test"), [])

    def test_a_use_where_it_has_no_program(self):
        self.write("src/a_test_util.h", f'#include "{HEADER}"\nint N() {{ return Sized(1, 2); }}\n')
        self.write("testing/test_size.cc", f'#include "{HEADER}"\nbool IsLongRun() {{}}\n')
        self.assertEqual(self.unreached(), [
            "src/a_test_util.h: uses a size, but is no source of a test program"])

    def test_a_use_in_python_by_way_of_others(self):
        for name, text in {"sizes": "", "test_sizes": "from sizes import sized\n",
                           "helper": "import sizes\n", "test_a": "from helper import (\n  N)\n",
                           "script": "    from helper import N\n", "test_b": "run('script.py')\n",
                           "test_c": "from sizes_of_c import sized\n"}.items():
            self.write(f"python/tests/hf/{name}.py", text)
        self.assertEqual([line.split(":")[0] for line in self.unreached()],
                         [f"python/tests/hf/test_{name}.py" for name in ("a", "b", "sizes")])
        self.assertEqual(self.unreached(*(f"python/tests/hf/test_{name}.py"
                                          for name in ("a", "b", "sizes"))), [])


class ScriptTest(unittest.TestCase):
    """The script in a tree of stubs: what it lists, it runs, whole and long."""

    def stub(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("#!/bin/sh\n" + text)
        file.chmod(0o755)

    def test_what_is_listed_is_run_at_full_size(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "scripts").mkdir()
        shutil.copy(ROOT / "scripts/counts.sh", self.root / "scripts")
        script = pathlib.Path(shutil.copy(ROOT / "scripts/test_long.sh", self.root / "scripts"))
        (self.root / "scripts/long_runs.py").write_text("")
        for name in ("build", "setup", "install_python"):
            self.stub(f"scripts/{name}.sh", "")
        said = self.root / "said"
        say = f'for word in $0 "$@"; do echo "$word $ATTNDB_TEST_SIZE"; done >>{said}\n'
        listed = listed_by(script)
        for program in listed:
            for preset in ("release", "asan"):
                if not program.endswith(".py"):
                    self.stub(f"build/{preset}/bin/{program}",
                              say + "echo '[  PASSED  ] 1 test.'\n")
        self.stub(".deps/venv/bin/python", say)
        parts = sorted(set(listed.values()))
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("ATTNDB_", "GTEST_"))}
        done = subprocess.run([script, *parts], capture_output=True, text=True, check=False,
                              env=environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        ran = {line.split()[0].removeprefix("build/release/bin/").removeprefix("build/asan/bin/")
               for line in said.read_text().splitlines() if line.endswith(" long")}
        self.assertEqual(set(listed) - ran, set())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--compile-commands", type=pathlib.Path, nargs="+", default=COMMANDS)
    arguments, rest = parser.parse_known_args()
    COMMANDS = [path for path in arguments.compile_commands if path.is_file()]
    unittest.main(argv=[sys.argv[0], *rest])
