#!/usr/bin/env python3
"""Goal: a build is refused a llama.cpp whose AMX code is wrong, and says what to do.

Method: this tree is configured upon artificial installed llama.cpps. A library of theirs holds code
that loads tiles which were never stored: the usual one, one of those for kinds of CPUs, an archive.
"""

import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

WRONG = """
void attndb_multiply(void) {
  char config[64];
  __asm__ volatile("ldtilecfg %0" ::"m"(config));
}
"""
RIGHT = "void attndb_multiply(void) {}\n"
CONFIG = """
get_filename_component(prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(LLAMA_INCLUDE_DIR ${prefix}/include)
set(LLAMA_LIB_DIR ${prefix}/lib)
set(LLAMA_BIN_DIR ${prefix}/bin)
add_library(llama UNKNOWN IMPORTED)
set_target_properties(llama PROPERTIES IMPORTED_LOCATION ${prefix}/lib/libllama.so)
"""


class RefusedTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.prefix = self.folder / "llama"
        package = self.prefix / "lib/cmake/llama"
        package.mkdir(parents=True)
        (package / "llama-config.cmake").write_text(CONFIG)
        self.library("lib/libllama.so", RIGHT)

    def library(self, name, source):
        """Installs a library; an archive if its name says so."""
        path = self.prefix / name
        path.parent.mkdir(exist_ok=True)
        (self.folder / "code.c").write_text(source)
        code = self.folder / "code.o"
        subprocess.run(["cc", "-fPIC", "-c", self.folder / "code.c", "-o", code], check=True)
        make = ["ar", "rcs", path, code] if path.suffix == ".a" else [
            "cc", "-shared", code, "-o", path]
        subprocess.run(make, check=True)

    def configure(self, *defines):
        """(whether CMake was content, what it said in one line)."""
        with tempfile.TemporaryDirectory() as build:
            done = subprocess.run(
                ["cmake", "-G", "Ninja", "-S", ROOT, "-B", build, "-DATTNDB_BUILD_TESTS=OFF",
                 "-DATTNDB_BUILD_BENCH=OFF", "-DATTNDB_BUILD_EXAMPLES=OFF",
                 "-DATTNDB_BUILD_LLAMA=AUTO",  # As pip has it.
                 f"-DCMAKE_PREFIX_PATH={self.prefix}", *defines],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode == 0, " ".join(done.stdout.split())

    def assert_refused(self, library):
        ok, said = self.configure()
        self.assertFalse(ok, said)
        self.assertIn("attndb is not built", said)
        self.assertIn(f"{self.prefix}/{library}", said)
        self.assertIn("attndb_multiply: ldtilecfg", said)
        for way in ("-mno-amx-tile", "scripts/setup.sh", "-DATTNDB_BUILD_LLAMA=OFF",
                    "-DATTNDB_CHECK_AMX=OFF"):
            self.assertIn(way, said)

    def test_a_right_one_is_taken(self):
        self.library("lib/libggml-cpu.so", RIGHT)
        ok, said = self.configure()
        self.assertTrue(ok, said)
        self.assertNotIn("AMX", said)

    def test_a_wrong_one_is_refused_unless_it_is_wanted(self):
        self.library("lib/libggml-cpu.so.0.25.3", WRONG)
        (self.prefix / "lib/libggml-cpu.so").symlink_to("libggml-cpu.so.0.25.3")
        self.assert_refused("lib/libggml-cpu.so.0.25.3")
        ok, said = self.configure("-DATTNDB_CHECK_AMX=OFF")
        self.assertTrue(ok, said)
        self.assertIn("its compiler got its AMX code wrong", said)

    def test_a_wrong_one_for_one_kind_of_cpu_is_refused(self):
        self.library("lib/libggml-cpu.so", RIGHT)
        self.library("bin/libggml-cpu-haswell.so", RIGHT)
        self.library("bin/libggml-cpu-sapphirerapids.so", WRONG)
        self.assert_refused("bin/libggml-cpu-sapphirerapids.so")

    def test_a_wrong_archive_is_refused(self):
        self.library("lib/libggml-cpu.a", WRONG)
        self.assert_refused("lib/libggml-cpu.a")

    def test_one_that_cannot_be_looked_at_is_refused(self):
        (self.prefix / "lib/libggml-cpu.so").write_text("no library")
        ok, said = self.configure()
        self.assertFalse(ok, said)
        self.assertIn("its AMX code can't be looked at", said)
        self.assertIn("file format not recognized", said)


if __name__ == "__main__":
    unittest.main()
