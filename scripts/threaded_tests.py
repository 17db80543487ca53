#!/usr/bin/env python3
"""Prints a filter of GoogleTest for the tests of a build that run in several threads, "A.b:C.*".

ThreadSanitizer sees nothing in the others, which take most of the time there: one thread alone has
no data race. Which they are is seen, not declared: each program runs once with thread_note.c, and a
test counts in which a thread is started, or one goes on that was started before. So does one that
was skipped, and one that did not get to its end. A suite whose tests all count is one pattern.

    scripts/threaded_tests.py build/release
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from run_changed import tests_of

HERE = pathlib.Path(__file__).resolve().parent
NOTE = re.compile(r"^ATTNDB_THREAD (begins|ends) (\d+)$")
SUITE = re.compile(r"^\[-+\] \d+ tests? from ([\w/]+)")
SUITE_END = re.compile(r"^\[-+\] \d+ tests? from [\w/]+ \(\d+ ms total\)")
BEGIN = re.compile(r"^\[ RUN      \] (\S+)")
END = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] (\S+)")
MAX_FILTER_BYTES = 120_000  # Linux takes a variable of 128 KiB.


class Watch:
    """Reads a program's output, line by line: its tests, and which of them have threads."""

    def __init__(self, pid):
        self.pid, self.alive = pid, 0
        self.suite, self.test = None, None
        self.tests, self.threaded = {}, set()  # suite -> tests; tests, and suites as "A.*".

    def count(self):
        if self.test:
            self.threaded.add(self.test)
        elif self.suite:
            self.threaded.add(f"{self.suite}.*")  # Before its first test, or between two.

    def read(self, line):
        if match := NOTE.match(line):
            if int(match[2]) == self.pid:
                self.alive += 1 if match[1] == "begins" else -1
            if match[1] == "begins":
                self.count()
        elif SUITE_END.match(line):
            self.suite = self.test = None
        elif match := SUITE.match(line):
            self.suite = match[1]
        elif match := BEGIN.match(line):
            self.test = match[1]
            self.tests.setdefault(self.suite, set()).add(self.test)
            if self.alive:
                self.count()
        elif match := END.match(line):
            if match[1] == "SKIPPED":
                self.count()
            self.test = None

    def found(self):
        """Those with threads, and where the output ends: what did not."""
        if self.suite:
            self.count()
        return self.threaded


def pattern(tests, threaded):
    """Of one suite's tests: "A.*" if all count, else each by name."""
    suite = next(iter(tests)).rsplit(".", 1)[0]
    if f"{suite}.*" in threaded or tests <= threaded:
        return [f"{suite}.*"]
    return sorted(tests & threaded)


def watch(program, environment, folder):
    with subprocess.Popen(program, env=environment, cwd=folder, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace") as running:
        seen, tail = Watch(running.pid), []
        for line in running.stdout:
            seen.read(line.rstrip("\n"))
            tail = tail[-30:] + [line]
    if running.returncode != 0:
        sys.exit(f"threaded_tests: {' '.join(program)} failed by itself:\n{''.join(tail)}")
    return seen


def is_program(command, build):
    """Whether it is a test of GoogleTest, by itself."""
    return len(command) == 1 and pathlib.Path(command[0]).parent == build / "bin"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--label", default="(unit|crash|property|integration|cli|install)",
                        help="regular expression of ctest's labels")
    options = parser.parse_args()
    build = options.build.resolve()
    tests, threaded = {}, set()
    with tempfile.TemporaryDirectory() as folder:
        library = pathlib.Path(folder) / "thread_note.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, HERE / "thread_note.c"],
                       check=True)
        for name, command, env in tests_of(build, options.label):
            if not is_program(command, build):
                continue
            env = os.environ | dict(item.split("=", 1) for item in env)
            seen = watch(command, env | {"LD_PRELOAD": str(library)}, folder)
            threaded |= seen.found()
            for suite, names in seen.tests.items():
                tests.setdefault(suite, set()).update(names)
            print(f"{name}: {len(seen.found())} with threads", file=sys.stderr)
    patterns = [each for names in tests.values() for each in pattern(names, threaded)]
    if not patterns:
        sys.exit(f"threaded_tests: no test of {build} starts a thread: is it built?")
    if sum(map(len, patterns)) + len(patterns) > MAX_FILTER_BYTES:
        patterns = sorted({each.rsplit(".", 1)[0] + ".*" for each in patterns})
    print(":".join(patterns))


if __name__ == "__main__":
    main()
