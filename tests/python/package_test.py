#!/usr/bin/env python3
"""`pip install .` in an empty environment gives a package that needs numpy only.

Builds from a copy of the sources, with pip's own build isolation; then, with nothing else
installed: a context is stored and found, the command line runs, and attndb.hf and attndb.plot ask
for what they miss by name. Where libraries are missing (hidden from CMake), pip's output ends in
what they are and how to get them; without a llama.cpp the command line says how to get one. With
one that was installed elsewhere, the package has that llama.cpp in it: nothing of where it was
built is needed, and `attndb doctor` runs a forward on it. Without attndb-chat beside it, the
package refuses by name what needs that, and all else works.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
LLAMA = ROOT / ".deps/llama"
SOURCES = ("CMakeLists.txt", "LICENSE", "README.md", "cli", "cmake", "engines", "include",
           "pyproject.toml", "python", "scripts", "server", "src")
# What llama.cpp itself installs has no search path; the libraries of the set-up have $ORIGIN.
WITHOUT_SEARCH_PATH = """
file(GLOB libraries ${FOLDER}/lib/*.so)
foreach(library IN LISTS libraries)
  file(REAL_PATH ${library} library)
  file(RPATH_REMOVE FILE ${library})
endforeach()
"""

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
        # As the build names its compiler: what it compiled is in ccache, also by that name.
        environment.setdefault("CC", "cc")
        environment.setdefault("CXX", "c++")
        environment.update(variables)
        done = subprocess.run([str(word) for word in command], cwd=self.folder, env=environment,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stdout[-4000:] + done.stderr[-4000:])
        return done.stdout if code == 0 else done.stdout + done.stderr

    def copy_sources(self):
        """A copy of the sources, which has no .deps, and the python of an empty environment."""
        source = self.folder / "source"
        for name in SOURCES:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            source.mkdir(exist_ok=True)
            copy(ROOT / name, source / name)
        venv.create(self.folder / "venv", with_pip=True)
        return source, self.folder / "venv/bin/python"

    def copy_llama(self):
        """An installed llama.cpp outside of any sources."""
        llama = self.folder / "llama"
        shutil.copytree(LLAMA, llama, symlinks=True)
        script = self.folder / "remove.cmake"
        script.write_text(WITHOUT_SEARCH_PATH)
        self.run_in("cmake", f"-DFOLDER={llama}", "-P", script)
        return llama

    def assert_advice_is_for_a_package(self, said):
        self.assertIn("pip install", said)
        for word in ("scripts/", "make setup", ".deps/llama"):
            self.assertNotIn(word, said)

    def test_a_wheel_has_the_llama_cpp_in_it_that_it_was_built_with(self):
        if not LLAMA.exists():
            self.skipTest("no .deps/llama: scripts/setup.sh engine builds one")
        source, python = self.copy_sources()
        llama = self.copy_llama()
        self.run_in(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "wheels",
                    source, CMAKE_PREFIX_PATH=str(llama),
                    LDFLAGS="-Wl,--as-needed")  # What Ubuntu's compiler does by itself.
        shutil.rmtree(source)
        shutil.rmtree(llama)
        wheels = list((self.folder / "wheels").glob("attndb-*.whl"))
        self.run_in(python, "-m", "pip", "install", "--quiet", *wheels)

        attndb = (python, "-m", "attndb")
        report = json.loads(self.run_in(*attndb, "doctor", "--fast", "--json", "--db", "store"))
        self.assertTrue(report["engine"]["forward"]["ok"], report)
        self.assertNotIn(None, report["programs"].values())
        self.run_in(*attndb, "simulate", "--conversations", "100")
        said = self.run_in(*attndb, "serve", "--keys", "no.json", "--db", "store", code=3)
        self.assertIn("no.json", said)  # attndb-server opens it.
        self.run_in("c++", "-shared", "-fPIC", "-o", "dying.so",
                    ROOT / "tests/cli/dying_llama.cc")
        preload = str(self.folder / "dying.so")
        program = next((self.folder / "venv").glob("lib/python3*/site-packages/attndb/bin/attndb"))
        said = self.run_in(program, "doctor", "--fast", "--db", "store", code=1, LD_PRELOAD=preload)
        self.assertIn("died of SIGILL", said)
        self.assert_advice_is_for_a_package(said)
        self.check_without_chat_program(program)

    def check_without_chat_program(self, attndb):
        """A package that was built on a llama.cpp without `common` has no attndb-chat."""
        attndb.with_name("attndb-chat").unlink()
        model = self.folder / "tiny.gguf"
        self.run_in(sys.executable, "-B", ROOT / "scripts/make_tiny_model.py", "--kind",
                    "llama_bpe", "--out", model)
        (self.folder / "own.jinja").write_text("[{{ messages[0].content }}]")
        (self.folder / "text").write_text("The lamp shines every twelve seconds.")
        imports = (attndb, "import", "text", "--name", "a", "-m", model, "--db", "chats")
        said = self.run_in(*imports, "--chat-template", "own.jinja", code=10)
        self.assertIn("attndb-chat", said)
        self.run_in(*imports, "--raw")
        answer = json.loads(self.run_in(attndb, "ask", "-c", "a", "When?", "--max-tokens", "2",
                                        "--json", "--db", "chats"))
        self.assertIn("answer", answer)
        report = json.loads(self.run_in(attndb, "doctor", "--fast", "--json", "--db", "chats"))
        self.assertTrue(report["engine"]["forward"]["ok"], report)
        self.assertIsNone(report["programs"]["attndb-chat"])

    def test_installs_into_an_empty_environment(self):
        source, python = self.copy_sources()
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
        self.assertEqual({path.name for path in (site / "bin").iterdir()},
                         {"attndb", "attndb-simulate"})
        self.run_in(python, "-m", "attndb", "simulate", "--conversations", "100")
        [licenses] = site.parent.glob("attndb-*.dist-info/licenses")
        self.assertEqual({path.name for path in licenses.rglob("*") if path.is_file()},
                         {"LICENSE", "marked-license.txt"})
        for suffix in (".h", ".a", ".cmake"):  # What others build upon is not in a wheel.
            self.assertEqual(list(site.rglob("*" + suffix)), [])
        said = self.run_in(python, "-m", "attndb", "ask", "x", "--db", "store", code=10)
        self.assertIn("CMAKE_PREFIX_PATH=/path/to/llama pip install", said)
        self.assert_advice_is_for_a_package(said)


if __name__ == "__main__":
    sys.exit(unittest.main())
