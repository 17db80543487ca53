#!/usr/bin/env python3
"""A machine that lacks something is told all that it lacks, and how to get it, at once.

Configures this tree with packages hidden, as `pip install .` does it and as a build of everything.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALL = {"SQLite3": "libsqlite3-dev", "OpenSSL": "libssl-dev", "ISAL": "libisal-dev",
       "nlohmann_json": "nlohmann-json3-dev", "CLI11": "libcli11-dev", "GTest": "libgtest-dev",
       "benchmark": "libbenchmark-dev"}


def configure(*defines, env=None):
    """(whether CMake was content, what it said in one line)."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["cmake", "-G", "Ninja", "-S", ROOT, "-B", folder, *defines],
                              env=env or os.environ, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode == 0, " ".join(done.stdout.split())


def hidden(*names):
    return [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in names]


class MissingTest(unittest.TestCase):
    def test_all_that_is_missing_is_said_at_once(self):
        ok, said = configure(*hidden(*ALL, "llama"))
        self.assertFalse(ok)
        for name, package in ALL.items():
            self.assertRegex(said, rf"{name}[ 0-9.A-Za-z]* \(Debian: {package}")
        packages = said.partition("apt-get install ")[2].split(" Elsewhere")[0].split()
        self.assertEqual(sorted(packages), sorted([*ALL.values(), "libgmock-dev"]))
        self.assertIn("llama.cpp, installed in CMAKE_PREFIX_PATH: scripts/setup.sh", said)

    def test_what_is_switched_off_is_not_missed(self):
        ok, said = configure("-DATTNDB_BUILD_TESTS=OFF", "-DATTNDB_BUILD_BENCH=OFF",
                             "-DATTNDB_BUILD_LLAMA=OFF", *hidden("GTest", "benchmark", "llama"))
        self.assertTrue(ok, said)

    def test_a_package_that_is_missing_alone_is_asked_for_alone(self):
        ok, said = configure("-DATTNDB_BUILD_LLAMA=OFF", *hidden("ISAL"))
        self.assertFalse(ok)
        self.assertIn("apt-get install libisal-dev Elsewhere", said)

    def test_the_python_package_asks_for_pythons_headers(self):
        ok, said = configure("-DATTNDB_BUILD_PYTHON=ON", "-DATTNDB_BUILD_LLAMA=OFF",
                             *hidden("Python", "CLI11"))
        self.assertFalse(ok)
        self.assertIn("apt-get install libcli11-dev python3-dev Elsewhere", said)

    def test_without_llama_cpp_the_package_is_built_and_it_is_said(self):
        ok, said = configure("-DATTNDB_BUILD_LLAMA=AUTO", "-DATTNDB_BUILD_TESTS=OFF",
                             "-DATTNDB_BUILD_BENCH=OFF", *hidden("llama"))
        self.assertTrue(ok, said)
        self.assertIn("llama.cpp adapter: no; no installed llama.cpp", said)

    def test_without_a_compiler_all_packages_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            for tool in ("cmake", "ninja"):
                path = next(pathlib.Path(entry, tool) for entry in os.environ["PATH"].split(":")
                            if pathlib.Path(entry, tool).exists())
                pathlib.Path(folder, tool).symlink_to(path)
            ok, said = configure(env={"PATH": folder, "HOME": folder})
        self.assertFalse(ok)
        self.assertIn("there is no C++ compiler", said)
        self.assertIn("apt-get install g++ libsqlite3-dev", said)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path)  # As all tests of this folder; not needed.
    _, rest = parser.parse_known_args()
    sys.exit(unittest.main(argv=[sys.argv[0], *rest]))
