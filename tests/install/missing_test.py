#!/usr/bin/env python3
"""A machine that lacks something is told all that it lacks, and how to get it, at once.

Configures this tree with packages hidden, as `pip install .` does it and as a build of everything.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def debian_packages(*parts):
    """{package: its name in find_package(), or None} of parts of the list that all read."""
    lines = (ROOT / "cmake/debian_packages.txt").read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {row[0]: row[2] if len(row) > 2 else None for row in rows if row[1] in parts}


ALL = debian_packages("library", "cli", "server", "tests", "bench")


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
        ok, said = configure(*hidden(*set(ALL.values()), "llama"))
        self.assertFalse(ok)
        for package, name in ALL.items():
            self.assertRegex(said, rf"{name}[ 0-9.A-Za-z]* \(Debian: [a-z0-9 -]*{package}")
        packages = said.partition("apt-get install ")[2].split(" Elsewhere")[0].split()
        self.assertEqual(sorted(packages), sorted(ALL))
        for package in ("libsqlite3-dev", "libgmock-dev", "libbenchmark-dev"):
            self.assertIn(package, packages)
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
        needed = " ".join(debian_packages("compiler", "library", "cli", "server"))
        self.assertIn(f"apt-get install {needed} For the Python package also python3-dev", said)


class OneListTest(unittest.TestCase):
    def test_the_handbook_names_the_packages_of_the_list(self):
        text = (ROOT / "docs/install.md").read_text()
        named = text.partition("\napt-get install ")[2].partition("\n")[0].split()
        self.assertEqual(sorted(named),
                         sorted(debian_packages("compiler", "library", "cli", "server",
                                                 "python")))
        static = [package for package, name in debian_packages("library").items()
                  if name != "nlohmann_json"]  # The archive does not refer to it: headers only.
        self.assertIn(f"`{' '.join(static)}`", text)

    def test_no_other_file_lists_packages(self):
        wanted = re.compile("|".join(map(re.escape, debian_packages("library", "cli", "server",
                                                                     "bench"))))
        files = [*ROOT.glob("*.*"), ROOT / "Makefile", *ROOT.glob("cmake/**/*.*"),
                 *ROOT.glob("scripts/*.*")]
        listing = [file for file in files if file.is_file() and wanted.search(file.read_text())]
        self.assertEqual(listing, [ROOT / "cmake/debian_packages.txt"])

    def test_the_set_up_asks_for_the_packages_of_the_list(self):
        with tempfile.TemporaryDirectory() as folder:
            fake = pathlib.Path(folder, "dpkg-query")  # Nothing is installed, it says.
            fake.write_text("#!/bin/sh\n")
            fake.chmod(0o755)
            fake_id = pathlib.Path(folder, "id")  # Else root installs them.
            fake_id.write_text("#!/bin/sh\necho 1000\n")
            fake_id.chmod(0o755)
            done = subprocess.run([ROOT / "scripts/setup.sh", "packages", "tools"], check=False,
                                  env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 1, done.stdout)
        asked = done.stdout.partition("apt-get install ")[2].split()
        expected = debian_packages("compiler", "make", "library", "cli", "server", "optional",
                                   "tests", "bench", "tools")
        self.assertEqual(asked, list(expected))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path)  # As all tests of this folder; not needed.
    _, rest = parser.parse_known_args()
    sys.exit(unittest.main(argv=[sys.argv[0], *rest]))
