#!/usr/bin/env python3
"""Goal: `make check` runs again what a change can have broken, and only that; what fails ends it.

Method: scripts/check.sh, build.sh and run_changed.py in a small tree made here, with CMake, Ninja
and ctest as they are: two programs that share a header, one that loads a library, a script with a
file of data, and a test of another label. Each test changes one thing. The checks of the sources
are stubs, which fail where a file says so.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

CMAKE = """\
cmake_minimum_required(VERSION 3.25)
project(small C)
option(ATTNDB_BUILD_LLAMA "What build.sh sets" OFF)
enable_testing()
add_library(loaded SHARED loaded.c)
add_custom_target(unit_tests)
foreach(name one two three other)
  add_executable(${name} ${name}.c)
  add_test(NAME ${name} COMMAND ${name})
endforeach()
target_link_libraries(three PRIVATE loaded)
add_test(NAME script COMMAND python3 -B ${CMAKE_SOURCE_DIR}/data/script.py)
add_dependencies(unit_tests one two three)
set_tests_properties(one two three script PROPERTIES LABELS unit)
set_tests_properties(other PROPERTIES LABELS slow)
if(EXISTS ${CMAKE_SOURCE_DIR}/endless)
  add_custom_target(endless COMMAND touch ${CMAKE_SOURCE_DIR}/begun COMMAND sleep 1000)
  add_dependencies(unit_tests endless)
endif()
"""
PRESETS = """\
{"version": 6,
 "configurePresets": [{"name": "release", "generator": "Ninja",
                       "binaryDir": "${sourceDir}/build/release",
                       "cacheVariables": {"CMAKE_BUILD_TYPE": "Release"}}],
 "buildPresets": [{"name": "release", "configurePreset": "release"}]}
"""
CHECK = """\
import os, time
if os.path.exists("check_fails"):
    while os.path.exists("endless") and not os.path.exists("begun"):
        time.sleep(0.05)
    time.sleep(float(open("check_fails").read() or 0))
    raise SystemExit("a layer was crossed")
