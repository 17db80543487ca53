#!/usr/bin/env python3
"""Puts small faults into the code, and counts how many of them the fast tests notice.

    scripts/mutants.py [--count N] [--seed S] [--json FILE] [--again FILE] [--keep] [FOLDER...]

Folders: src/store, src/storage, src/session and src/derived, unless others are given. Each fault is
         one change of one line that is no comment: a condition turned round, a comparison moved by
         one, an error ignored, a number off by one, a statement left out. The same seed gives the
         same faults, as long as the code stays.
Method:  a checkout of the commit at hand in a folder of its own (.deps/mutants), built once with
         all faults in it, each behind a switch (scripts/mutant_sites.py); those that do not compile
         are drawn again. Every unit test, and those in tests/integration and tests/property, run
         once with none switched on, and tell which faults they reach. Then each fault alone is
         switched on (ATTNDB_FAULT=7), for the tests that reach it: those of its own folder first,
         then those of the folders that use it, the shortest first, until one fails. Noticed: a test
         fails, crashes or takes six times as long.
Result:  a line for each fault, those that were not noticed again at the end, and the share. What
         changes nothing that anybody could see stands in scripts/mutants_equivalent.txt, with the
         reason, and is not counted. --json adds each line to FILE as it is found, and draws none
         that it has already.
         --again tries those that FILE has as not noticed, and no others. --keep leaves the checkout
         and its build, to run a new test in it with a fault switched on.
Time:    100 faults take half an hour on 2 busy cores, the build included.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

from mutant_sites import faults_of, overlap, with_faults

ROOT = pathlib.Path(__file__).resolve().parents[1]
WORK = (ROOT / ".deps").resolve() / "mutants"
BIN = WORK / "build/release/bin"
SCRATCH = WORK / "build/faults"  # The header, what the tests reach, their temporary files.
EQUIVALENT = ROOT / "scripts" / "mutants_equivalent.txt"
FOLDERS = ("src/store", "src/storage", "src/session", "src/derived")
# Tests that a fault in a folder can make fail, its own first.
WHOLE = ("integration_test", "property_test")  # What the folders do together.
TESTS = {"src/storage/tier": ("tier_test",),
         "src/storage": ("storage_test", "derived_test", "store_test", "api_test", "session_test",
                         *WHOLE),
         "src/derived": ("derived_test", "store_test", "api_test", "session_test", *WHOLE),
         "src/store": ("store_test", "api_test", *WHOLE),
         "src/session": ("session_test", "api_test", *WHOLE)}
JOBS = 2
CHUNK_SECONDS = 8  # Tests that run in one process, by how long they take without a fault.
# A fault must not take the machine's memory and disk.
LIMITS = ("nice", "prlimit", "--core=0", f"--data={6 << 30}", f"--fsize={8 << 30}")

HEADER = """\
#pragma once
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wunused-value"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
namespace attndb_fault {
inline unsigned char* MapReached() {
  const char* const name = std::getenv("ATTNDB_FAULTS_REACHED");
  const int file = name == nullptr ? -1 : ::open(name, O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* const map = ::mmap(nullptr, %d, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return map == MAP_FAILED ? nullptr : static_cast<unsigned char*>(map);
}
inline bool On(int fault) {
  static unsigned char* const reached = MapReached();
  static const char* const name = std::getenv("ATTNDB_FAULT");
  static const int on = name == nullptr ? 0 : std::atoi(name);
  if (reached != nullptr) reached[fault] = 1;
  return fault == on;
}
}  // namespace attndb_fault
"""


def run(*command, cwd=WORK):
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def all_faults(folders):
    for folder in folders:
        for path in sorted((WORK / folder).rglob("*.cc")):
            if not path.stem.endswith(("_test", "_test_util")):
                yield from faults_of(path.relative_to(WORK), path.read_text())


def key(fault):
    return str(fault.path), fault.kind, fault.new


def known(file):
    return json.loads(file.read_text()) if file and file.is_file() else []


def equivalent():
    """(path, line) of what may be changed without anybody seeing it."""
    lines = EQUIVALENT.read_text().splitlines() if EQUIVALENT.is_file() else []
    return {tuple(part.strip() for part in line.split(" | ")[:2])
            for line in lines if line.strip() and not line.startswith("#")}


def nearest(faults, entry):
    """The fault that an entry of a file tells of; other lines may have the same text."""
    same = [fault for fault in faults if key(fault) == (entry["file"], entry["kind"], entry["new"])]
    return min(same, key=lambda fault: abs(fault.line - entry["line"]), default=None)


def in_order(args):
    """The faults in the order in which they are drawn, without those that are not wanted."""
    faults = list(all_faults(args.folders))
    unseen = equivalent()
    faults = [fault for fault in faults if (str(fault.path), fault.new) not in unseen]
    if args.again:
        missed = [entry for entry in known(args.again) if entry["noticed_by"] is None]
        return [fault for entry in missed if (fault := nearest(faults, entry))]
    random.Random(args.seed).shuffle(faults)
    had = {(entry["file"], entry["kind"], entry["new"]) for entry in known(args.json)}
    return [fault for fault in faults if key(fault) not in had]


def check_out():
    if not (WORK / ".git").exists():
        run("git", "worktree", "prune", cwd=ROOT)
        done = run("git", "worktree", "add", "--detach", "--force", str(WORK), cwd=ROOT)
        if done.returncode != 0:
            sys.exit(done.stderr)
    run("git", "checkout", "--detach", "--force",
        run("git", "rev-parse", "HEAD", cwd=ROOT).stdout.strip())
    shutil.rmtree(SCRATCH, ignore_errors=True)
    (SCRATCH / "tmp").mkdir(parents=True)


def draw(faults, chosen, count):
    """Moves faults to `chosen`, by new numbers, until it has `count` of which none overlap."""
    while faults and len(chosen) < count:
        fault = faults.pop(0)
        if not any(overlap(fault, other) for other in chosen.values()):
            chosen[1 + max(chosen, default=0)] = fault


def put_in(chosen, paths):
    """Writes sources; what stays as it is keeps its time, so that it is not built again."""
    for path in paths:
        here = {number: fault for number, fault in chosen.items() if fault.path == path}
        text = run("git", "show", f"HEAD:{path}").stdout
        text = with_faults(text, here, SCRATCH / "fault.h")
        if text != (WORK / path).read_text():
            (WORK / path).write_text(text)


def blamed(output, chosen):
    """Numbers of the faults that the compiler's errors lie in, or come after."""
    numbers = set()
    for path, line in re.findall(r"(src/[\w/]+\.cc):(\d+):\d+: (?:fatal )?error:", output):
        before = [(fault.lines[0], number) for number, fault in chosen.items()
                  if str(fault.path) == path and fault.lines[0] <= int(line)]
        if before:
            numbers.add(max(before)[1])
    return numbers


def build(faults, count, tests):
    """Builds the tests with faults in them; `count` of the faults, by number."""
    targets = [word for test in tests for word in ("--target", test)]
    (SCRATCH / "fault.h").write_text(HEADER % (len(faults) + 1))
    configured = run("cmake", "--preset", "release", "-DATTNDB_BUILD_LLAMA=OFF")
    if configured.returncode != 0:
        sys.exit(configured.stderr)
    chosen, paths = {}, set()
    while True:
        if len(chosen) < count:
            draw(faults, chosen, count + count // 3)  # Some will not compile.
        paths.update(fault.path for fault in chosen.values())
        put_in(chosen, paths)
        done = run("nice", "cmake", "--build", "build/release", f"-j{JOBS}", *targets,
                   "--", "-k", "0")
        if done.returncode == 0:
            return dict(list(chosen.items())[:count])
        bad = blamed(done.stdout, chosen)
        if not bad:
            sys.exit(done.stdout[-8000:])
        chosen = {number: fault for number, fault in chosen.items() if number not in bad}
        print(f"{len(bad)} do not compile, {len(chosen)} may", flush=True)


def remove(scratch):
    """Removes a test's files; one that crashes leaves the file systems that it has mounted."""
    mounts = [line.split()[1] for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
    for mount in mounts:
        if mount.startswith(f"{scratch}/"):
            run("umount", mount)
    shutil.rmtree(scratch, ignore_errors=True)


def run_tests(program, names, seconds, environment):
    """None, or what failed; seconds is None where there is no limit."""
    scratch = SCRATCH / "tmp" / f"{time.monotonic_ns()}"
    scratch.mkdir()
    with subprocess.Popen(
            [*LIMITS, str(BIN / program), "--gtest_brief=1", "--gtest_fail_fast",
             "--gtest_filter=" + ":".join(names)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            env=os.environ | environment | {"TMPDIR": str(scratch)},
            start_new_session=True) as test:
        try:
            output = test.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            os.killpg(test.pid, signal.SIGKILL)
            return f"{program} (time)"
        finally:
            remove(scratch)
    if test.returncode == 0:
        return None
    failed = re.search(r"\[  FAILED  \] ([^\s,]+)", output)
    return failed[1] if failed else f"{program} (exit code {test.returncode}) {names[0]}"


def names_of(program):
    listed, suite = run(str(BIN / program), "--gtest_list_tests").stdout, ""
    for line in listed.splitlines():
        word = line.split("#")[0].strip()
        if line.startswith("  "):
            if "DISABLED_" not in suite + word:
                yield suite + word
        elif word.endswith("."):
            suite = word


def look(program, name, num_faults):
    """(seconds, numbers of the faults that the test reaches); None if it fails without any."""
    reached = SCRATCH / f"reached_{program}_{time.monotonic_ns()}"
    reached.write_bytes(bytes(num_faults + 1))
    start = time.monotonic()
    failed = run_tests(program, [name], None, {"ATTNDB_FAULTS_REACHED": str(reached)})
    seconds = time.monotonic() - start
    numbers = {number for number, byte in enumerate(reached.read_bytes()) if byte}
    reached.unlink()
    if not failed:
        return seconds, numbers
    print(f"{name} of {program} fails without any fault: it is not asked", flush=True)
    return None


def look_at_all(tests, num_faults):
    """program -> [(seconds, name, numbers)], the shortest first."""
    jobs = [(program, name) for program in tests for name in names_of(program)]
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        looked = list(pool.map(lambda job: look(*job, num_faults), jobs))
    found = {program: [] for program in tests}
    for (program, name), seen in zip(jobs, looked, strict=True):
        if seen:
            found[program].append((seen[0], name, seen[1]))
    return {program: sorted(entries, key=lambda entry: entry[:2])
            for program, entries in found.items()}


def chunks(tests):
    """[(seconds, names)] of what runs in one process each."""
    result = []
    for seconds, name in tests:
        if result and result[-1][0] + seconds <= CHUNK_SECONDS:
            result[-1] = (result[-1][0] + seconds, result[-1][1] + [name])
        else:
            result.append((seconds, [name]))
    return result


def tests_for(path):
    return next(tests for folder, tests in TESTS.items() if path.is_relative_to(folder))


def fails(program, names, seconds, number):
    """What fails with the fault on, and not once only: tests that fail by chance tell nothing."""
    on, limit = {"ATTNDB_FAULT": str(number)}, 20 + 6 * seconds
    failed = run_tests(program, names, limit, on)
    if not failed or failed.endswith("(time)"):
        return failed
    names = [failed] if failed in names else names
    return failed if any(run_tests(program, names, limit, on) for _ in range(2)) else None


def who_notices(number, fault, looked):
    """(The first test that fails, or None; how many tests reach the fault)."""
    num_reaching = 0
    for program in tests_for(fault.path):
        reaching = [(seconds, name) for seconds, name, numbers in looked[program]
                    if number in numbers]
        num_reaching += len(reaching)
        for seconds, names in chunks(reaching):
            failed = fails(program, names, seconds, number)
            if failed:
                return failed, num_reaching
    return None, num_reaching


def tried(number, fault, looked):
    noticed, num_reaching = who_notices(number, fault, looked)
    seen = noticed or f"NOT NOTICED by {num_reaching} tests that reach it"
    print(f"{number}. {fault.path}:{fault.line}: {fault.kind}: {fault.new}\n    {seen}", flush=True)
    return {"number": number, "file": str(fault.path), "line": fault.line, "kind": fault.kind,
            "new": fault.new, "noticed_by": noticed, "tests_that_reach_it": num_reaching}


def report(results):
    missed = [entry for entry in results if entry["noticed_by"] is None]
    for entry in missed:
        print(f"NOT NOTICED {entry['number']}. {entry['file']}:{entry['line']}: {entry['new']} "
              f"({entry['tests_that_reach_it']} tests reach it)")
    noticed = len(results) - len(missed)
    print(f"{noticed} of {len(results)} noticed ({100 * noticed / max(1, len(results)):.0f} %)")


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--again", type=pathlib.Path)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("folders", nargs="*", default=FOLDERS)
    return parser.parse_args()


def main():
    args = options()
    check_out()
    faults = in_order(args)
    tests = sorted({test for fault in faults for test in tests_for(fault.path)})
    num_faults = len(faults)
    chosen = build(faults, args.count, tests)
    looked = look_at_all(tests, num_faults)
    before, results = known(args.json), []
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for result in pool.map(lambda item: tried(*item, looked), chosen.items()):
            results.append(result)
            if args.json:
                args.json.write_text(json.dumps(before + results, indent=1) + "\n")
    report(results)
    if not args.keep:
        shutil.rmtree(WORK, ignore_errors=True)
        run("git", "worktree", "prune", cwd=ROOT)


if __name__ == "__main__":
    main()
