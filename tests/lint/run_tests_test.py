#!/usr/bin/env python3
"""Goal: `make test` runs a test that fails once more; it is green if that passes, and says so; a
failure that shows damage is red at once. .ci/run ends with the closing line of the whole run.

Method: scripts/run_tests.py in a small tree made here, with ctest as it is. Its tests are scripts
that follow a plan, one action for each of their runs. .ci/run in a tree with a Makefile made here.
The list of flaky tests in docs/testing.md as it is.
"""

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

import ctest_output  # noqa: E402
import run_tests  # noqa: E402

PRESETS = {
    "version": 6,
    "configurePresets": [{"name": name, "generator": "Ninja",
                          "binaryDir": "${sourceDir}/build/" + name}
                         for name in ("asan", "release")],
    "testPresets": [{"name": name, "configurePreset": name, "output": {"outputOnFailure": True},
                     "execution": {"noTestsAction": "error"},
                     "filter": {"exclude": {"name": f"^not_in_{name}$"}}}
                    for name in ("asan", "release")],
}
# Takes the next action of its plan; without one it passes. A shell starts ten times as fast as
# Python, and each run of run_tests.py here starts it 14 times.
SCRIPT = """\
cd "${0%/*}" || exit 99
echo "$1 $2" >>ran
plan=$1-$2
[ -s "$plan" ] || exit 0
action=$(head -n 1 "$plan")
sed -i 1d "$plan"
case $action in
  signal) kill -SEGV $$ ;;
  abort) kill -ABRT $$ ;;
  long) exec sleep 600 ;;
  skip) exit 77 ;;
  ?*) printf '%s\\n' "$action" | tr '|' '\\n'; exit 1 ;;
esac
"""
NAMES = ("plain", "shard_1", "digest_test_99", "faults", "set_up", "needs_a", "needs_b")
PROPERTIES = {"faults": 'LABELS "slow;crash"', "set_up": "FIXTURES_SETUP store",
              "needs_a": "FIXTURES_REQUIRED store", "needs_b": "FIXTURES_REQUIRED store",
              "shard_1": "SKIP_RETURN_CODE 77"}
TOTAL = 2 * len(NAMES)


class RunTestsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        for path in ("scripts/run_tests.py", "scripts/ctest_output.py", "scripts/minutes.py",
                     "scripts/long_runs.py", "python/tests/hf/sizes.py"):
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, self.root / path)
        (self.root / "CMakePresets.json").write_text(json.dumps(PRESETS))
        (self.root / "run.sh").write_text(SCRIPT)
        for preset in ("asan", "release"):
            self.list_tests(preset)

    def list_tests(self, preset, more=""):
        build = self.root / "build" / preset
        build.mkdir(parents=True, exist_ok=True)
        (build / "CTestTestfile.cmake").write_text("".join(
            f'add_test({name} /bin/sh "{self.root}/run.sh" {preset} {name})\n'
            f"set_tests_properties({name} PROPERTIES TIMEOUT 60 {PROPERTIES.get(name, '')})\n"
            for name in NAMES) + more)

    def plan(self, **actions):
        """What tests of the preset `release` do, one word a run."""
        for name, words in actions.items():
            (self.root / f"release-{name}").write_text("\n".join(words))

    def run_tests(self, status, **environment):
        """(the tests of `release` as they ran, all lines, the last lines)."""
        outside = {name: value for name, value in os.environ.items()
                   if not name.startswith(("ATTNDB_", "GTEST_", "CTEST_", "MINUTES_"))}
        done = subprocess.run([sys.executable, "-B", self.root / "scripts/run_tests.py", "--jobs",
                               "2"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**outside, **environment}, check=False, timeout=120)
        self.assertEqual(done.returncode, status, done.stdout)
        last = (self.root / "build/tests-summary.txt").read_text()
        self.assertTrue(done.stdout.endswith(f"\n{last}"), done.stdout)
        ran = [line.split()[1] for line in (self.root / "ran").read_text().splitlines()
               if line.startswith("release ")]
        return ran, done.stdout, last

    def assert_red_at_once(self, name, action, why):
        self.plan(**{name: [action]})
        ran, _, last = self.run_tests(1)
        self.assertEqual(ran.count(name), 1)
        self.assertRegex(last, rf"(?m)^failed: {name} \(release\): {why}")
        self.assertTrue(last.endswith(
            f"flaky: 0\n93% tests passed, 1 tests failed out of {TOTAL}\n"), last)

    def test_a_run_without_failures_is_green(self):
        ran, _, last = self.run_tests(0)
        self.assertEqual(sorted(ran), sorted(NAMES))
        self.assertEqual(last, f"flaky: 0\n100% tests passed, 0 tests failed out of {TOTAL}\n")

    def test_a_test_that_passes_when_it_is_run_again_is_flaky(self):
        self.plan(plain=["[  FAILED  ] Suite.Case"], shard_1=["by chance"])
        ran, output, last = self.run_tests(0)
        self.assertEqual([ran.count(name) for name in ("plain", "shard_1", "faults")], [2, 2, 1])
        self.assertIn("plain failed (Failed, Suite.Case): it is run once more, alone", output)
        lines = last.splitlines()
        self.assertRegex(last, r"(?m)^\| plain \(release\) \| \d{4}-\d\d-\d\d \| \w+")
        self.assertRegex(lines[-4], r"^flaky: plain \(release\): Failed, Suite.Case; passed when")
        self.assertRegex(lines[-3], r"^flaky: shard_1 \(release\): Failed; passed when it ran")
        self.assertEqual(lines[-2:], ["flaky: 2",
                                      f"100% tests passed, 0 tests failed out of {TOTAL}"])
        log = self.root / "build/release/failed/plain.log"
        self.assertEqual(log.read_text().split("\n")[:2], ["Failed", "[  FAILED  ] Suite.Case"])

    def test_a_test_that_fails_twice_is_red(self):
        self.plan(plain=["once", "twice"])
        ran, _, last = self.run_tests(1)
        self.assertEqual(ran.count("plain"), 2)
        self.assertIn("failed: plain (release): failed twice: Failed; then Failed;", last)
        self.assertIn("\nflaky: 0\n", last)
        self.assertIn("twice", (self.root / "build/release/failed/plain-again.log").read_text())

    def test_a_second_run_that_dies_or_runs_nothing_is_red(self):
        self.plan(plain=["once", "signal"], shard_1=["once", "skip"])
        _, _, last = self.run_tests(1)
        self.assertIn("failed: plain (release): failed twice: Failed; then Exception: Seg", last)
        self.assertIn("failed: shard_1 (release): Failed; could not be run again", last)

    def test_a_signal_is_red_at_once(self):
        self.assert_red_at_once("plain", "signal", "ended by a signal .*SegFault")

    def test_an_abort_is_red_at_once(self):
        self.assert_red_at_once("plain", "abort", "ended by a signal .*aborted")

    def test_a_time_out_is_red_at_once(self):
        self.list_tests("release", "set_tests_properties(plain PROPERTIES TIMEOUT 2)\n")
        self.assert_red_at_once("plain", "long", "took too long")

    def test_a_sanitizers_report_is_red_at_once(self):
        self.assert_red_at_once("plain", "==7==ERROR: AddressSanitizer: heap-use-after-free",
                                "a sanitizer's report")

    def test_a_sanitizers_report_behind_the_lines_of_an_inner_ctest_is_red_at_once(self):
        self.assert_red_at_once("shard_1", "      Start 1: inner|100% tests passed, 0 tests failed "
                                "out of 1|ERROR: LeakSanitizer: x", "a sanitizer's report")

    def test_a_digest_is_red_at_once(self):
        self.assert_red_at_once("digest_test_99", "differs", "a test of this kind is never run")

    def test_a_label_is_red_at_once(self):
        self.assert_red_at_once("faults", "lost", "a test of this kind is never run again")

    def test_both_presets_run_and_count_if_the_first_fails(self):
        (self.root / "asan-plain").write_text("signal")
        self.plan(plain=["chance"])
        ran, _, last = self.run_tests(1)
        self.assertEqual(len(ran), len(NAMES) + 1)
        self.assertRegex(last, r"(?s)failed: plain \(asan\).*flaky: plain \(release\).*flaky: 1\n")

    def test_a_fixture_that_passes_again_lets_its_tests_run(self):
        self.plan(set_up=["chance"], needs_b=["chance"])
        ran, _, last = self.run_tests(0)
        self.assertEqual([ran.count(name) for name in ("set_up", "needs_a", "needs_b")], [2, 1, 2])
        self.assertIn("flaky: 2\n100% tests passed", last)
        self.assertIn("flaky: needs_b (release)", last)

    def test_a_fixture_that_fails_twice_fails_its_tests_too(self):
        self.plan(set_up=["once", "twice"])
        ran, _, last = self.run_tests(1)
        self.assertEqual([ran.count(name) for name in ("set_up", "needs_a", "needs_b")], [2, 0, 0])
        self.assertIn("failed: needs_a (release): not run, since set_up failed", last)
        self.assertIn(f"79% tests passed, 3 tests failed out of {TOTAL}\n", last)

    def test_the_set_up_of_a_fixture_is_not_run_again_with_its_tests(self):
        self.plan(needs_a=["chance"])
        ran, _, _ = self.run_tests(0)
        self.assertEqual([ran.count(name) for name in ("set_up", "needs_a")], [1, 2])

    def test_a_program_that_is_not_built_is_red(self):
        self.list_tests("release", "add_test(gone not_there)\n")
        _, _, last = self.run_tests(1)
        self.assertIn("failed: gone (release): not run", last)

    def test_a_preset_without_tests_or_without_an_end_is_red(self):
        (self.root / "build/asan/CTestTestfile.cmake").write_text("")
        _, _, last = self.run_tests(1)
        self.assertRegex(last, r"failed: ctest \(asan\): ")
        self.assertIn(f"1 tests failed out of {len(NAMES)}\n", last)

    def test_a_large_program_runs_half_of_its_shards_under_asan(self):
        shards = [f"large_{number}" for number in range(1, 6)]
        for preset in ("asan", "release"):
            self.list_tests(preset, "".join(
                f'add_test({name} /bin/sh "{self.root}/run.sh" {preset} {name})\n'
                for name in [*shards, "not_in_asan", "not_in_release"]))
        drawn = set()
        for seed in (1, 1, 2, 3):
            (self.root / "ran").unlink(missing_ok=True)
            ran, output, last = self.run_tests(0, ATTNDB_SEED=str(seed))
            self.assertEqual(sorted(ran), sorted([*NAMES, *shards, "not_in_asan"]))
            self.assertIn(f"asan: ATTNDB_SEED={seed} leaves out large_", output)
            self.assertIn(f"0 tests failed out of {TOTAL + 6 + 4}\n", last)
            lines = (self.root / "ran").read_text().splitlines()
            of_asan = [line.split()[1] for line in lines if line.startswith("asan ")]
            self.assertLess(set(NAMES), set(of_asan))
            self.assertNotIn("not_in_asan", of_asan)
            drawn.add((seed, *sorted(set(of_asan) & set(shards))))
        self.assertEqual(len(drawn), 3)

    def test_the_seconds_of_each_program_are_recorded(self):
        self.run_tests(0, MINUTES_RUN="test 1764000000")
        records = [json.loads(line) for line in
                   (self.root / "build/minutes.jsonl").read_text().splitlines()]
        self.assertEqual([record["step"] for record in records], ["tests: asan", "tests: release"])
        for record in records:
            self.assertEqual(sorted(record["programs"]), sorted(NAMES))
            self.assertLess(record["start"], record["end"])


