#!/usr/bin/env python3
"""Goal: `make minutes` says how long each step and program of the last whole runs took, and writes
this machine's tables into docs/testing.md without touching another's. `--edits` measures
`make check` after an edit, and restores the source in every case.

Method: scripts/step.sh as it is; records and pages made here; the Makefile of the tree with
scripts that only say what they were called with.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import long_runs  # noqa: E402
import minutes  # noqa: E402

PAGE = "before\n" + minutes.BEGIN + minutes.END + "after\n"
BEGAN = 1_764_417_600  # 2025-11-29, noon.


def outside():
    return {name: value for name, value in os.environ.items()
            if not name.startswith(("MINUTES_", "MAKE", "MFLAGS"))}


class StepTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        (self.root / "scripts").mkdir()
        shutil.copy(ROOT / "scripts/step.sh", self.root / "scripts")

    def step(self, *words, **environment):
        return subprocess.run([self.root / "scripts/step.sh", *words], capture_output=True,
                              text=True, check=False, env={**outside(), **environment})

    def records(self):
        path = self.root / "build/minutes.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def test_a_step_is_recorded_and_its_status_handed_on(self):
        done = self.step("a: b", "sh", "-c", "echo $0 $1; sleep 0.2; exit 3", "x y",
                         MINUTES_RUN=f"test {BEGAN}")
        self.assertEqual((done.returncode, done.stdout.strip()), (3, "x y"), done.stderr)
        [record] = self.records()
        self.assertEqual((record["run"], record["step"], record["status"]),
                         (f"test {BEGAN}", "a: b", 3))
        self.assertGreaterEqual(record["end"] - record["start"], 0.2)
        self.assertEqual(record["machine"], long_runs.machine())

    def test_outside_of_a_run_nothing_is_recorded(self):
        self.assertEqual(self.step("a", "sh", "-c", "exit 4").returncode, 4)
        self.assertEqual(self.step("--note", "made", "engine").returncode, 0)
        self.assertEqual(self.records(), [])

    def test_a_note_says_what_was_made(self):
        self.step("--note", "made", "engine", MINUTES_RUN=f"demo {BEGAN}")
        self.assertEqual(self.records()[0]["made"], "engine")


def record(goal, step, start, end, machine="EPYC, 2 cores", began=BEGAN, **more):
    return json.dumps({"run": f"{goal} {began}", "machine": machine, "commit": "c0ffee",
                       "step": step, "start": began + start, "end": began + end, "status": 0,
                       **more})


def note(goal, machine="EPYC, 2 cores", began=BEGAN, **more):
    return json.dumps({"run": f"{goal} {began}", "machine": machine, "commit": "c0ffee", **more})


def whole_test(**more):
    return [record("test", "set-up: engine", 0, 100, **more),
            record("test", "build: asan", 0, 300, **more),
            note("test", made="engine", **more), note("test", compiled="asan 7 300", **more),
            record("test", "tests: asan", 300, 400, programs={"api_1": 60.0, "slow": 10.0}, **more),
            record("test", "tests: release", 400, 800,
                   programs={"api_1": 20.0, "api_2": 30.5, "slow": 200.0}, **more),
            record("test", "tests", 300, 810, **more)]


class RunTest(unittest.TestCase):
    def test_a_run_has_seconds_steps_and_programs(self):
        [run] = minutes.runs_in(whole_test())
        self.assertTrue(run.whole())
        self.assertEqual(run.seconds(), 810)
        self.assertEqual(run.by_step(), [("tests: release", 400), ("build: asan", 300),
                                         ("set-up: engine", 100), ("tests: asan", 100),
                                         ("tests: all else", 10)])
        self.assertEqual(run.by_program(), [("slow", {"asan": 10.0, "release": 200.0}),
                                            ("api", {"asan": 60.0, "release": 50.5})])
        self.assertEqual(run.words(), "set up: engine; 7 files compiled, 300 from ccache")

    def test_a_run_in_which_all_was_there_says_so(self):
        [run] = minutes.runs_in([record("demo", "demo", 0, 30)])
        self.assertEqual(run.words(), "all was set up; nothing compiled")

    def test_a_run_that_failed_or_broke_off_is_not_whole(self):
        lines = whole_test()
        self.assertFalse(minutes.runs_in(lines[:-1])[0].whole())
        self.assertFalse(minutes.runs_in([*lines, record("test", "x", 0, 1, status=2)])[0].whole())
        self.assertTrue(minutes.runs_in([*lines, '{"run": "te'])[0].whole())


class PageTest(unittest.TestCase):
    def written(self, page, lines):
        return minutes.rewritten(page, [run for run in minutes.runs_in(lines) if run.whole()])

    def test_a_machine_has_its_tables(self):
        page = self.written(PAGE, [*whole_test(), record("demo", "demo", 0, 30)])
        self.assertTrue(page.startswith("before\n") and page.endswith("after\n"))
        for text in ("<!-- machine: EPYC, 2 cores -->\n**EPYC, 2 cores**\n\n" + minutes.COMMANDS,
                     "| `make demo` | 30 | all was set up; nothing compiled | c0ffee | 2025-11-29",
                     "| `make test` | 810 | set up: engine; 7 files compiled, 300 from ccache | c0",
                     minutes.STEPS + "| tests: release | 400 | 49 % |\n| build: asan | 300 | 37 ",
                     minutes.PROGRAMS + "| slow | 200 | 10 | 66 % |\n| api | 50 | 60 | 34 % |\n"):
            self.assertIn(text, page)

    def test_another_machine_and_what_was_not_run_again_stay(self):
        first = self.written(PAGE, [*whole_test(), record("check", "check", 0, 90)])
        both = self.written(first, [record("demo", "demo", 0, 40, machine="Xeon, 2 cores")])
        epyc = first.split(minutes.BEGIN)[1].split(minutes.END)[0]
        self.assertIn(epyc, both)
        self.assertIn("**Xeon, 2 cores**", both)
        later = self.written(both, [record("demo", "demo", 0, 50, began=BEGAN + 86400)])
        self.assertIn("| `make demo` | 50 | all was set up; nothing compiled | c0ffee | 2025-11-30",
                      later)
        for row in epyc.splitlines():
            self.assertIn(row, later)
        self.assertEqual(self.written(later, [record("demo", "demo", 0, 50, began=BEGAN + 86400)]),
                         later)
        again = self.written(later, [record("demo", "demo", 0, 60)])
        self.assertEqual(again.count("`make demo`"), 2)

    def test_programs_beyond_the_slowest_stand_in_one_row(self):
        programs = {f"p{number}x": 1.0 for number in range(minutes.PROGRAMS_SHOWN + 5)}
        page = self.written(PAGE, [record("test", "tests: release", 0, 9, programs=programs),
                                   record("test", "tests", 0, 9)])
        self.assertIn("| the 5 others | 5 |  | 14 % |\n", page)
        self.assertEqual(len(re.findall(r"^\| p\d+x ", page, re.MULTILINE)), minutes.PROGRAMS_SHOWN)

    def test_the_page_of_the_tree_can_be_written(self):
        page = (ROOT / "docs/testing.md").read_text(encoding="utf-8")
        self.assertIn("| `make test` | 810 |", self.written(page, whole_test(machine="new")))

    def test_an_edit_has_a_row_behind_its_command(self):
        def edit(source, seconds):
            goal = f"check after an edit of {source}"
            return [record(goal, "check", 0, seconds), note(goal, compiled="release 2 1"),
                    note(goal, tests="3 of 120")]
        server, planner = "server/batch/scheduler.cc", "src/planner/plan_layer.cc"
        page = self.written(PAGE, [*whole_test(), *edit(server, 9)])
        page = self.written(page, [record("check", "check", 0, 90), *edit(planner, 12)])
        rows = [row for row in page.splitlines() if row.startswith("| `make ")]
        self.assertEqual([row.split(" | ")[:3] for row in rows], [
            ["| `make check`", "90", "all was set up; nothing compiled"],
            [f"| `make check` after an edit of `{planner}`", "12",
             "3 files compiled; 3 of 120 unit tests run"],
            [f"| `make check` after an edit of `{server}`", "9",
             "3 files compiled; 3 of 120 unit tests run; no test of the server: it needs "
             "llama.cpp"],
            ["| `make test`", "810", "set up: engine; 7 files compiled, 300 from ccache"]])


class CommandTest(unittest.TestCase):
    def minutes(self, lines, *options):
        with tempfile.TemporaryDirectory() as folder:
            page, records = pathlib.Path(folder) / "page.md", pathlib.Path(folder) / "records"
            page.write_text(PAGE)
            records.write_text("".join(f"{line}\n" for line in lines))
            done = subprocess.run([sys.executable, "-B", ROOT / "scripts/minutes.py", records,
                                   "--page", page, *options], capture_output=True, text=True,
                                  check=False)
            return done.returncode, done.stdout, page.read_text()

    def test_the_last_whole_run_is_written_and_a_red_one_only_printed(self):
        red = whole_test(began=BEGAN + 9000)
        red[-1] = record("test", "tests", 300, 990, began=BEGAN + 9000, status=1)
        status, output, page = self.minutes([*whole_test(), *red])
        self.assertEqual(status, 0)
        self.assertIn("make test: 810 s; ", output)
        self.assertIn("| `make test` | 810 |", page)
        status, output, page = self.minutes([*whole_test(), *red], "--print")
        self.assertIn("make test: 990 s, not whole or red; ", output)
        self.assertIn("slow (asan 10.0, release 200.0)", output)
        self.assertEqual(page, PAGE)

    def test_without_a_record_it_says_so(self):
        status, _, page = self.minutes([])
        self.assertEqual((status, page), (1, PAGE))


class MakefileTest(unittest.TestCase):
    """The Makefile, whose scripts say what they are called with; one of them fails."""

    def make(self, goal, fails="none"):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "scripts").mkdir()
            shutil.copy(ROOT / "Makefile", root)
            shutil.copy(ROOT / "scripts/step.sh", root / "scripts")
            for name in ("setup.sh", "build.sh", "install_python.sh", "run_tests.py", "check.sh",
                         "demo.sh"):
                (root / "scripts" / name).write_text(
                    f'#!/bin/sh\necho "{name} $1" >>ran\ntest "{name} $1" != "{fails}"\n')
                (root / "scripts" / name).chmod(0o755)
            done = subprocess.run(["make", goal], cwd=root, capture_output=True, text=True,
                                  check=False, env=outside())
            lines = (root / "build/minutes.jsonl").read_text().splitlines()
            return done.returncode, (root / "ran").read_text().splitlines(), minutes.runs_in(lines)

    def test_each_command_records_one_whole_run(self):
        for goal, some in (("test", {"set-up: packages", "set-up: tools", "set-up: engine",
                                     "set-up: torch", "set-up: clients", "build: asan",
                                     "build: release", "build: Python package", "tests"}),
                           ("check", {"set-up: packages", "set-up: tools", "check"}),
                           ("demo", {"set-up: packages", "set-up: engine", "demo"})):
            status, _, runs = self.make(goal)
            self.assertEqual((status, len(runs), runs[0].goal), (0, 1, goal))
            self.assertTrue(runs[0].whole())
            self.assertLessEqual(some, {record["step"] for record in runs[0].steps})

    def test_a_step_that_fails_ends_the_run(self):
        for fails in ("setup.sh clients", "build.sh asan", "build.sh release",
                      "install_python.sh "):
            status, ran, runs = self.make("test", fails)
            self.assertEqual(status, 2)
            self.assertIn(fails, ran)
            self.assertNotIn("run_tests.py --jobs", ran)
            self.assertFalse(runs[0].whole())
        self.assertEqual(self.make("test", "run_tests.py --jobs")[0], 2)


class EditsTest(unittest.TestCase):
    """minutes.py --edits in a tree whose scripts/check.sh writes down the sources that it sees."""

    CHECK = """\
