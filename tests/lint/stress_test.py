#!/usr/bin/env python3
"""Goal: a stress run runs every test in every round, under load and shuffled; it finds a test that
fails once, names it, and goes on; a run that was broken off goes on with what is left.

Method: scripts/stress.py in a small tree made here, with ctest as it is. The tests are scripts
that write down how they were run, and fail where a file says so.
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
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "testing")]

import ctest_output  # noqa: E402
import run_changed  # noqa: E402
import shuffled  # noqa: E402
import stress  # noqa: E402

# Writes its core, seed and the number of its run; fails as the file `fails` says.
SCRIPT = """\
import json, os, pathlib, signal, sys, time
name, here = sys.argv[1], pathlib.Path(__file__).parent.parent
runs = here / f"runs-{name}"
with runs.open("a") as file:
    file.write(json.dumps([len(os.sched_getaffinity(0)), os.environ["GTEST_RANDOM_SEED"],
                           os.environ["GTEST_SHUFFLE"], os.environ["ATTNDB_SHUFFLE"],
                           open("/proc/self/cgroup").read()]) + "\\n")
number = len(runs.read_text().splitlines())
plan = here / "fails"
kind = json.loads(plan.read_text()).get(f"{name} {number}") if plan.exists() else None
if kind == "case":
    print("[  FAILED  ] Suite.Case (3 ms)\\n[  FAILED  ] Suite.Case")
    sys.exit(1)
if kind == "signal":
    os.kill(os.getpid(), signal.SIGSEGV)
if kind == "long":
    time.sleep(600)
if kind == "late":  # The time of the run is over now.
    (here / "build/long/stress/deadline").write_text("0")