class WhyOnceTest(unittest.TestCase):
    def why(self, output, name="x", labels=()):
        entry = ctest_output.Entry({"name": name, "properties": [
            {"name": "LABELS", "value": list(labels)}]})
        return run_tests.why_once(entry, run_tests.Result("***Failed", output))

    def test_an_ordinary_failure_may_be_chance(self):
        for output in ("", "Expected equality of these values:\n  1\n  2\n[  FAILED  ] A.B\n",
                       "AssertionError: 1 != 0", "exit code 1", "returned -1", "-9 != 0",
                       "exit code -9", "exited with -15", "exit 137", "exit status 143", "exit 13",
                       "returned 134 tokens", "134 != 140", "134 != 0.5", "-4.5 != 1", "x-11 == 3",
                       "status 404", "code 1390", "signal 15", "signal 9", "(134, 2) != (135, 2)",
                       "operation_aborted", "ConnectionAbortedError: [Errno 103]", "it aborted",
                       "double free_share = 0.1;", "free()", "Assertions failed", "returncode=1",
                       "-6 of 11", "line 139", "Error 2", "exit_code=4)", "core", "a bus error",
                       "[  FAILED  ] A.KeepsTheLastBlock\n"):
            self.assertIsNone(self.why(output), output)

    def test_a_sanitizers_report_is_not_chance(self):
        for output in ("==1==ERROR: LeakSanitizer: detected memory leaks",
                       "x.cc:3:4: runtime error: signed integer overflow",
                       "WARNING: ThreadSanitizer: data race"):
            self.assertIn("a sanitizer's report", self.why(output) or "", output)

    def test_what_shows_that_a_process_died_is_not_chance(self):
        for output in ("attndb: src/a.cc:3: check failed: x", "Segmentation fault (core dumped)",
                       "died with <Signals.SIGSEGV: 11>", "AssertionError: -11 != 0",
                       "assert -6 == 0", "AssertionError: 0 != -6 : exit code -6",
                       "CMake Error: x: Subprocess aborted", "1/2 Test #1: x ...***Exception: Ill",
                       "\t  6 - f (SEGFAULT)", "a SegFault", "Illegal instruction", "Bus error",
                       "Floating point exception", "Fatal Python error: Aborted",
                       "terminate called after throwing an instance of 'std::bad_alloc'",
                       "terminate called without an active exception",
                       "pure virtual method called", "*** stack smashing detected ***: terminated",
                       "*** buffer overflow detected ***: terminated",
                       "double free or corruption (!prev)",
                       "free(): double free detected in tcache 2", "free(): invalid pointer",
                       "malloc(): unaligned tcache chunk detected", "corrupted size vs. prev_size",
                       "corrupted double-linked list", "munmap_chunk(): invalid pointer",
                       "x: a.c:3: f: Assertion `n > 0' failed.",
                       "Assertion '__n < this->size()' failed.",
                       "ggml.c:7: GGML_ASSERT(a == b) failed", "exited with -11", "code -11",
                       "exit 139", "134 != 0", "0 != 134", "assert 139 == 11", "exit code: 139",
                       "returned non-zero exit status 139", "returncode=-11, stdout=''",
                       "returncode=134", "exitcode = -6", "'exit_code': -11", "rc=139",
                       "a server ended with -6", "return code -8", "returned -11", "Exit code 136",
                       "make: *** [Makefile:7: x] Error 139", "killed by signal 11", "(signal: 6)",
                       "Tuples differ: (-11, '') != (0, '')", "assert (139, 'a') == (0, 'b')",
                       "status 132", "ended by signal (11)"):
            self.assertIn("died", self.why(output) or "", output)

    def test_tests_of_kills_power_cuts_digests_and_upgrades_have_one_run(self):
        for name in ("digest_test_1", "digest_test", "upgrade_test", "server_load",
                     "cli_interrupt"):
            self.assertTrue(self.why("", name), name)
        self.assertTrue(self.why("", "x", ["unit", "crash"]))
        for case in ("[  FAILED  ] StoreTest.APowerCutLosesNothing", "FAIL: test_kill_9 (a.B.c)",
                     "FAILED tests/a_test.py::T::test_is_sound_behind_a_kill - x"):
            self.assertTrue(self.why(case + "\n"), case)

    def test_the_names_are_those_of_tests(self):
        lists = "".join(path.read_text() for folder in ("tests", "src", "server", "cli")
                        for path in (ROOT / folder).rglob("CMakeLists.txt"))
        for name in run_tests.ONCE:
            last = name.partition("_")[2] if name.startswith(("server_", "cli_")) else name
            self.assertRegex(lists, rf"\b{last}\b")
        self.assertIn(f"LABELS {run_tests.ONCE_LABEL}", lists)