#!/bin/sh
tail -qn 1 src/planner/*.cc src/store/*.cc server/batch/*.cc | tr '\\n' '|' >>seen
echo >>seen
echo "3 of 120 tests can have changed"
if grep -q kEdit src/store/*.cc; then
  if [ -e waits ]; then touch begun; exec sleep 1000; fi
  [ ! -e fails ]
fi
"""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        for path in ("Makefile", "scripts/step.sh", "scripts/minutes.py", "scripts/long_runs.py",
                     "python/tests/hf/sizes.py"):
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, self.root / path)
        for name, text in (("check.sh", self.CHECK), ("setup.sh", "#!/bin/sh\n")):
            (self.root / "scripts" / name).write_text(text)
            (self.root / "scripts" / name).chmod(0o755)
        for path in minutes.EDITED:
            (self.root / path).parent.mkdir(parents=True)
            (self.root / path).write_text(f"{path}\n")
        (self.root / "page.md").write_text(PAGE)

    def start(self):
        return subprocess.Popen([sys.executable, "-B", self.root / "scripts/minutes.py", "--edits",
                                 "--page", self.root / "page.md"], text=True, env=outside(),
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def edits(self, status):
        process = self.start()
        output = process.communicate(timeout=120)[0]
        self.assertEqual(process.returncode, status, output)
        for path in minutes.EDITED:
            self.assertEqual((self.root / path).read_text(), f"{path}\n")
        return (self.root / "page.md").read_text(), output

    def test_each_edit_is_measured_alone_and_undone(self):
        page, output = self.edits(0)
        for path in minutes.EDITED:
            self.assertIn(f"| `make check` after an edit of `{path}` | 0 | 0 files compiled; 3 of "
                          "120 unit tests run", page)
        self.assertEqual(page.count("`make check`"), 3)  # Those before the edits have no row.
        seen = (self.root / "seen").read_text().splitlines()
        edited = [[at for at, line in enumerate(row.split("|")) if "kEditOfMinutes" in line]
                  for row in seen]
        self.assertEqual(edited, [[], [0], [], [1], [], [2]], output)
        self.assertEqual(len(set(re.findall(r"= (\d+);", "".join(seen)))), 3, "from ccache")

    def test_a_check_that_fails_ends_it_and_the_source_is_as_before(self):
        (self.root / "fails").touch()
        page, output = self.edits(1)
        self.assertIn("make check ended with 2", output)
        self.assertEqual(page, PAGE)

    def test_a_signal_ends_the_check_and_the_source_is_as_before(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            (self.root / "waits").touch()
            (self.root / "begun").unlink(missing_ok=True)
            process = self.start()
            event = (self.root / "begun").exists
            deadline = time.monotonic() + 60
            while not event() and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertTrue(event())
            process.send_signal(number)
            process.communicate(timeout=60)  # Returns when no child has its output open any more.
            self.assertNotEqual(process.returncode, 0)
            self.assertEqual((self.root / "src/store/lookup.cc").read_text(),
                             "src/store/lookup.cc\n")

    def test_the_sources_are_those_of_the_tree(self):
        for path in minutes.EDITED:
            self.assertTrue((ROOT / path).is_file(), path)


if __name__ == "__main__":
    unittest.main()
