#!/usr/bin/env python3
"""Each misuse in *.cc fails to compile, for its own reason and for nothing else.

A case is compiled twice: as it stands, which must succeed, and with ATTNDB_MISUSE, which must fail.
Then every error lies in a line that only ATTNDB_MISUSE compiles, and one of them is what the case
expects: a regular expression behind `// Error:`. `// Compiler: clang` is for what only clang finds.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Without -Wall, which would speak of what a misuse leaves unused.
FLAGS = ["-std=c++20", "-fsyntax-only", "-Werror", "-fno-diagnostics-color"]
ARGS = None


def field(text, name):
    found = re.search(rf"^// {name}: (.*)$", text, re.MULTILINE)
    return found.group(1) if found else None


def misuse_lines(text):
    """Numbers of the lines that only ATTNDB_MISUSE compiles."""
    inside, lines = False, set()
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            inside = line == "#ifdef ATTNDB_MISUSE"
        elif inside:
            lines.add(number)
    return lines


def compile_case(compiler, path, *flags):
    environment = {"LC_ALL": "C", "PATH": "/usr/local/bin:/usr/bin:/bin"}
    folders = [f"-I{folder}" for folder in ARGS.include]
    return subprocess.run([*compiler, *FLAGS, *folders, *flags, path], cwd=ROOT, env=environment,
                          capture_output=True, text=True, check=False)


class CompileFailTest(unittest.TestCase):
    def check(self, path, compiler):
        text = path.read_text()
        control = compile_case(compiler, path)
        self.assertEqual(control.returncode, 0, control.stderr)

        misuse = compile_case(compiler, path, "-DATTNDB_MISUSE")
        self.assertNotEqual(misuse.returncode, 0, "it compiles")
        errors = re.findall(r"^([^:\n]+):(\d+):\d+: error: (.*)$", misuse.stderr, re.MULTILINE)
        self.assertTrue(errors, misuse.stderr)
        for name, line, _ in errors:
            self.assertEqual(name, str(path), misuse.stderr)
            self.assertIn(int(line), misuse_lines(text), misuse.stderr)
        self.assertRegex("\n".join(message for _, _, message in errors), field(text, "Error"))


def add_case(path):
    clang_only = field(path.read_text(), "Compiler") == "clang"

    def test(self):
        if clang_only and not ARGS.clang:
            self.skipTest("no clang")
        self.check(path, [ARGS.clang, "-Wthread-safety"] if clang_only else [ARGS.compiler])
    setattr(CompileFailTest, "test_" + path.stem, test)


for case in sorted(HERE.glob("*.cc")):
    add_case(case)

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--clang", default="")
    parser.add_argument("--include", action="append", default=[], help="a folder of our headers")
    ARGS, rest = parser.parse_known_args()
    sys.exit(unittest.main(argv=[sys.argv[0], *rest]))