"""
TREE = {
    "CMakeLists.txt": CMAKE,
    "CMakePresets.json": PRESETS,
    "scripts/check_layers.py": CHECK,
    "scripts/format.py": "",
    "scripts/tidy.py": "",
    "scripts/check_alone.py": "",
    "shared.h": "enum { kStatus = 0 };\n",
    "one.c": '#include "shared.h"\nint main(void) { return kStatus; }\n',
    "two.c": '#include "shared.h"\nint main(void) { return 2 * kStatus; }\n',
    "loaded.c": "int Status(void) { return 0; }\n",
    "three.c": "int Status(void);\nint main(void) { return Status(); }\n",
    "other.c": "int main(void) { return 1; }\n",
    "data/script.py": "import pathlib, sys\n"
                      "sys.exit(int(pathlib.Path(__file__).with_name('status').read_text()))\n",
    "data/status": "0\n",
}
ALL = ["one", "script", "three", "two"]


class CheckTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        for path, text in TREE.items():
            self.write(path, text)
        for name in ("check.sh", "build.sh", "step.sh", "run_changed.py"):
            shutil.copy(ROOT / "scripts" / name, self.root / "scripts")

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def change(self, path, before, after):
        text = (self.root / path).read_text()
        self.assertIn(before, text)
        self.write(path, text.replace(before, after))

    def start(self, **environment):
        outside = {name: value for name, value in os.environ.items()
                   if not name.startswith(("ATTNDB_", "GTEST_", "CTEST_"))}
        return subprocess.Popen([self.root / "scripts/check.sh", "2"], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                env={**outside, **environment}, start_new_session=True)

    def check(self, passes=True, **environment):
        """The tests that were run, and what was printed."""
        process = self.start(**environment)
        output = process.communicate(timeout=300)[0]
        self.assertEqual(process.returncode == 0, passes, output)
        return sorted(re.findall(r"Test +#\d+: (\w+) ", output)), output

    def processes(self):
        """The ids of those that run in the tree."""
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if pathlib.Path(os.readlink(process / "cwd")).is_relative_to(self.root):
                    found.append(int(process.name))
            except OSError:
                pass  # It has ended, or is another's.
        return found

    def assert_nothing_runs(self):
        """What was ended has some seconds to go; what was not goes on for longer."""
        deadline = time.monotonic() + 20
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        left = self.processes()
        for process in left:
            os.kill(process, signal.SIGKILL)
        self.assertEqual(left, [])

    def test_what_passed_is_run_again_when_its_source_changes(self):
        self.assertEqual(self.check()[0], ALL)
        self.assertEqual(self.check()[0], [])
        self.change("one.c", "return kStatus;", "static volatile int zero; return zero;")
        self.assertEqual(self.check()[0], ["one"])
        (self.root / "two.c").touch()  # Is compiled again, to the same bytes.
        self.change("one.c", "int main", "// The same program.\nint main")
        self.assertEqual(self.check()[0], [])
        self.change("other.c", "return 1;", "return 2;")  # Is none of the label, and fails.
        self.assertEqual(self.check()[0], [])

    def test_a_header_reaches_those_that_include_it_and_a_library_those_that_load_it(self):
        self.check()
        self.change("shared.h", "};", "};\n#define UNUSED 1")
        self.assertEqual(self.check()[0], [])
        self.change("loaded.c", "{ return 0; }", "{ static volatile int zero; return zero; }")
        self.assertEqual(self.check()[0], ["three"])
        self.change("shared.h", "kStatus = 0", "kStatus = 1")
        ran, output = self.check(passes=False)
        self.assertEqual(ran, ["one", "two"])
        self.assertIn("2 tests failed", output)

    def test_data_reaches_the_script_beside_it(self):
        self.check()
        self.write("data/status", "1\n")
        self.assertEqual(self.check(passes=False)[0], ["script"])

    def test_a_build_file_reaches_what_it_changes(self):
        self.check()
        self.write("CMakeLists.txt", CMAKE + "# Nothing else.\n")
        self.assertEqual(self.check()[0], [])
        self.write("CMakeLists.txt", CMAKE + "set_tests_properties(two PROPERTIES "
                                             "ENVIRONMENT SHARD=1)\n")
        self.assertEqual(self.check()[0], ["two"])
        self.write("CMakeLists.txt", CMAKE + "target_compile_options(one PRIVATE -O0)\n"
                                             "add_test(NAME four COMMAND three)\n"
                                             "set_tests_properties(four PROPERTIES LABELS unit)\n")
        self.assertEqual(self.check()[0], ["four", "one", "two"])

    def test_a_variable_of_ours_reaches_all(self):
        self.check()
        self.assertEqual(self.check(ATTNDB_SEED="17")[0], ALL)
        self.assertEqual(self.check(ATTNDB_SEED="17")[0], [])

    def test_what_failed_is_run_until_it_passes(self):
        self.change("one.c", "return kStatus;", "return 1;")
        self.assertEqual(self.check(passes=False)[0], ALL)
        self.assertEqual(self.check(passes=False)[0], ["one"])
        self.change("one.c", "return 1;", "return kStatus;")
        self.assertEqual(self.check()[0], ["one"])

    def test_what_does_not_compile_fails_and_runs_nothing(self):
        self.change("one.c", "return kStatus;", "return;;}")
        ran, output = self.check(passes=False)
        self.assertEqual(ran, [])
        self.assertIn("one.c", output)

    def test_a_check_that_fails_ends_the_build_beside_it(self):
        self.write("endless", "")
        self.write("check_fails", "")
        ran, output = self.check(passes=False)
        self.assertEqual(ran, [])
        self.assertIn("a layer was crossed", output)
        self.assert_nothing_runs()

    def test_an_interrupt_ends_the_build_too(self):
        self.write("endless", "")
        self.write("check_fails", "1000")
        process = self.start()
        deadline = time.monotonic() + 200
        while not (self.root / "begun").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)  # What Ctrl-C does.
        process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.assert_nothing_runs()


if __name__ == "__main__":
    unittest.main()
