#!/usr/bin/env python3
"""Goal: scripts/threaded_tests.py finds each test that runs in several threads, however they came.

Method: outputs as test programs print them; a small program that starts a thread is watched whole.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import threaded_tests  # noqa: E402

PROGRAM = """\
#include <pthread.h>
#include <stdio.h>
static void* Run(void* argument) { return argument; }
int main() {
  puts("[----------] 2 tests from A");
  puts("[ RUN      ] A.alone\\n[       OK ] A.alone (0 ms)");
  puts("[ RUN      ] A.two");
  fflush(stdout);
  pthread_t thread;
  pthread_create(&thread, NULL, Run, NULL);
  pthread_join(thread, NULL);
  puts("[       OK ] A.two (0 ms)");
  puts("[ RUN      ] A.behind\\n[       OK ] A.behind (0 ms)");
  puts("[----------] 2 tests from A (0 ms total)");
}
"""


def found_in(*lines):
    watch = threaded_tests.Watch(7)
    for line in lines:
        watch.read(line)
    return watch.found()


def test(name, *inside):
    return [f"[ RUN      ] {name}", *inside, f"[       OK ] {name} (0 ms)"]


BEGINS, ENDS = "ATTNDB_THREAD begins 7", "ATTNDB_THREAD ends 7"


class WatchTest(unittest.TestCase):
    def test_a_test_that_starts_a_thread_counts_alone(self):
        self.assertEqual(found_in("[------] 3 tests from A", *test("A.a"),
                                  *test("A.b", BEGINS, ENDS), *test("A.c"),
                                  "[------] 3 tests from A (1 ms total)"), {"A.b"})

    def test_so_does_each_during_which_the_thread_goes_on(self):
        self.assertEqual(found_in("[------] 3 tests from A", *test("A.a", BEGINS), *test("A.b"),
                                  ENDS, *test("A.c"),
                                  "[------] 3 tests from A (1 ms total)"), {"A.a", "A.b"})

    def test_a_thread_before_the_first_test_counts_for_the_suite(self):
        self.assertEqual(found_in("[------] 1 test from A", BEGINS, ENDS, *test("A.a"),
                                  "[------] 1 test from A (1 ms total)"), {"A.*"})

    def test_threads_of_a_process_beside_end_with_it(self):
        self.assertEqual(found_in("[------] 2 tests from A",
                                  *test("A.a", "ATTNDB_THREAD begins 8"), *test("A.b"),
                                  "[------] 2 tests from A (1 ms total)"), {"A.a"})

    def test_what_was_skipped_or_broke_off_counts(self):
        self.assertEqual(found_in("[------] 2 tests from A", "[ RUN      ] A.a",
                                  "[  SKIPPED ] A.a (0 ms)", "[ RUN      ] A.b"), {"A.a", "A.b"})

    def test_a_suite_is_one_pattern_where_all_count(self):
        self.assertEqual(threaded_tests.pattern({"A.a", "A.b"}, {"A.a", "A.b", "B.a"}), ["A.*"])
        self.assertEqual(threaded_tests.pattern({"A.a", "A.b"}, {"A.*"}), ["A.*"])
        self.assertEqual(threaded_tests.pattern({"A.a", "A.b"}, {"A.b"}), ["A.b"])

    def test_a_program_is_watched(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "program.c").write_text(PROGRAM)
            note, program = folder / "note.so", folder / "program"
            subprocess.run(["cc", "-shared", "-fPIC", "-o", note, ROOT / "scripts/thread_note.c"],
                           check=True)
            subprocess.run(["cc", "-o", program, folder / "program.c"], check=True)
            seen = threaded_tests.watch([str(program)],
                                        os.environ | {"LD_PRELOAD": str(note)}, folder)
            self.assertEqual(seen.found(), {"A.two"})


if __name__ == "__main__":
    unittest.main()
