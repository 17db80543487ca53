#!/usr/bin/env python3
"""What `cmake --install` puts under a prefix is what another project needs.

Installs the build tree that it is given (nothing of attndb is compiled again) into a folder, moves
that to another place, and builds programs outside of the tree against it: C++ and C, by
find_package and by pkg-config, shared and static, with the llama.cpp adapter and without. Each is
run. Then what is asked for and is not there is refused by name.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MODEL = ROOT / ".deps/models/SmolLM2-135M-Instruct.Q4_1.gguf"
ARGS = None


def run(*command, cwd=None, env=None, fails=False):
    """Stdout and stderr of a command that must succeed, or must fail."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env={**os.environ, **(env or {})}, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if (done.returncode != 0) != fails:
        raise AssertionError(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        run("cmake", "--install", ARGS.build, "--prefix", cls.folder / "first")
        cls.prefix = cls.folder / "moved" / "attndb"
        cls.prefix.parent.mkdir()
        (cls.folder / "first").rename(cls.prefix)
        cls.has_llama = (cls.prefix / "include/attndb/llama").exists()

    def configure(self, name, *defines, components=(), prefix=None, fails=False):
        build = self.folder / name
        text = run("cmake", "-G", "Ninja", "-S", HERE / "consumer", "-B", build,
                   f"-DCMAKE_PREFIX_PATH={prefix or self.prefix}",
                   f"-DCONSUMER_COMPONENTS={';'.join(components)}", *defines, fails=fails)
        return text if fails else build

    def runs(self, program):
        self.assertRegex(run(program, self.folder / f"{program.name}.store"),
                         r"^attndb \d+\.\d+\.\d+$")
        shutil.rmtree(self.folder / f"{program.name}.store")

    def simulates(self, program):
        self.assertIn("100 synthetic conversations", run(program))
        libraries = run("ldd", program)
        self.assertIn("libattndb_simulate.so", libraries)
        self.assertNotIn("libattndb.so", libraries)

    def runs_a_model(self, program):
        if MODEL.exists():
            self.assertTrue(run(program, MODEL, self.folder / f"{program.name}.store").strip())

    def test_the_command_line_has_its_page_and_its_completion(self):
        share = self.prefix / "share"
        attndb = self.prefix / "bin/attndb"
        for file, *command in (("man/man1/attndb.1", "man"),
                               ("bash-completion/completions/attndb", "completion", "bash"),
                               ("zsh/site-functions/_attndb", "completion", "zsh"),
                               ("fish/vendor_completions.d/attndb.fish", "completion", "fish")):
            self.assertEqual((share / file).read_text(), run(attndb, *command), file)

    def test_the_licenses_of_all_that_is_in_it_are_there(self):
        licenses = self.prefix / "share/doc/attndb"
        self.assertIn("Apache License", (licenses / "LICENSE").read_text())
        if (self.prefix / "bin/attndb-server").exists():
            self.assertIn("Christopher Jeffrey", (licenses / "marked-license.txt").read_text())

    def test_the_page_of_the_service_is_there_and_leads_to_others(self):
        unit = (ROOT / "packaging/attndb.service").read_text()
        [place] = re.findall(r"^Documentation=file:///usr/local/(.+)$", unit, re.MULTILINE)
        page = self.prefix / place
        links = re.findall(r"\]\(([^)#:]+)", page.read_text())
        inside = [link for link in links if not link.startswith("../")]
        self.assertIn("openapi.yaml", inside)
        for link in inside:
            self.assertTrue((page.parent / link).is_file(), link)

    def test_a_cmake_project_links_it_shared_and_static(self):
        build = self.configure("with_static", components=["static"])
        run("cmake", "--build", build)
        for name in ("consumer", "consumer_c", "consumer_static", "consumer_c_static"):
            self.runs(build / name)
            linked = "libattndb.so" in run("ldd", build / name)
            self.assertEqual(linked, not name.endswith("_static"), name)
        self.simulates(build / "simulate_consumer")

    def test_a_cmake_project_runs_models(self):
        if not self.has_llama:
            self.skipTest("built without the llama.cpp adapter")
        build = self.configure("with_llama", components=["static", "llama"])
        run("cmake", "--build", build, "--target", "llama_consumer", "llama_consumer_static")
        self.runs_a_model(build / "llama_consumer")
        self.runs_a_model(build / "llama_consumer_static")

    def test_a_cmake_project_without_cpp_links_the_shared_library(self):
        build = self.configure("only_c", "-DCONSUMER_LANGUAGES=C")
        run("cmake", "--build", build)
        self.runs(build / "consumer_c")

    def test_a_newer_standard_of_the_project_is_kept(self):
        build = self.configure("newer", "-DCMAKE_CXX_STANDARD=23",
                               "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
        self.assertRegex((build / "compile_commands.json").read_text(), r"-std=gnu\+\+(23|2b)")

    def test_an_older_standard_is_refused_in_the_first_line(self):
        compiler = ("c++", f"-I{self.prefix / 'include'}", "-x", "c++", "-fsyntax-only")
        headers = [path.name for path in (self.prefix / "include/attndb").glob("*.h")]
        for header in headers:
            source = self.folder / "older.cc"
            source.write_text(f"#include <attndb/{header}>\n")
            run(*compiler, "-Werror", "-std=c++20", source)
            if header in ("c_api.h", "export.h", "version.h"):  # Nothing in them is C++20.
                run(*compiler, "-Werror", "-std=c++17", source)
                continue
            said = run(*compiler, "-std=c++17", source, fails=True)
            first = next(line for line in said.splitlines() if "error:" in line)
            self.assertIn("attndb needs C++20: compile with -std=c++20", first, header)

    def test_pkg_config_is_enough(self):
        folder = self.folder / "make"
        shutil.copytree(HERE / "consumer", folder)
        env = {"PKG_CONFIG_PATH": str(self.prefix / "lib/pkgconfig")}
        targets = ["all", "llama_consumer"] if self.has_llama else ["all"]
        run("make", *targets, cwd=folder, env=env)
        for name in ("consumer", "consumer_c", "consumer_c_static"):
            self.runs(folder / name)
            linked = "libattndb.so" in run("ldd", folder / name)
            self.assertEqual(linked, not name.endswith("_static"), name)
        self.simulates(folder / "simulate_consumer")
        if self.has_llama:
            self.runs_a_model(folder / "llama_consumer")

    def test_the_shared_library_needs_no_package_of_its_dependencies(self):
        absent = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("SQLite3", "ISAL")]
        self.configure("shared_only", *absent)
        said = self.configure("no_static", *absent, components=["static"], fails=True)
        self.assertIn("its static library needs SQLite3, ISAL", " ".join(said.split()))

    def test_what_is_not_there_is_refused_by_name(self):
        prefix = self.folder / "without_llama"
        shutil.copytree(self.prefix, prefix, symlinks=True)
        for path in (prefix / "lib/cmake/attndb").glob("attndbLlama*"):
            path.unlink()
        self.configure("no_llama", components=["static"], prefix=prefix)
        said = self.configure("llama", components=["llama"], prefix=prefix, fails=True)
        self.assertIn("was built without the llama.cpp adapter", " ".join(said.split()))
        said = self.configure("unknown", components=["gpu"], fails=True)
        self.assertIn("components are static and llama", " ".join(said.split()))

    def test_another_minor_version_is_refused(self):
        for version in ("0.0", "0.2", "1.0"):
            said = self.configure(f"version_{version}", f"-DCONSUMER_VERSION={version}", fails=True)
            self.assertIn("version", said)

    def test_all_public_headers_are_there_and_no_others(self):
        include = self.prefix / "include"
        expected = {path.relative_to(ROOT / "include") for path in ROOT.glob("include/attndb/*.h")}
        found = {path.relative_to(include) for path in include.rglob("*") if path.is_file()}
        self.assertEqual({path for path in found if path.parts[1] != "llama"}, expected)

    def test_nothing_names_the_place_where_it_was_built(self):
        for path in self.prefix.rglob("*"):
            if path.suffix in (".cmake", ".pc", ".h"):
                for folder in (ROOT, ARGS.build, self.folder / "first"):
                    self.assertNotIn(str(folder), path.read_text(), path)
        for program in (self.prefix / "bin").iterdir():
            paths = re.findall(r"R(?:UN)?PATH.*\[(.*)\]", run("readelf", "-d", program))
            for folder in ":".join(paths).split(":"):
                self.assertTrue(folder.startswith("$ORIGIN"), f"{program}: {folder}")

    def test_the_installed_command_line_runs_and_starts_its_programs(self):
        attndb = self.prefix / "bin/attndb"
        self.assertRegex(run(attndb, "--version"), r"^attndb \d+\.\d+\.\d+$")
        self.assertIn("100 synthetic conversations",
                      run(attndb, "simulate", "--conversations", "100"))
        programs = {path.name for path in (self.prefix / "bin").iterdir()}
        self.assertLessEqual({"attndb", "attndb-simulate"}, programs)
        if "attndb-server" in programs:  # It opens the file of keys, attndb does not.
            said = run(attndb, "serve", "--keys", self.folder / "no.json", fails=True)
            self.assertIn("no.json", said)
        self.assertEqual("attndb-server" in programs, self.has_llama)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    ARGS, rest = parser.parse_known_args()
    sys.exit(unittest.main(argv=[sys.argv[0], *rest]))