class ClosingLineTest(unittest.TestCase):
    def test_it_is_as_ctest_writes_it(self):
        lines = {(0, 7): "100% tests passed, 0 tests failed out of 7",
                 (1, 1000): "99% tests passed, 1 tests failed out of 1000",
                 (9, 11): "18% tests passed, 9 tests failed out of 11",
                 (0, 0): "0% tests passed, 0 tests failed out of 0"}
        for (failed, total), line in lines.items():
            self.assertEqual(run_tests.closing_line(failed, total), line)
            self.assertRegex(line, ctest_output.CLOSING)


class OutputTest(unittest.TestCase):
    RUN = ("      Start  1: a\n", " 1/3 Test  #1: a ........***Failed    0.01 sec\n", "said\n",
           "      Start  2: b\n", "2/3 Test #2: b .....   Passed    0.50 sec\n",
           "3/3 Test #3: c .....***Timeout 9.00 sec\n", "late\n", "\n",
           "33% tests passed, 2 tests failed out of 3\n", "\n", "The following tests FAILED:\n")
    # A test that runs ctest prints such lines. Its tests may have names of this tree's tests.
    INNER = ("      Start 1: inner\n", "      Start 1: a\n",
             " 1/9 Test #7: inner ......   Passed    0.00 sec\n",
             " 2/9 Test #8: a ..........   Passed    0.00 sec\n",
             " 3/9 Test #9: c ..........   Passed    0.00 sec\n",
             "0% tests passed, 9 tests failed out of 9\n",
             "100% tests passed, 0 tests failed out of 3\n", "ERROR: AddressSanitizer: leaks\n")

    def read(self, *lines, names="abc"):
        reader = ctest_output.Reader(set(names))
        results = list(reader.results(lines))
        return results, reader.closing and reader.closing[0]

    def test_the_output_of_a_failure_ends_where_ctest_speaks_again(self):
        results, closing = self.read(*self.RUN)
        self.assertEqual(results, [("a", "***Failed", 0.01, "said\n"), ("b", "Passed", 0.5, ""),
                                   ("c", "***Timeout", 9.0, "late\n\n")])
        self.assertEqual(closing, "33% tests passed, 2 tests failed out of 3")

    def test_the_lines_of_a_ctest_within_a_test_do_not_end_its_output(self):
        for at in (3, 7):  # In the output of `a`, and in that of the last test.
            results, closing = self.read(*self.RUN[:at], *self.INNER, *self.RUN[at:])
            self.assertEqual([result[0] for result in results], list("abc"))
            output = results[0 if at == 3 else 2][3]
            self.assertTrue(output.startswith(self.RUN[at - 1] + "".join(self.INNER)), output)
            self.assertNotIn("33%", output)
            self.assertEqual(closing, "33% tests passed, 2 tests failed out of 3")

    def test_a_run_that_was_killed_has_no_closing_line(self):
        results, closing = self.read(*self.RUN[:3], *self.INNER)
        self.assertEqual(results[0][3], "said\n" + "".join(self.INNER))
        self.assertIsNone(closing)

    def test_ctest_does_not_count_a_test_that_is_disabled(self):
        _, closing = self.read("1/2 Test #1: a .....***Not Run (Disabled) 0.00 sec\n",
                               "2/2 Test #2: b ..... Passed 0.00 sec\n", "\n",
                               "100% tests passed, 0 tests failed out of 1\n")
        self.assertEqual(closing, "100% tests passed, 0 tests failed out of 1")

    def test_states_are_those_of_ctest(self):
        states = {"Passed": "passed", "***Failed": "failed", "***Exception: SegFault": "failed",
                  "Subprocess aborted***Exception:": "failed", "***Timeout": "failed",
                  "***Skipped": "skipped", "***Not Run": None, "***Not Run (Disabled)": "skipped"}
        self.assertEqual({status: ctest_output.state_of(status) for status in states}, states)

    def test_failed_tests_are_found_by_name(self):
        output = ("[  FAILED  ] A/B.C/0, where GetParam() = 1 (1 ms)\n[  FAILED  ] A/B.C/0\n"
                  "FAILED tests/x_test.py::test_y - assert 1\nFAIL: test_z (__main__.Z.test_z)\n")
        self.assertEqual(ctest_output.cases_in(output), ["A/B.C/0", "tests/x_test.py::test_y",
                                                         "test_z (__main__.Z.test_z)"])


