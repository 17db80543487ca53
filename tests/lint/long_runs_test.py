#!/usr/bin/env python3
"""Goal: the table of long runs in docs/testing.md is what scripts/test_long.sh counted, by which
seeds, of this history; and its fuzzers can be run again.

Method: logs, pages and histories made here; scripts/fuzz.sh in a tree of stubs; a script that names
a part wrongly; the page of the tree itself.
"""

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

import long_runs  # noqa: E402

PAGE = "before\n" + long_runs.BEGIN + long_runs.HEAD + long_runs.END + "after\n"


class CountsTest(unittest.TestCase):
    def test_counts_are_found_behind_what_ctest_puts_before_them(self):
        log = "7: ATTNDB_COUNT 1234 kills\nnoise 5 kills\nATTNDB_COUNT 8 of them long \n"
        self.assertEqual(long_runs.counts(log), "1,234 kills, 8 of them long")

    def test_what_two_tests_say_alike_stands_once(self):
        log = "ATTNDB_COUNT 20 prompts\nATTNDB_COUNT 20 prompts\nATTNDB_COUNT 3 prompts\n"
        self.assertEqual(long_runs.counts(log), "20 prompts, 3 prompts")


class SeedsTest(unittest.TestCase):
    def test_seeds_stand_once_and_in_order(self):
        log = "7: ATTNDB_SEED=17\nATTNDB_SEED=4\nATTNDB_SEED=3\nATTNDB_SEED=4\nATTNDB_SEED=5\n"
        self.assertEqual(long_runs.seeds(log), "3-5, 17")
        self.assertEqual(long_runs.seeds(log.replace("=5", "=9")), "3, 4, 9, 17")

    def test_a_run_without_one_says_so(self):
        self.assertEqual(long_runs.seeds("ATTNDB_COUNT 8 prompts\n"), "none drawn")


class FuzzTest(unittest.TestCase):
    """scripts/fuzz.sh in a tree of stubs."""

    def run_fuzz(self, **environment):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "scripts").mkdir()
            for name in ("fuzz.sh", "counts.sh"):
                shutil.copy(ROOT / "scripts" / name, root / "scripts")
            tools = {f"bin/{name}": "" for name in ("cmake", "ninja")}
            run = 'echo "run: $*"; echo stat::number_of_executed_units: 12; ls $6; touch $6/old'
            sources = {f"fuzz/fuzz_{name}.cc": "" for name in ("clusters", "graph")}
            targets = {f"build/fuzz/bin/fuzz_{name}": run for name in ("clusters", "graph")}
            for path, text in {**tools, **sources, **targets}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(f"#!/bin/sh\n{text}\n")
                (root / path).chmod(0o755)
            outside = {name: value for name, value in os.environ.items() if name != "ATTNDB_SEED"}
            outside["PATH"] = f"{root}/bin:{outside['PATH']}"
            logs = [subprocess.run([root / "scripts/fuzz.sh", "9"], capture_output=True, text=True,
                                   check=True, env={**outside, **environment}).stdout
                    for _ in range(2)]
            return logs

    def test_each_target_runs_by_the_seed_that_the_line_names(self):
        for log in self.run_fuzz():
            seeds = set(re.findall(r"run: -seed=(\d+) ", log))
            self.assertEqual(seeds, {long_runs.seeds(log)})
            self.assertEqual(log.count("run: "), 2)
            self.assertEqual(long_runs.counts(log), "12 inputs of fuzz_clusters in 9 s, "
                             "12 inputs of fuzz_graph in 9 s")

    def test_a_seed_that_is_given_is_taken_with_nothing_left_of_the_last_run(self):
        first, second = self.run_fuzz(ATTNDB_SEED="17")
        self.assertEqual(long_runs.seeds(first), "17")
        self.assertEqual(first, second)


def wrong_commits(page, root):
    """Of the table's lines: those of no commit that HEAD comes from. None: it can't be told."""
    def git(*args):
        return subprocess.run(["git", "-C", root, *args], capture_output=True, text=True,
                              check=False)
    rows = page.split(long_runs.BEGIN)[1].split(long_runs.END)[0].splitlines()[2:]
    column = [name.strip() for name in long_runs.HEAD.splitlines()[0].split("|")].index("commit")
    commits = {cells[1].strip(): cells[column].strip()
               for cells in (row.split("|") for row in rows)}
    problems = [f"{part}: ran on uncommitted changes of {commit[:-1]}"
                for part, commit in commits.items() if commit.endswith("+")]
    top = git("rev-parse", "--show-toplevel", "--is-shallow-repository").stdout.splitlines()
    if len(top) != 2 or pathlib.Path(top[0]).resolve() != root or top[1] != "false":
        return problems or None
    return problems + [
        f"{part}: {commit} is not among the commits of this history"
        for part, commit in commits.items() if commit and not commit.endswith("+")
        and git("merge-base", "--is-ancestor", commit, "HEAD").returncode != 0]


class CommitsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve() / "tree"
        self.root.mkdir()
        self.git("init", "-q", "-b", "main")
        self.kept, self.left = self.commit("1"), self.commit("2")
        self.git("reset", "-q", "--hard", self.kept)
        self.commit("3")

    def git(self, *args):
        who = ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", "-C", self.root, *who, *args], capture_output=True, text=True,
                              check=True).stdout.strip()

    def commit(self, text):
        self.git("commit", "-q", "--allow-empty", "-m", text)
        return self.git("rev-parse", "--short", "HEAD")

    def wrong(self, root=None, **commits):
        page = PAGE
        for part, commit in commits.items():
            page = long_runs.rewritten(page, part, ("1 x", "3", "65", commit, "day", "box"))
        return wrong_commits(page, root or self.root)

    def test_a_line_is_of_a_commit_of_this_history(self):
        self.assertEqual(self.wrong(kills=self.kept), [])
        self.assertEqual(self.wrong(kills=self.left, flips=self.kept),
                         [f"kills: {self.left} is not among the commits of this history"])
        self.assertEqual(self.wrong(fuzz="unknown"),
                         ["fuzz: unknown is not among the commits of this history"])

    def test_a_line_is_of_what_was_committed(self):
        self.assertEqual(self.wrong(tsan=self.kept + "+"),
                         [f"tsan: ran on uncommitted changes of {self.kept}"])

    def test_an_export_and_a_shallow_clone_cant_be_checked_but_for_the_mark(self):
        shallow = self.root.parent / "shallow"
        self.git("clone", "-q", "--depth=1", f"file://{self.root}", shallow)
        export = self.root / "export"  # In a tree of another's, whose history is not its own.
        export.mkdir()
        for root in (shallow, export):
            self.assertIsNone(self.wrong(root, kills=self.left))
            self.assertEqual(len(self.wrong(root, kills=self.left + "+")), 1)


class TableTest(unittest.TestCase):
    def rows(self, page):
        self.assertTrue(page.startswith("before\n") and page.endswith("after\n"))
        return [row for row in page.splitlines() if re.match(r"\| [a-z-]+ \| (?!counts|-)", row)]

    def test_a_part_writes_its_line_and_leaves_the_others(self):
        kills = long_runs.rewritten(PAGE, "kills", ("200 kills", "3", "65", "c0ffee", "day", "box"))
        rows = self.rows(kills)
        self.assertEqual(len(rows), len(long_runs.PARTS))
        at = long_runs.PARTS.index("kills")
        self.assertEqual(rows[at], "| kills | 200 kills | 3 | 65 | c0ffee | day | box |")
        self.assertTrue(all(long_runs.NOT_RUN in row for row in rows[:at] + rows[at + 1:]))
        both = self.rows(long_runs.rewritten(kills, "tsan",
                                             ("9 tests", "1", "2", "f00", "day", "box")))
        self.assertEqual(both[at], rows[at])
        self.assertEqual(both[long_runs.PARTS.index("tsan")],
                         "| tsan | 9 tests | 1 | 2 | f00 | day | box |")
        again = long_runs.rewritten(kills, "kills",
                                    ("201 kills", "4", "66", "dad", "day", "box"))
        self.assertEqual(self.rows(again)[at], "| kills | 201 kills | 4 | 66 | dad | day | box |")

    def run_on(self, log):
        with tempfile.TemporaryDirectory() as folder:
            page, path = pathlib.Path(folder) / "page.md", pathlib.Path(folder) / "log"
            page.write_text(PAGE)
            path.write_text(log)
            done = subprocess.run(
                [sys.executable, "-B", ROOT / "scripts/long_runs.py", "flips", path, "--seconds",
                 "1200", "--page", page], capture_output=True, text=True, check=False)
            return done, page.read_text()

    def test_a_run_is_written_with_seeds_commit_date_and_machine(self):
        done, page = self.run_on("ATTNDB_SEED=7\nATTNDB_COUNT 5000 flips\nATTNDB_SEED=1\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(page, r"\| flips \| 5,000 flips \| 1, 7 \| 1,200 \| \w+\+? \| "
                               r"\d{4}-\d\d-\d\d \| .+, \d+ cores \|")

    def test_a_run_that_counted_nothing_is_refused_and_changes_nothing(self):
        done, page = self.run_on("[  PASSED  ] 0 tests.\n")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("nothing was run", done.stderr)
        self.assertEqual(page, PAGE)

    def test_a_run_that_ended_early_writes_no_line_and_is_no_error(self):
        done, page = self.run_on("stress: the time is over\nATTNDB_LEFT 37 runs\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("37 runs are left", done.stdout)
        self.assertEqual(page, PAGE)


class TreeTest(unittest.TestCase):
    def test_the_page_has_one_line_for_each_part(self):
        page = (ROOT / "docs/testing.md").read_text(encoding="utf-8")
        table = page.split(long_runs.BEGIN)[1].split(long_runs.END)[0]
        self.assertTrue(table.startswith(long_runs.HEAD))
        names = [row.split("|")[1].strip() for row in table.splitlines()[2:]]
        self.assertEqual(names, list(long_runs.PARTS))

    def test_its_lines_are_of_commits_of_this_history(self):
        wrong = wrong_commits((ROOT / "docs/testing.md").read_text(encoding="utf-8"), ROOT)
        if wrong is None:
            sys.stderr.write("no whole history here: commits of long runs are not checked\n")
            self.skipTest("no whole history")
        self.assertEqual(wrong, [])

    def test_the_script_runs_these_parts_and_refuses_others(self):
        script = ROOT / "scripts/test_long.sh"
        listed = re.search(r"readonly all=\(([^)]*)\)", script.read_text(encoding="utf-8"))[1]
        self.assertEqual(listed.split(), list(long_runs.PARTS))
        done = subprocess.run([script, "kills", "killz"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("killz", done.stderr)
        self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main()
