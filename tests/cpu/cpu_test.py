"""Goal:   the kernels hold on CPUs that this machine is not, and code that every CPU runs has no
        instruction that some lack: it would end there in SIGILL.
Method: 1. The test reads every instruction of the library, as objdump prints it. Only the kernels
        of a target may have that target's instructions. None of their functions may be weak: the
        linker could take a weak function for code that every CPU runs.
        2. QEMU runs kernels' tests and the quick start on an emulated CPU with AVX2 and no AVX-512,
        and on one without AVX. The CPU's own CPUID chooses the kernels; nothing is forced. The test
        first tries that QEMU refuses an instruction of each set that the emulated CPU lacks. All of
        kernels_test takes minutes under QEMU. A short run therefore leaves out the tests of _SLOW.
Leaves out: AVX-512, which QEMU does not emulate: kernels_test runs it on a machine that has it.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python/tests/hf"))

import sizes  # noqa: E402

_QEMU = "qemu-x86_64"
_SKIPPED = 77

# Name of QEMU's CPU; the kernels that it runs, the best last; what it executes; what it refuses.
_CPUS = [
    ("Haswell", ["scalar", "avx2"], ["avx", "avx2", "fma", "f16c"], ["avx512f"]),
    ("Nehalem", ["scalar"], [], ["avx", "avx2", "fma", "f16c", "avx512f"]),
]
_ALL = ["scalar", "avx2", "avx512", "avx512vnni"]
# Tests of kernels that a short run leaves out: 97 % of the time, and no family of kernels whole.
_SLOW = ("*EqualsFloat64*:*ForEvery*:*AttendBitsTest*:*TopK*:*ATopThreshold*:*EveryIsaGives*:"
         "*NarrowingRounds*:*EqualsTheMatrix*:*WeightsAreNear*:*LoseWhat*")
_LEAST = 80  # Tests that a short run has at least.

# A line of objdump: an instruction's mnemonic and operands.
_INSTRUCTION = re.compile(r"^ +[0-9a-f]+:\t(\S+)(.*)", re.MULTILINE)
# What AVX and AVX2 code must not use: the registers that AVX-512 adds.
_AVX512 = re.compile(r"%zmm|%[xy]mm(?:1[6-9]|2\d|3[01])|%k[0-7]")
# What AVX-512 code must not use, unless it is that of avx512vnni: VNNI and VBMI.
_VNNI = re.compile(r"vpdp\w+|vperm[it]?2?b|vpmultishiftqb|vpermb")
_OBJECT = re.compile(r"^(\S+\.o):\s+file format", re.MULTILINE)


class Failure(Exception):
    pass


def run(command, timeout=900):
    environment = {name: value for name, value in os.environ.items() if name != "ATTNDB_ISA"}
    return subprocess.run([str(word) for word in command], env=environment, timeout=timeout,
                          capture_output=True, text=True, check=False)


def check(done, what):
    if done.returncode != 0:
        raise Failure(f"{what}: exit {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def check_emulation(qemu, probe, executes, refuses):
    """QEMU has what the CPU has, and no more."""
    for isa in executes:
        check(run([*qemu, probe, isa]), f"{qemu[-1]} runs {isa}")
    for isa in refuses:
        code = run([*qemu, probe, isa]).returncode
        if code != -signal.SIGILL:
            raise Failure(f"{qemu[-1]} was expected to refuse {isa} by SIGILL; exit {code}")


def instructions_beyond(path, code):
    """The instructions in an object file of the library that its CPUs may lack."""
    found = _INSTRUCTION.findall(code)
    if "kernels_avx512vnni" in path:
        return []
    if "kernels_avx512" in path:
        return [name + operands for name, operands in found if _VNNI.fullmatch(name)]
    if "kernels_avx2" in path:
        return [name + operands for name, operands in found if _AVX512.search(operands)]
    return [name + operands for name, operands in found if name[0] == "v" and name[:3] != "ver"]


def disassembled(paths):
    """Path -> code of each object file."""
    done = run(["objdump", "-d", "--no-show-raw-insn", *paths])
    check(done, f"objdump of {len(paths)} files")
    parts = _OBJECT.split(done.stdout)
    return dict(zip(parts[1::2], parts[2::2]))


def check_no_weak_functions(paths):
    done = run(["nm", "--defined-only", *paths])
    check(done, f"nm of {len(paths)} files")
    if weak := re.findall(r"^[0-9a-f]+ ([WVu] \S+)", done.stdout, re.MULTILINE):
        raise Failure(f"kernels define weak functions: {weak[:5]}")


def check_library(paths):
    code = disassembled(paths)
    check_no_weak_functions([path for path in paths if "kernels_avx" in path])
    for target in ("avx2", "avx512"):  # Else a check that reads objdump wrongly would pass.
        seen = [path for path in code if f"kernels_{target}.dir" in path]
        if not any(instructions_beyond("other", code[path]) for path in seen):
            raise Failure(f"no instruction of AVX is seen in {seen}")
    if any("kernels_avx512vnni" in path for path in code):
        vnni = "".join(code[path] for path in code if "kernels_avx512vnni" in path)
        if not instructions_beyond("kernels_avx512.dir", vnni):
            raise Failure("no instruction of VNNI is seen in the kernels of avx512vnni")
    if not any(instructions_beyond("kernels_avx2", code[path]) for path in seen):
        raise Failure(f"no instruction of AVX-512 is seen in {seen}")
    for path in code:
        beyond = instructions_beyond(path, code[path])
        if beyond:
            raise Failure(f"{path}: not every CPU that runs it has {beyond[:5]}")
    print(f"no instruction of another instruction set in {len(code)} object files", flush=True)


def check_quickstart(qemu, quickstart):
    with tempfile.TemporaryDirectory() as folder:
        store = pathlib.Path(folder) / "store"
        for expected in ("ran 200 of 200 tokens", "ran 1 of 200 tokens"):
            done = run([*qemu, quickstart, store])
            check(done, f"{qemu[-1]}: quickstart")
            if done.stdout.strip() != expected:
                raise Failure(f"{qemu[-1]}: quickstart printed {done.stdout!r}, not {expected!r}")


def try_cpu(args, name, kernels, executes, refuses):
    qemu = [_QEMU, "-cpu", name]
    check_emulation(qemu, args.probe, executes, refuses)
    done = run([*qemu, args.probe])
    check(done, f"{name}: isa_probe")
    if done.stdout.split() != kernels:
        raise Failure(f"{name}: kernels for {done.stdout.split()}, expected {kernels}")
    begun = time.monotonic()
    which = "all of" if sizes.is_long() else "the short part of"
    tests = sizes.sized(f"-{_SLOW}", "*")
    done = run([*qemu, args.kernels_test, f"--gtest_filter={tests}"])
    check(done, f"{name}: kernels_test")
    ran = re.search(r"\[  PASSED  \] (\d+) tests?", done.stdout)
    if not ran or int(ran[1]) < _LEAST:
        raise Failure(f"{name}: kernels_test ran too little: {done.stdout[-300:]}")
    check_quickstart(qemu, args.quickstart)
    print(f"{name}: {which} kernels_test ({ran[1]} tests) and quickstart passed with the kernels "
          f"{' '.join(kernels)}; "
          f"{time.monotonic() - begun:.0f} s", flush=True)
    if sizes.is_long():
        sizes.print_count(ran[1], f"tests of kernels on an emulated {name}")


def main():
    parser = argparse.ArgumentParser()
    for option in ("probe", "kernels-test", "quickstart"):
        parser.add_argument(f"--{option}", type=pathlib.Path, required=True)
    parser.add_argument("--objects", nargs="+", required=True)  # Object files of the library.
    args = parser.parse_args()
    check_library(args.objects)
    if shutil.which(_QEMU) is None:
        print(f"skipped: no {_QEMU} (Debian's package qemu-user)")
        return _SKIPPED
    done = run([args.probe])
    check(done, "isa_probe")
    native = done.stdout.split()
    for cpu in _CPUS:
        try_cpu(args, *cpu)
    emulated = {isa: name for name, kernels, _, _ in _CPUS for isa in kernels}
    for isa in _ALL:
        ways = ["natively, by kernels_test"] if isa in native else []
        ways += [f"emulated, as {emulated[isa]}"] if isa in emulated else []
        reason = f"not tried: this machine lacks it, and {_QEMU} has none"
        print(f"{isa}: " + ("tried " + "; ".join(ways) if ways else reason))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failure, subprocess.TimeoutExpired) as failure:
        sys.exit(f"cpu_test: {failure}")
