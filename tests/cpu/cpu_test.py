"""Goal:   the kernels hold on CPUs that this machine is not, and code that every CPU runs has no
        instruction that some lack: it would end there in SIGILL.
Method: QEMU runs the kernels' tests and the quick start on an emulated CPU with AVX2 and no
        AVX-512, and on one without AVX. The CPU's own CPUID chooses the kernels; nothing is forced.
        That QEMU refuses what the emulated CPU lacks is tried first, by an instruction of each set.
Leaves out: AVX-512, which QEMU does not emulate: kernels_test runs it on a machine that has it.
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

_QEMU = "qemu-x86_64"
_SKIPPED = 77

# Name of QEMU's CPU; the kernels that it runs, the best last; what it executes; what it refuses.
_CPUS = [
    ("Haswell", ["scalar", "avx2"], ["avx", "avx2", "fma", "f16c"], ["avx512f"]),
    ("Nehalem", ["scalar"], [], ["avx", "avx2", "fma", "f16c", "avx512f"]),
]
_ALL = ["scalar", "avx2", "avx512", "avx512vnni"]


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
    check(run([*qemu, args.kernels_test, "--gtest_brief=1"]), f"{name}: kernels_test")
    check_quickstart(qemu, args.quickstart)
    print(f"{name}: kernels_test and quickstart passed with the kernels {' '.join(kernels)}; "
          f"{time.monotonic() - begun:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser()
    for option in ("probe", "kernels-test", "quickstart"):
        parser.add_argument(f"--{option}", type=pathlib.Path, required=True)
    args = parser.parse_args()
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
