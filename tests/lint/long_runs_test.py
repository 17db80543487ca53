#!/usr/bin/env python3
"""Goal: the table of long runs in docs/testing.md is what scripts/test_long.sh counted.

Method: logs and a page made here; a script that names a part wrongly; the page of the tree itself.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import long_runs  # noqa: E402

PAGE = "before\n" + long_runs.BEGIN + long_runs.HEAD + long_runs.END + "after\n"


class CountsTest(unittest.TestCase):
    def test_counts_are_found_behind_what_ctest_puts_before_them(self):
        log = "7: ATTNDB_COUNT 1234 kills\nnoise 5 kills\nATTNDB_COUNT 8 of them long \n"
        self.assertEqual(long_runs.counts(log), "1,234 kills, 8 of them long")

    def test_what_two_tests_say_alike_stands_once(self):
        log = "ATTNDB_COUNT 20 prompts\nATTNDB_COUNT 20 prompts\nATTNDB_COUNT 3 prompts\n"
        self.assertEqual(long_runs.counts(log), "20 prompts, 3 prompts")


class TableTest(unittest.TestCase):
    def rows(self, page):
        self.assertTrue(page.startswith("before\n") and page.endswith("after\n"))
        return [row for row in page.splitlines() if re.match(r"\| [a-z]+ \| (?!counts)", row)]

    def test_a_part_writes_its_line_and_leaves_the_others(self):
        kills = long_runs.rewritten(PAGE, "kills", ("200 kills", "65", "c0ffee", "day", "box"))
        rows = self.rows(kills)
        self.assertEqual(len(rows), len(long_runs.PARTS))
        at = long_runs.PARTS.index("kills")
        self.assertEqual(rows[at], "| kills | 200 kills | 65 | c0ffee | day | box |")
        self.assertTrue(all(long_runs.NOT_RUN in row for row in rows[:at] + rows[at + 1:]))
        both = self.rows(long_runs.rewritten(kills, "tsan", ("9 tests", "1", "f00", "day", "box")))
        self.assertEqual(both[at], rows[at])
        self.assertEqual(both[-1], "| tsan | 9 tests | 1 | f00 | day | box |")
        again = long_runs.rewritten(kills, "kills", ("201 kills", "66", "dad", "day", "box"))
        self.assertEqual(self.rows(again)[at], "| kills | 201 kills | 66 | dad | day | box |")

    def run_on(self, log):
        with tempfile.TemporaryDirectory() as folder:
            page, path = pathlib.Path(folder) / "page.md", pathlib.Path(folder) / "log"
            page.write_text(PAGE)
            path.write_text(log)
            done = subprocess.run(
                [sys.executable, "-B", ROOT / "scripts/long_runs.py", "flips", path, "--seconds",
                 "1200", "--page", page], capture_output=True, text=True, check=False)
            return done, page.read_text()

    def test_a_run_is_written_with_commit_date_and_machine(self):
        done, page = self.run_on("ATTNDB_COUNT 5000 flips\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(page, r"\| flips \| 5,000 flips \| 1,200 \| \w+\+? \| "
                               r"\d{4}-\d\d-\d\d \| .+, \d+ cores \|")

    def test_a_run_that_counted_nothing_is_refused_and_changes_nothing(self):
        done, page = self.run_on("[  PASSED  ] 0 tests.\n")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("ATTNDB_COUNT", done.stderr)
        self.assertEqual(page, PAGE)


class TreeTest(unittest.TestCase):
    def test_the_page_has_one_line_for_each_part(self):
        page = (ROOT / "docs/testing.md").read_text(encoding="utf-8")
        table = page.split(long_runs.BEGIN)[1].split(long_runs.END)[0]
        self.assertTrue(table.startswith(long_runs.HEAD))
        names = [row.split("|")[1].strip() for row in table.splitlines()[2:]]
        self.assertEqual(names, list(long_runs.PARTS))

    def test_the_script_runs_these_parts_and_refuses_others(self):
        script = ROOT / "scripts/test_long.sh"
        listed = re.search(r"readonly all=\((.*)\)", script.read_text(encoding="utf-8"))[1]
        self.assertEqual(listed.split(), list(long_runs.PARTS))
        done = subprocess.run([script, "kills", "killz"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("killz", done.stderr)
        self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main()