"""
NAMES = ("one", "two", "needs_model", "lint_x", "bench_build")
PROPERTIES = {"lint_x": "LABELS lint", "needs_model": "FIXTURES_REQUIRED model SKIP_RETURN_CODE 77",
              "two": 'FIXTURES_SETUP model ENVIRONMENT "A=1;B=2"'}


class StressTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        for path in ("scripts/stress.py", "scripts/run_changed.py", "scripts/ctest_output.py",
                     "python/tests/hf/sizes.py", "testing/shuffled.py"):
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, self.root / path)
        self.write("data/run.py", SCRIPT)
        self.write("build/release/CTestTestfile.cmake", "".join(
            f'add_test({name} "{sys.executable}" -B "{self.root}/data/run.py" {name})\n'
            f"set_tests_properties({name} PROPERTIES TIMEOUT 30 {PROPERTIES.get(name, '')})\n"
            for name in NAMES))

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def start(self, disk="as-is", **environment):
        outside = {name: value for name, value in os.environ.items()
                   if not name.startswith(("ATTNDB_", "GTEST_", "CTEST_", "STRESS_"))}
        return subprocess.Popen(
            [sys.executable, "-B", self.root / "scripts/stress.py", self.root / "build/release",
             "--disk", disk], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**outside, "STRESS_ROUNDS": "2", "STRESS_SEED": "5", **environment})

    def stress(self, status=0, **environment):
        process = self.start(**environment)
        output = process.communicate(timeout=120)[0]
        self.assertEqual(process.returncode, status, output)
        return output

    def runs(self, name):
        path = self.root / f"runs-{name}"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def test_every_round_runs_every_test_with_its_seed_and_every_second_one_on_one_core(self):
        output = self.stress()
        seeds = [str(stress.seed_of(5, number)) for number in (1, 2)]
        self.assertNotEqual(*seeds)
        all_cores = len(os.sched_getaffinity(0))
        for name in ("one", "two", "needs_model"):
            self.assertEqual([run[:4] for run in self.runs(name)],
                             [[all_cores, seeds[0], "1", seeds[0]], [1, seeds[1], "1", seeds[1]]])
        self.assertEqual(self.runs("lint_x") + self.runs("bench_build"), [])
        for text in ("6 runs of 3 tests in 2 rounds: 6 passed, 0 skipped, 0 failed. Left out: 2 ",
                     "left out: lint_x: reads sources", "left out: bench_build: builds",
                     "ATTNDB_SEED=5\n", "ATTNDB_COUNT 2 rounds\n", "ATTNDB_COUNT 3 tests\n",
                     "ATTNDB_COUNT 0 failures\n", f"seed {seeds[1]}, one core"):
            self.assertIn(text, output)

    def test_a_test_that_fails_once_is_named_and_the_run_goes_on(self):
        self.write("fails", '{"one 1": "case", "two 2": "signal"}')
        output = self.stress(status=1)
        self.assertEqual(len(self.runs("one")), 2)
        seed = stress.seed_of(5, 1)
        log = re.search(rf"^failed: one, round 1, seed {seed}: Failed; Suite.Case; (\S+)$", output,
                        re.MULTILINE)[1]
        self.assertIn("[  FAILED  ] Suite.Case (3 ms)", pathlib.Path(log).read_text())
        self.assertRegex(output, r"failed: two, round 2, seed \d+: Exception: SegFault; no test na")
        self.assertIn("ATTNDB_COUNT 2 failures\n", output)
        # The signal ended the fixture of needs_model in round 2: that one was not run.
        self.assertEqual(len(self.runs("needs_model")), 1)
        self.assertIn("not run: needs_model", output)

    def test_what_has_a_result_is_not_run_again_until_its_inputs_change(self):
        self.write("fails", '{"one 1": "case"}')
        self.stress(status=1)
        self.write("fails", "{}")
        output = self.stress(status=1)  # Round 1 of `one` failed, and that stays so.
        self.assertEqual(len(self.runs("one")), 2)
        self.assertIn("1 failed", output)
        self.write("data/more.txt", "beside the script\n")
        self.assertIn("6 passed", self.stress())
        self.assertEqual(len(self.runs("one")), 4)

    def test_another_seed_runs_every_test_again_and_the_first_one_none(self):
        self.write("fails", '{"one 1": "case"}')
        self.stress(status=1)
        output = self.stress(STRESS_SEED="6")
        self.assertIn("6 passed, 0 skipped, 0 failed", output)
        self.assertIn("ATTNDB_SEED=6\n", output)
        self.assertEqual([run[1] for run in self.runs("one")],
                         [str(stress.seed_of(base, number)) for base in (5, 6)
                          for number in (1, 2)])
        self.assertIn("1 failed", self.stress(status=1))
        self.assertEqual(len(self.runs("one")), 4)

    def test_a_run_on_a_slow_disk_does_not_count_results_of_a_fast_one(self):
        self.stress()
        self.assertIn("6 passed", self.stress(disk="slow"))
        self.assertEqual([len(self.runs(name)) for name in ("one", "needs_model")], [4, 4])

    def test_more_rounds_run_only_those_that_are_left(self):
        self.stress()
        self.stress(STRESS_ROUNDS="3")
        self.assertEqual([len(self.runs(name)) for name in ("one", "needs_model")], [3, 3])

    def test_when_the_time_is_over_no_test_begins_and_the_same_call_goes_on(self):
        self.write("fails", '{"two 1": "late"}')  # needs_model comes after it.
        output = self.stress(STRESS_SECONDS="3600", STRESS_TESTS="^(two|needs_model)$")
        self.assertIn("passed two", output)
        self.assertEqual([len(self.runs(name)) for name in ("two", "needs_model")], [1, 0])
        self.assertIn("the time is over: 0 of 2 rounds are done. 3 of 4 runs are left: 1 of round "
                      "1, 2 of later rounds.", output)
        self.assertIn("ATTNDB_LEFT 3 runs\n", output)
        self.assertNotIn("ATTNDB_COUNT", output)
        self.assertNotIn("not run", output)
        self.write("fails", "{}")
        output = self.stress(STRESS_SECONDS="3600", STRESS_TESTS="^(two|needs_model)$")
        self.assertIn("4 runs of 2 tests in 2 rounds: 4 passed", output)
        self.assertIn("ATTNDB_COUNT 2 rounds\n", output)
        self.assertNotIn("ATTNDB_LEFT", output)
        self.assertEqual(len(self.runs("needs_model")), 2)

    def test_a_test_that_would_pass_by_failing_is_no_result_when_it_did_not_begin(self):
        tree = self.root / "build/release/CTestTestfile.cmake"
        tree.write_text(tree.read_text() +
                        "set_tests_properties(needs_model PROPERTIES WILL_FAIL ON)\n")
        self.write("fails", '{"two 1": "late"}')
        output = self.stress(STRESS_SECONDS="3600", STRESS_TESTS="^(two|needs_model)$")
        self.assertIn("3 of 4 runs are left", output)
        self.assertEqual(len(self.runs("needs_model")), 0)

    def test_a_failure_before_the_time_is_over_is_a_failure(self):
        self.write("fails", '{"one 1": "case"}')
        self.stress(status=1, STRESS_TESTS="^one$", STRESS_ROUNDS="1")
        output = self.stress(status=1, STRESS_TESTS="^one$", STRESS_SECONDS="0")
        self.assertIn("failed: one, round 1", output)
        self.assertIn("1 of 2 rounds are done. 1 of 2 runs are left: 1 of round 2, 0 of", output)
        self.assertEqual(len(self.runs("one")), 1)

    def test_a_deadline_comes_after_its_seconds(self):
        before = int(time.time())
        deadline = stress.Deadline(self.root, 60)
        self.assertIn(int((self.root / "deadline").read_text()) - before, range(60, 120))
        self.assertFalse(deadline.passed())
        self.assertTrue(stress.Deadline(self.root, 0).passed())
        self.assertFalse(stress.Deadline(self.root, None).passed())

    def test_a_run_that_is_broken_off_ends_what_it_started_and_goes_on_later(self):
        self.write("fails", '{"needs_model 1": "long"}')
        process = self.start()
        deadline = time.monotonic() + 60
        while not self.runs("needs_model") and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        output = process.communicate(timeout=60)[0]
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("goes on with the tests that are left", output)
        self.assertEqual(self.processes(), [])
        self.stress(STRESS_TESTS="^(two|needs_model)$")
        self.assertEqual(len(self.runs("needs_model")), 3)

    def processes(self):
        """The command lines of those that run in the tree, or beside it."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                found.append(path.read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                pass  # It has ended.
        return [words for words in found if str(self.root) in words]

    def test_a_choice_that_matches_nothing_or_is_not_built_is_an_error(self):
        self.assertIn("no test to run", self.stress(status=1, STRESS_TESTS="nothing"))
        tree = self.root / "build/release/CTestTestfile.cmake"
        tree.write_text(tree.read_text() + "add_test(gone NOT_THERE)\n")
        self.assertIn("gone", self.stress(status=1))
        self.stress(STRESS_TESTS="^two$")