class CiTest(unittest.TestCase):
    """.ci/run, with a Makefile that says what `make test` does."""

    def ci(self, recipe, before=""):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / ".ci").mkdir()
            (root / "build").mkdir()
            shutil.copy(ROOT / ".ci/run", root / ".ci/run")
            (root / "build/tests-summary.txt").write_text(before)
            (root / "Makefile").write_text("test:\n" + "".join(f"\t@{line}\n" for line in recipe))
            done = subprocess.run([root / ".ci/run"], capture_output=True, text=True, check=False)
            return done.returncode, done.stdout.splitlines()

    def test_it_ends_with_the_summary_of_the_tests_and_their_status(self):
        line = "100% tests passed, 0 tests failed out of 7"
        write = f"printf '%s\\n' 'flaky: a' 'flaky: 1' '{line}' >build/tests-summary.txt"
        status, lines = self.ci(["echo working", write, "echo late"])
        self.assertEqual((status, lines[-3:]), (0, ["flaky: a", "flaky: 1", line]))
        line = "86% tests passed, 1 tests failed out of 7"
        write = f"printf '%s\\n' 'failed: a' '{line}' >build/tests-summary.txt"
        status, lines = self.ci([write, "false", "echo late"])
        self.assertEqual((status, lines[-2:]), (2, ["failed: a", line]))
        self.assertNotIn("late", lines)

    def test_a_step_that_fails_ends_the_run_and_is_shown(self):
        passed = "100% tests passed, 0 tests failed out of 7"
        status, lines = self.ci([f"echo '{passed}'", "echo the build broke; false", "echo late"],
                                before=passed)
        self.assertEqual(status, 2)
        self.assertNotIn("late", lines)
        self.assertIn("make test ended with 2 before its tests did. Its last lines:", lines)
        at = lines.index("make test ended with 2 before its tests did. Its last lines:")
        self.assertIn("  the build broke", lines[at:])
        self.assertNotIn(passed, lines[at:])

    def test_a_run_without_tests_is_no_success(self):
        self.assertEqual(self.ci(["true"])[0], 1)


