#!/usr/bin/env python3
"""Goal: nothing of llama.cpp's AMX code is used that its compiler gets wrong (GCC bug 114098).

Method: object code is looked at, by scripts/amx.py, because few machines can run it: recorded wrong
and right code; the compilers at hand, with the flags that the set-up gives them; llama.cpp's own
source of it, compiled for a CPU that has AMX; the libraries that are installed.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import amx  # noqa: E402

ARGS = None

# ggml_backend_amx_mul_mat by GCC 12.2: after the zeros only the palette is stored.
DROPPED = """\
0000000000000000 <multiply>:
   10:\tvpxor  %xmm0,%xmm0,%xmm0
   14:\tvmovdqa64 %zmm0,0xc0(%rsp)
   1c:\tmovb   $0x1,0xc0(%rsp)
   24:\tldtilecfg 0xc0(%rsp)
"""
# The same by clang 14: columns by a vector, rows by a register.
STORED = """\
0000000000000000 <multiply>:
   d0:\tvxorps %xmm0,%xmm0,%xmm0
   d4:\tvmovaps %ymm0,0x100(%rsp)
   dd:\tvmovaps %ymm0,0x120(%rsp)
   e6:\tmovb   $0x1,0x100(%rsp)
   ee:\tmovabs $0x1010101010100808,%rcx
   f8:\tmov    %rcx,0x130(%rsp)
  100:\tvmovaps 0x0(%rip),%xmm0        # 6908 <multiply+0x44f8>
  108:\tvmovaps %xmm0,0x110(%rsp)
  111:\tldtilecfg 0x100(%rsp)
"""


class RecordedCodeTest(unittest.TestCase):
    def test_finds_stores_that_were_dropped(self):
        self.assertEqual(list(amx.faults(DROPPED)), [
            "multiply: ldtilecfg 0xc0(%rsp): the columns and the rows of its tiles were never "
            "stored (GCC bug 114098)"])

    def test_accepts_stores(self):
        self.assertEqual(list(amx.faults(STORED)), [])

    def test_finds_rows_alone_missing(self):
        code = STORED.replace("   f8:\tmov    %rcx,0x130(%rsp)\n", "")
        self.assertIn("the rows of its tiles were never stored", "".join(amx.faults(code)))

    def test_stores_of_another_function_do_not_count(self):
        self.assertEqual(len(list(amx.faults(STORED.replace("ldtilecfg", "ret #") + DROPPED))), 1)

    def test_stores_elsewhere_do_not_count(self):
        code = STORED.replace("0x110(%rsp)", "0x110(%rbx)").replace("0x130(%rsp)", "0x210(%rsp)")
        self.assertIn("the columns and the rows", "".join(amx.faults(code)))

    def test_follows_an_address_that_was_taken(self):
        code = STORED.replace("  111:\tldtilecfg 0x100(%rsp)",
                              "  10a:\tlea    0x100(%rsp),%rax\n  111:\tldtilecfg (%rax)")
        self.assertEqual(list(amx.faults(code)), [])
        self.assertEqual(len(list(amx.faults("0 <f>:\n   0:\tldtilecfg (%rdi)\n"))), 1)


class CompilerTest(unittest.TestCase):
    def compile(self, compiler, source, *flags):
        """The wrong loads of a source, compiled for a CPU with AMX."""
        with tempfile.TemporaryDirectory() as folder:
            code = pathlib.Path(folder, "code.o")
            subprocess.run([compiler, "-std=gnu++17", "-O3", "-DNDEBUG", "-fPIC", "-w",
                            "-D_GNU_SOURCE", "-march=sapphirerapids", *flags, "-c", str(source),
                            "-o", str(code)], check=True)
            loads = subprocess.run(["objdump", "-d", str(code)], capture_output=True, text=True,
                                   check=True).stdout.count("ldtilecfg")
            return loads, amx.faults_of(code)

    def flags(self):
        command = [sys.executable, str(ROOT / "scripts/amx.py"), "--flags", ARGS.compiler]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.split()

    def test_the_probe_is_right_with_the_flags_of_the_set_up(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "probe.cc")
            source.write_text(amx.PROBE)
            if self.flags():  # Without AMX its intrinsic does not compile: nothing can be wrong.
                self.assertEqual(self.flags(), list(amx.WITHOUT_AMX))
                self.assertEqual(len(self.compile(ARGS.compiler, source)[1]), 1)
            else:
                loads, faults = self.compile(ARGS.compiler, source)
                self.assertEqual((loads, faults), (1, []))

    def test_llama_cpp_compiled_for_a_cpu_with_amx_is_right(self):
        ggml = pathlib.Path(ARGS.llama, "share/attndb/ggml")
        if not ggml.is_dir():
            self.skipTest("this llama.cpp is not the set-up's: its sources are not at hand")
        source = ggml / "src/ggml-cpu/amx/mmq.cpp"
        folders = [f"-I{ggml / part}" for part in ("include", "src", "src/ggml-cpu")]
        loads, faults = self.compile(ARGS.compiler, source, *folders, *self.flags())
        self.assertEqual(faults, [])
        if self.flags():
            self.assertEqual(loads, 0)
            # What the flags are for: without them this compiler is wrong.
            self.assertEqual(len(self.compile(ARGS.compiler, source, *folders)[1]), 1)
        flags = " ".join(self.flags()) or "with AMX"
        print(f"amx: {ARGS.compiler} {flags}: {loads} loads, none wrong")

    def test_the_installed_libraries_are_right(self):
        libraries = [path for path in pathlib.Path(ARGS.llama, "lib").glob("lib*.so*")
                     if not path.is_symlink()]
        self.assertGreaterEqual(len(libraries), 4)
        for library in libraries:
            self.assertEqual(amx.faults_of(library), [], library)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--llama", default=str(ROOT / ".deps/llama"))
    ARGS, rest = parser.parse_known_args()
    sys.exit(unittest.main(argv=[sys.argv[0], *rest]))
