#!/usr/bin/env python3
"""Goal: a fault that scripts/mutants.py puts into code is there while it is switched on, and
otherwise the code means what it meant, line by line.

Method: a small program with one place for each kind of fault, built with all of them in it at once
and run with each; lines that must have no fault; sources of the tree that are named as equivalent.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import mutant_sites  # noqa: E402
import mutants  # noqa: E402

# Each line of the output is of one function, so that a fault shows in its own.
PROGRAM = """\
#include <cstdio>
#define ATTNDB_RETURN_IF_ERROR(x) do { int e = (x); if (e) return e; } while (0)
int Condition(int a) {
  if (int b = a; b) return 5;
  return 6;
}
bool Compare(int a, int b) {
  return a < b;
}
bool Same(int a, int b) { return a == b; }
bool Both(int a, int b) {
  const bool both = a > 1 &&
                    b > 1;  // On two lines.
  return both;
}
int Error(int error) {
  ATTNDB_RETURN_IF_ERROR(error);
  return 0;
}
int Next(int a) { return (a + 1); }
int Statement(int a) {
  int b = 3;
  if (a > 0)
    b = 4;
  else
    b = 5;
  return b;
}
bool True() {
  return true;
}
int main() {
  std::printf("%d %d %d %d %d %d %d %d\\n", Condition(1), Compare(2, 2), Same(1, 2), Both(2, 1),
              Error(9), Next(1), Statement(1), True());
}
"""


def kinds(line):
    return [fault.kind for fault in mutant_sites.faults_of("a.cc", line + "\n")]


class SitesTest(unittest.TestCase):
    def test_each_kind_of_fault_is_found(self):
        found = {fault.kind for fault in mutant_sites.faults_of("a.cc", PROGRAM)}
        self.assertEqual(found, {kind for kind, _, _ in mutant_sites.CHANGES})

    def test_comments_texts_and_what_would_change_nothing_have_no_fault(self):
        for line in ("// if (a == b) return;", '  Add("a == b && c");', "#if A == 1",
                     "  ATTNDB_CHECK(x);", "  ATTNDB_DCHECK(a == b);", "  rows_.reserve(n);",
                     "  const auto x = Call(y);"):
            self.assertEqual(kinds(line), [], line)

    def test_the_new_line_is_what_a_hand_would_have_written(self):
        faults = list(mutant_sites.faults_of("a.cc", "  return Sum(a < b, c);\n"))
        self.assertEqual([fault.new for fault in faults], ["return Sum(a <= b, c);"])

    def test_every_line_named_as_equivalent_is_one_that_can_be_drawn(self):
        for path, new in mutants.equivalent():
            text = (ROOT / path).read_text()
            self.assertIn(new, {fault.new for fault in mutant_sites.faults_of(path, text)}, path)


class SwitchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def built(self):
        """The program with all faults that do not overlap in it, and these by number."""
        chosen = {}
        mutants.draw(list(mutant_sites.faults_of("a.cc", PROGRAM)), chosen, 100)
        (self.folder / "fault.h").write_text(mutants.HEADER % 101)
        self.text = mutant_sites.with_faults(PROGRAM, chosen, "fault.h")
        (self.folder / "a.cc").write_text(self.text)
        subprocess.run(["c++", "-std=c++20", "-w", "a.cc", "-o", "a"], cwd=self.folder, check=True)
        return chosen

    def output(self, **environment):
        return subprocess.run([str(self.folder / "a")], capture_output=True, text=True, check=True,
                              env=os.environ | environment).stdout

    def test_with_no_fault_on_the_code_means_what_it_meant_and_no_line_moves(self):
        self.built()
        self.assertEqual(self.output(), "5 0 0 0 9 2 4 1\n")
        lines = self.text.split("#line 1\n")[1].splitlines()
        self.assertEqual(len(lines), len(PROGRAM.splitlines()))

    def test_a_fault_that_is_on_shows_and_no_other_does(self):
        seen = {fault.kind: self.output(ATTNDB_FAULT=str(number))
                for number, fault in self.built().items() if fault.line not in (12, 23)}
        self.assertEqual(seen["condition turned round"], "6 0 0 0 9 2 4 1\n")
        self.assertEqual(seen["comparison moved by one"], "5 1 0 0 9 2 4 1\n")
        self.assertEqual(seen["error ignored"], "5 0 0 0 0 2 4 1\n")
        self.assertEqual(seen["number off by one"], "5 0 0 0 9 1 4 1\n")
        self.assertEqual(seen["true and false exchanged"], "5 0 0 0 9 2 4 0\n")

    def test_what_is_reached_is_told(self):
        chosen = self.built()
        reached = self.folder / "reached"
        reached.write_bytes(bytes(101))
        self.output(ATTNDB_FAULTS_REACHED=str(reached))
        numbers = {number for number, byte in enumerate(reached.read_bytes()) if byte}
        not_reached = {fault.line for number, fault in chosen.items() if number not in numbers}
        self.assertEqual(not_reached, {26})  # `b = 5;`

    def test_an_error_of_the_compiler_is_laid_at_the_fault_before_it(self):
        chosen = {1: mutant_sites.Fault(pathlib.Path("src/a.cc"), 7, "", "", 0, 1, "", (7, 8)),
                  2: mutant_sites.Fault(pathlib.Path("src/a.cc"), 90, "", "", 0, 1, "", (90, 90))}
        self.assertEqual(mutants.blamed("../src/a.cc:30:5: error: no x\n", chosen), {1})
        self.assertEqual(mutants.blamed("../src/b.cc:30:5: error: no x\n", chosen), set())


if __name__ == "__main__":
    unittest.main()