class TreeTest(unittest.TestCase):
    """The tree that ctest runs has the same tests."""

    def written(self, *tests):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            stress.write_tree([ctest_output.Entry(test) for test in tests], folder)
            return {entry.name: entry for entry in ctest_output.entries([], folder)}

    def test_commands_and_properties_stay_and_time_outs_grow(self):
        command = ["/bin/sh", "-c", 'd=$(x) && "$1"; rc=$?; exit ]]$rc ]=]']
        properties = {"TIMEOUT": 60.0, "LABELS": ["unit", "x"], "RUN_SERIAL": True,
                      "ENVIRONMENT": ["A=1", "B=2 3"], "FAIL_REGULAR_EXPRESSION": ["Running 0"],
                      "SKIP_RETURN_CODE": 77, "WORKING_DIRECTORY": "/tmp"}
        test = {"name": "x", "command": command,
                "properties": [{"name": name, "value": value}
                               for name, value in properties.items()]}
        entry = self.written(test)["x"]
        self.assertEqual(entry.command, command)
        self.assertEqual(entry.properties, {**properties, "TIMEOUT": 600.0})

    def test_a_test_without_a_time_out_has_ten_times_that_of_ctest(self):
        entry = self.written({"name": "x", "command": ["/bin/true"]})["x"]
        self.assertEqual(entry.properties["TIMEOUT"], 15000.0)


