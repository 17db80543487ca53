#!/usr/bin/env python3
"""`pip install .` in an empty environment gives a package that needs numpy only.

Builds from a copy of the sources, with pip's own build isolation; then, with nothing else
installed: a context is stored and found, the command line runs, and attndb.hf and attndb.plot ask
for what they miss by name. Where libraries are missing (hidden from CMake), pip's output ends in
what they are and how to get them; without a llama.cpp the command line says how to get one.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ("CMakeLists.txt", "LICENSE", "README.md", "cli", "cmake", "engines", "include",
           "pyproject.toml", "python", "src")

STORES = """
import attndb, numpy as np
spec = attndb.ModelSpec.uniform(1, 1, 1, 8, kv_dtype="float32", fingerprint=b"x")
rows = np.ones((3, 1, 8), np.float32)
with attndb.open("store") as db:
    db.import_context(spec, [1, 2, 3], [(rows, rows)], name="a")
    session, rest = db.create_session(spec, [1, 2, 3, 4])
    assert session.num_reused == 3 and list(rest) == [4]
"""
MISSES = """
for module, missing in (("hf", "torch"), ("plot", "matplotlib")):
    try:
        __import__("attndb." + module)
    except ImportError as error:
        assert missing in str(error) and "pip install" in str(error), error
    else:
        raise AssertionError(module)
"""


class PackageTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_in(self, *command, code=0, **variables):
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        environment["CCACHE_BASEDIR"] = str(self.folder)
        environment["CCACHE_NOHASHDIR"] = "1"
        environment.update(variables)
        done = subprocess.run([str(word) for word in command], cwd=self.folder, env=environment,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stdout[-4000:] + done.stderr[-4000:])
        return done.stdout if code == 0 else done.stdout + done.stderr

    def test_installs_into_an_empty_environment(self):
        source = self.folder / "source"
        for name in SOURCES:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            source.mkdir(exist_ok=True)
            copy(ROOT / name, source / name)
        venv.create(self.folder / "venv", with_pip=True)
        python = self.folder / "venv/bin/python"
        pip = (python, "-m", "pip", "install", "--quiet", source)
        hidden = " ".join(f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("SQLite3", "ISAL"))
        said = self.run_in(*pip, code=1, CMAKE_ARGS=hidden)
        self.assertRegex(said, r"apt-get install libsqlite3-dev libisal-dev\n")
        self.run_in(*pip)
        shutil.rmtree(source)

        self.run_in(python, "-c", STORES)
        self.run_in(python, "-c", MISSES)
        listed = self.run_in(python, "-m", "attndb", "ls", "--db", "store", "--json")
        self.assertIn('"a"', listed)
        self.assertEqual(listed, self.run_in(python.with_name("attndb"), "ls", "--db", "store",
                                             "--json"))
        site = pathlib.Path(self.run_in(python, "-c", "import attndb; print(attndb.__path__[0])")
                            .strip())
        for suffix in (".h", ".a", ".cmake"):  # What others build upon is not in a wheel.
            self.assertEqual(list(site.rglob("*" + suffix)), [])
        # The copied sources have no .deps.
        said = self.run_in(python, "-m", "attndb", "ask", "x", "--db", "store", code=10)
        self.assertIn("scripts/setup.sh", said)


if __name__ == "__main__":
    sys.exit(unittest.main())