FLAKY_BEGIN = "<!-- flaky tests: one line for each test -->\n"
FLAKY_END = "<!-- end of flaky tests -->\n"


def flaky_problems(page):
    """What is wrong with the list of flaky tests of a page."""
    rows = page.split(FLAKY_BEGIN)[1].split(FLAKY_END)[0].splitlines()[2:]
    problems, seen = [], set()
    for row in rows:
        cells = [cell.strip() for cell in row.strip().strip("|").split("|")]
        if len(cells) != 6 or not all(cells) or not re.fullmatch(r"\d{4}-\d\d-\d\d", cells[1]):
            problems.append(f"not test, date, commit, machine, cause, mended in: {row}")
        name = run_tests.SHARD.sub("", cells[0].partition(" ")[0])
        if name in seen:
            problems.append(f"{name} is in the list twice: mend or remove the test")
        seen.add(name)
    return problems


class FlakyListTest(unittest.TestCase):
    HEAD = "| test | date | commit | machine | cause | mended in |\n|---|---|---|---|---|---|\n"

    def problems(self, *rows):
        return flaky_problems("a\n" + FLAKY_BEGIN + self.HEAD + "".join(
            f"{row}\n" for row in rows) + FLAKY_END)

    def test_a_test_stands_once(self):
        row = "| {} | 2026-11-29 | c0ffee | EPYC | waits 1 s | {} |"
        self.assertEqual(self.problems(), [])
        self.assertEqual(self.problems(row.format("a", "b00"), row.format("b (asan)", "b01")), [])
        self.assertEqual(len(self.problems(row.format("a", "b00"), row.format("a", "b01"))), 1)
        self.assertEqual(len(self.problems(row.format("a_1 (asan): A.B", "b00"),
                                           row.format("a_2 (release)", "not yet"))), 1)

    def test_a_line_has_all_its_cells(self):
        self.assertEqual(len(self.problems("| a | 2026-11-29 | c0ffee | EPYC | waits | |")), 1)
        self.assertEqual(len(self.problems("| a | today | c0ffee | EPYC | waits | b00 |")), 1)

    def test_the_list_of_the_page_is_right(self):
        page = (ROOT / "docs/testing.md").read_text(encoding="utf-8")
        self.assertTrue(FLAKY_BEGIN + self.HEAD in page, "the page has no such list")
        self.assertEqual(flaky_problems(page), [])


if __name__ == "__main__":
    unittest.main()