class KeyTest(unittest.TestCase):
    """A tree with a build, in which a key is taken before and after a change."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.build = self.root / "build/release"
        for module in (stress, run_changed):
            patch = unittest.mock.patch.object(module, "ROOT", self.root)
            patch.start()
            self.addCleanup(patch.stop)

    def write(self, path, data):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def key(self, *words):
        return stress.key_of(ctest_output.Entry({"name": "x", "command": list(map(str, words))}),
                             self.build, {})

    def assert_depends(self, command, path, depends=True):
        before = self.key(*command)
        self.write(path, (self.root / path).read_bytes() + b" changed")
        compare = self.assertNotEqual if depends else self.assertEqual
        compare(before, self.key(*command), path)

    def test_a_program_depends_on_those_whose_paths_are_in_it_and_on_what_they_start(self):
        starter = self.write("build/release/bin/starter",
                             b"\x7fELF\0" + f"{self.build}/bin/worker".encode() + b"\0and more")
        worker = self.write("build/release/bin/worker", f"{self.build}/bin/helper")
        self.write("build/release/bin/helper", "1")
        self.assert_depends([starter], "build/release/bin/worker")
        self.assert_depends([worker], "build/release/bin/starter", depends=False)
        self.write("build/release/bin/worker", f"{self.build}/bin/helper\0")
        self.assert_depends([starter], "build/release/bin/helper")

    def test_the_command_line_depends_on_the_programs_beside_it_that_its_commands_become(self):
        attndb = self.write("build/release/bin/attndb", "no path of another")
        script = self.write("tests/server/tls_test.py", "import server_case\n")
        for name in ("attndb-server", "attndb-simulate", "attndb_test"):
            self.write(f"build/release/bin/{name}", "1")
        for command in ([attndb, "ls"], ["python3", "-B", script, "--attndb", attndb]):
            self.assert_depends(command, "build/release/bin/attndb-server")
            self.assert_depends(command, "build/release/bin/attndb-simulate")
            self.assert_depends(command, "build/release/bin/attndb_test", depends=False)

    def test_a_program_that_starts_the_command_line_depends_on_the_server(self):
        starter = self.write("build/release/bin/starter", f"{self.build}/bin/attndb")
        self.write("build/release/bin/attndb", "1")
        self.write("build/release/bin/attndb-server", "1")
        self.assert_depends([starter], "build/release/bin/attndb-server")

    def test_a_script_depends_on_the_programs_that_it_names(self):
        script = self.write("tests/server/load_test.py",
                            'judge = pathlib.Path(binary()).with_name("judge_turns")\n')
        self.write("build/release/bin/judge_turns", "1")
        self.assert_depends(["python3", script], "build/release/bin/judge_turns")

    def test_a_test_of_the_package_depends_on_what_is_installed(self):
        python = self.write(".deps/venv/bin/python", "1")
        core = ".deps/venv/lib/python3.11/site-packages/attndb/_core.so"
        self.write(core, "1")
        self.write("python/tests/core/a_test.py", "import attndb\n")
        self.assert_depends([python, "-m", "pytest", self.root / "python/tests/core"], core)
        client = self.write("tests/server/tls_test.py", 'PYTHON = ROOT / ".deps/venv/bin/python"\n')
        self.assert_depends(["python3", client], core)
        other = self.write("tests/cli/other_test.py", "import cli_case\n")
        self.assert_depends(["python3", other], core, depends=False)

    def test_arguments_name_files_behind_an_equals_sign_and_in_the_working_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "a.txt").write_text("")
            entry = ctest_output.Entry({"name": "x", "command": ["-DX=a.txt", "a.txt", "none"],
                                  "properties": [{"name": "WORKING_DIRECTORY", "value": folder}]})
            self.assertEqual(list(stress.files_named(entry)), [f"{folder}/a.txt"] * 2)


class DiskTest(unittest.TestCase):
    def disk(self, device="8:0", **files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = pathlib.Path(folder.name)
        for path in files.get("files", ()):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text("")
        return root, stress.slow_disk(root, root, lambda _: device)

    def test_without_a_cgroup_or_a_device_it_is_ionice_and_says_so(self):
        for _, disk in (self.disk(), self.disk(device=None, files=["cgroup.controllers"]),
                        self.disk(files=["cgroup.controllers"]), self.disk(files=["blkio/tasks"])):
            self.assertEqual(disk.prefix[0], "ionice")
            self.assertIn("ionice", disk.words)

    def test_a_group_with_limits_is_entered_before_the_command(self):
        name = f"attndb-stress-{os.getpid()}"
        root, disk = self.disk(files=["cgroup.controllers", f"{name}/io.max"])
        self.assertRegex((root / name / "io.max").read_text(),
                         r"^8:0 rbps=\d+ wbps=\d+ riops=\d+ wiops=\d+$")
        done = subprocess.run([*disk.prefix, "echo", "a b"], capture_output=True, text=True,
                              check=True)
        self.assertEqual(done.stdout, "a b\n")
        self.assertTrue((root / name / "cgroup.procs").read_text().strip().isdigit())
        files = [f"blkio/{name}/blkio.throttle.{way}_{what}_device"
                 for way in ("read", "write") for what in ("bps", "iops")]
        root, disk = self.disk(files=files)
        self.assertIn("cgroup", disk.words)
        for path in files:
            self.assertRegex((root / path).read_text(), r"^8:0 \d+$")


class ShuffledTest(unittest.TestCase):
    def setUp(self):
        self.before = os.environ.pop(shuffled.VARIABLE, None)
        self.addCleanup(os.environ.pop, shuffled.VARIABLE, None)
        if self.before is not None:
            self.addCleanup(os.environ.__setitem__, shuffled.VARIABLE, self.before)

    def test_a_seed_gives_one_order_and_none_that_of_the_source(self):
        names = [f"n{number}" for number in range(20)]
        self.assertEqual(shuffled.shuffled(names, "s"), names)
        os.environ[shuffled.VARIABLE] = "7"
        once = shuffled.shuffled(names, "s")
        self.assertNotEqual(once, names)
        self.assertEqual(sorted(once), sorted(names))
        self.assertEqual(shuffled.shuffled(names, "s"), once)
        self.assertNotEqual(shuffled.shuffled(names, "t"), once)
        os.environ[shuffled.VARIABLE] = "8"
        self.assertNotEqual(shuffled.shuffled(names, "s"), once)

    def test_unittest_takes_the_order(self):
        case = type("Case", (unittest.TestCase,),
                    {f"test_{number}": lambda self: None for number in range(10, 30)})
        loader = shuffled.Loader()
        in_order = loader.getTestCaseNames(case)
        os.environ[shuffled.VARIABLE] = "7"
        self.assertNotEqual(loader.getTestCaseNames(case), in_order)
        self.assertEqual(sorted(loader.getTestCaseNames(case)), in_order)

    def test_pytest_keeps_the_tests_of_a_file_together(self):
        class Item:
            def __init__(self, nodeid):
                self.nodeid = nodeid
        items = [Item(f"{file}.py::test_{number}") for file in "abcde" for number in range(9)]
        before = [item.nodeid for item in items]
        os.environ[shuffled.VARIABLE] = "7"
        shuffled.pytest_collection_modifyitems(items)
        after = [item.nodeid for item in items]
        self.assertNotEqual(after, before)
        self.assertEqual(sorted(after), sorted(before))
        files = [name[0] for name in after]
        self.assertEqual(len([1 for a, b in zip(files, files[1:]) if a != b]), 4)


if __name__ == "__main__":
    unittest.main()
