#!/usr/bin/env python3
"""Prints a filter of GoogleTest for the suites of a build that start threads, "A.*:B.*".

ThreadSanitizer sees nothing in the others, which take most of the time there: one thread alone has
no data race. Which they are is seen, not declared: each program runs once with thread_note.c, and a
suite in one of whose tests a thread was started counts. So does one that did not get to its end.

    scripts/threaded_suites.py build/release
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
NOTE = "ATTNDB_THREAD"
SKIPPED = re.compile(r"^\[  SKIPPED \] ")
BEGIN = re.compile(r"^\[-+\] \d+ tests? from ([\w/]+)")
END = re.compile(r"^\[-+\] \d+ tests? from [\w/]+ \(\d+ ms total\)")


def suites_with_threads(lines):
    """The suites in `lines`, a program's output, that started a thread, or that might have: a test
    was skipped, or did not end."""
    found, running = set(), None
    for line in lines:
        if END.match(line):
            running = None
        elif match := BEGIN.match(line):
            running = match.group(1)
        elif running and (line.strip() == NOTE or SKIPPED.match(line)):
            found.add(running)
    return found | ({running} if running else set())


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
    suites = set()
    with tempfile.TemporaryDirectory() as folder:
        library = pathlib.Path(folder) / "thread_note.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, HERE / "thread_note.c"],
                       check=True)
        for name, command, env in tests_of(build, options.label):
            if not is_program(command, build):
                continue
            env = os.environ | dict(item.split("=", 1) for item in env)
            done = subprocess.run(command, env=env | {"LD_PRELOAD": str(library)}, cwd=folder,
                                  capture_output=True, text=True, errors="replace", check=False)
            if done.returncode != 0:
                sys.exit(f"threaded_suites: {name} failed by itself:\n{done.stdout[-2000:]}")
            found = suites_with_threads(done.stdout.splitlines())
            print(f"{name}: {len(found)} suites with threads", file=sys.stderr)
            suites |= found
    if not suites:
        sys.exit(f"threaded_suites: no test of {build} starts a thread: is it built?")
    print(":".join(f"{suite}.*" for suite in sorted(suites)))


if __name__ == "__main__":
    main()
