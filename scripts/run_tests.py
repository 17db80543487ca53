#!/usr/bin/env python3
"""Runs every test of some presets, and runs a test that fails once more, alone.

    scripts/run_tests.py [--jobs N] [PRESET...]      without a preset: asan release

A test that passes when it is run again is flaky: the run names it and is green. A failure that
shows damage makes the run red at once, without a second try:

  - a test was ended by a signal, or a process in it was;
  - a sanitizer reported something, or a check of ours failed;
  - a test took too long;
  - the test is one of kills, power cuts, digests or upgrades (ONCE, and the label `crash`).

Under a sanitizer a large program runs half of its shards, drawn by chance: the release build runs
all of them, and so do `make test-asan` and `scripts/test_long.sh asan`. ATTNDB_SEED draws the same
shards again.

All presets run, even if the first fails. The last lines name the tests that failed and those that
were flaky. The very last line counts the tests of all presets, as ctest's closing line does.
build/tests-summary.txt has these lines. build/PRESET/failed has the output of each failed test.
"""

import argparse
import datetime
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys

import ctest_output
import long_runs
import minutes

ROOT = pathlib.Path(__file__).resolve().parents[1]
SUMMARY = ROOT / "build/tests-summary.txt"
FIRST, AGAIN = "", "-again"  # The name of a log ends with the run of its test.

# A single failure of these tests means lost or wrong data. ONCE has names of ctest without a
# shard's number, ONCE_CASE words in the names of single tests.
ONCE = ("digest_test", "upgrade_test", "server_load", "cli_interrupt")
ONCE_LABEL = "crash"
ONCE_CASE = re.compile(r"kill|crash|power|digest", re.IGNORECASE)
SHARD = re.compile(r"_\d+$")

# The presets in which a program of so many shards runs half of them.
HALVED = ("asan",)
MANY_SHARDS = 4

SANITIZER = re.compile(
    r"(?:Address|Leak|Thread|Memory|UndefinedBehavior)Sanitizer|: runtime error: ")
# The exit status of a process that SIGILL, SIGABRT, SIGBUS, SIGFPE or SIGSEGV ended: Python's
# negative one, or a shell's. Tests themselves send SIGKILL and SIGTERM.
_NEGATIVE = r"(?<![\w.-])-(?:4|6|7|8|11)(?!\.?\w)"
_OF_SHELL = r"(?<![\w.-])13[24569](?!\.?\w)"
_EITHER = rf"(?:{_NEGATIVE}|{_OF_SHELL})"
_STATUS = r"\b\d{1,2}(?!\.?\w)"  # The status that a test expects instead.
_WORD = r"(?<![A-Za-z])"
_CODE = r"(?:exit|return)?[ _]?(?:code|status)"
_IS = r"['\"]?(?: ?[:=] ?| )"
# The output of a test tells that a process died in it: a message of ours, of a library, of the
# shell, of CMake or of Python, or an exit status.
DIED = re.compile(
    r"check failed: |\bAborted\b|Segmentation fault|\b[Ss]eg[Ff]ault\b|\bSEGFAULT\b|core dumped"
    r"|SIG(?:SEGV|ABRT|BUS|ILL|FPE)|(?:Subprocess|Child) aborted|\bIllegal instruction\b"
    r"|\bBus error\b|\bFloating[ -]point exception\b|\*\*\*Exception"
    r"|terminate called |pure virtual method called|Fatal Python error"
    r"|stack smashing detected|buffer overflow detected|double free (?:or corruption|detected)"
    r"|\b(?:free|malloc|realloc|malloc_consolidate|munmap_chunk)\(\): "
    r"|corrupted (?:size vs|double-linked)|Assertion [`'].*' failed|GGML_ASSERT\(.*\) failed"
    r"|\b[Ss]ignal(?: number)?[ :=(]*(?:4|6|7|8|11)\b|\bError " + _OF_SHELL +
    rf"|{_EITHER} (?:!=|==) {_STATUS}|\b\d{{1,2}} (?:!=|==) {_EITHER}"
    rf"|\({_EITHER}, .* (?:!=|==) \({_STATUS}, "  # Tuples that begin with a status.
    rf"|{_WORD}(?i:exit(?:ed|s)?|return(?:ed|s)?|ended|died|rc|{_CODE})(?: with)?{_IS}{_NEGATIVE}"
    rf"|{_WORD}(?i:exit(?:ed)?|rc|{_CODE})(?: with)?{_IS}{_OF_SHELL}")


class Result:
    """How a test ended, with which output."""

    def __init__(self, status, output):
        self.status, self.output = status, output
        self.state = ctest_output.state_of(status)
        self.failed = self.state in ("failed", None)
        self.cases = ctest_output.cases_in(output)

    def words(self):
        return ", ".join([ctest_output.plain(self.status), *self.cases])


def why_once(entry, failure):
    """The reason not to run a test again; None if it may have been chance."""
    status = ctest_output.plain(failure.status)
    if failure.state is None:
        return "not run"
    if not status.startswith("Failed"):
        return "took too long" if "Timeout" in status else f"ended by a signal ({status})"
    if match := SANITIZER.search(failure.output):
        return f"a sanitizer's report ({match[0].strip(': ')})"
    if match := DIED.search(failure.output):
        return f"a process died ({match[0].strip()})"
    if ONCE_LABEL in entry.listed("LABELS") or SHARD.sub("", entry.name) in ONCE:
        return "a test of this kind is never run again"
    if any(ONCE_CASE.search(case) for case in failure.cases):
        return "a test of this kind is never run again"
    return None


def undrawn(names, seed):
    """The shards that do not run: half of those of each program that has MANY_SHARDS or more."""
    shards = {}
    for name in sorted(names):
        if SHARD.search(name):
            shards.setdefault(SHARD.sub("", name), []).append(name)
    draw = random.Random(seed)
    return [name for of_program in shards.values() if len(of_program) >= MANY_SHARDS
            for name in sorted(draw.sample(of_program, len(of_program) // 2))]


class Preset:
    """Runs the tests of one preset and judges their failures."""

    def __init__(self, name, jobs):
        self.name, self.jobs = name, jobs
        self.options = ["--preset", name]
        self.entries = {}
        self.folder = ROOT / "build" / name / "failed"
        self.red, self.flaky = {}, {}  # Name -> words.
        self.seconds = {}
        self.total = 0

    def run(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            self.entries = {entry.name: entry
                            for entry in ctest_output.entries(self.options, ROOT)}
        except subprocess.CalledProcessError as error:
            self.red["ctest"] = f"lists no tests: {error.stderr.strip()}"
            return
        drawn = self._draw() if self.name in HALVED else None
        with minutes.step(f"tests: {self.name}") as record:
            results, closing, status = self._ctest(self.jobs, drawn)
            record["programs"] = self.seconds
        failures = {name: result for name, result in results.items() if result.failed}
        if closing is None:
            self.red["ctest"] = f"ended with {status} before its closing line"
            return
        self.total = int(closing[3])
        if int(closing[2]) != len(failures) or (status != 0) != bool(failures):
            self.red["ctest"] = (f"ended with {status} and {closing[2]} failures, of which "
                                 f"{len(failures)} were seen")
        if failures:
            with minutes.step("tests: again"):
                self._judge(failures)

    def _draw(self):
        """The tests that run, without those that the seed leaves out."""
        seed = os.environ.get("ATTNDB_SEED") or random.randrange(1, 2**31)
        left = undrawn(self.entries, seed)
        if left:
            print(f"{self.name}: ATTNDB_SEED={seed} leaves out {' '.join(left)}", flush=True)
        return [name for name in self.entries if name not in left]

    def _ctest(self, jobs, names=None, again=False):
        """(results by name, the closing line's match or None, exit status)."""
        command = ["ctest", *self.options, "-j", str(jobs)]
        if names is not None:  # Not -E: it would replace the names that the preset excludes.
            command += ["-R", "^(" + "|".join(map(re.escape, names)) + ")$"]
        if again:  # The set-ups of fixtures ran before.
            command += ["-FS", ".*"]
        results, reader = {}, ctest_output.Reader(self.entries)

        def lines(stream):
            for line in stream:
                print(line, end="", flush=True)
                yield line

        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace") as running:
            for name, status, seconds, output in reader.results(lines(running.stdout)):
                self.seconds.setdefault(name, seconds)
                results[name] = Result(status, output)
        return results, reader.closing, running.returncode

    def _judge(self, failures):
        """Decides about each failure, after a second run where there is one."""
        waiting = {name: failure for name, failure in failures.items()
                   if self._lacks_fixture(name, failure, failures)}
        for name in sorted(set(failures) - set(waiting), key=self._set_ups_first):
            self._judge_one(name, failures[name])
        waiting = self._not_blocked(waiting)
        if waiting:  # Their fixture passed when it was run again: this is their first run.
            results = self._ctest(self.jobs, list(waiting), again=True)[0]
            for name in waiting.keys() - results.keys():
                self._fail(name, waiting[name], "could not be run")
            self._judge({name: result for name, result in results.items() if result.failed})

    def _set_ups_first(self, name):
        return not self.entries[name].listed("FIXTURES_SETUP"), name

    def _set_ups_of(self, name):
        """The tests that set up what a test needs."""
        needed = set(self.entries[name].listed("FIXTURES_REQUIRED"))
        return {other for other, entry in self.entries.items()
                if needed & set(entry.listed("FIXTURES_SETUP"))}

    def _lacks_fixture(self, name, failure, failures):
        return failure.state is None and bool(self._set_ups_of(name) & failures.keys())

    def _not_blocked(self, waiting):
        """The tests that wait for a fixture whose set-up did not fail for good."""
        left = {}
        for name, failure in waiting.items():
            if lost := sorted(self._set_ups_of(name) & self.red.keys()):
                self._fail(name, failure, f"not run, since {', '.join(lost)} failed")
            else:
                left[name] = failure
        return left

    def _judge_one(self, name, failure):
        why = why_once(self.entries[name], failure)
        if why:
            self._fail(name, failure, f"{why}; {failure.words()}")
            return
        log = self._keep(name, failure, FIRST)
        print(f"\n{self.name}: {name} failed ({failure.words()}): it is run once more, alone",
              flush=True)
        second = self._ctest(1, [name], again=True)[0].get(name)
        if second is None or second.state == "skipped":
            self._fail(name, failure, f"{failure.words()}; could not be run again")
        elif second.failed:
            self._fail(name, second, f"failed twice: {failure.words()}; then {second.words()}",
                       AGAIN)
        else:
            self.flaky[name] = f"{failure.words()}; passed when it ran alone; {log}"

    def _fail(self, name, failure, why, which=FIRST):
        self.red[name] = f"{why}; {self._keep(name, failure, which)}"

    def _keep(self, name, failure, which):
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / f"{name}{which}.log"
        log.write_text(f"{ctest_output.plain(failure.status)}\n{failure.output}", encoding="utf-8")
        return log.relative_to(ROOT)


def closing_line(failed, total):
    """The closing line that ctest would print, rounded as ctest does."""
    percent = 100 * (total - failed) / total if total else 0
    return (f"{min(99, percent) if failed else percent:.0f}% tests passed, "
            f"{failed} tests failed out of {total}")


def summary(presets):
    """The last lines of the run."""
    lines = []
    for preset in presets:
        lines += [f"failed: {name} ({preset.name}): {why}" for name, why in preset.red.items()]
    flaky = [(preset.name, name, why) for preset in presets for name, why in preset.flaky.items()]
    if flaky:
        lines.append("For the list of flaky tests in docs/testing.md:")
        lines += [f"| {name} ({preset}) | {datetime.date.today()} | {long_runs.commit()} | "
                  f"{long_runs.machine()} | ? | not yet |" for preset, name, _ in flaky]
    lines += [f"flaky: {name} ({preset}): {why}" for preset, name, why in flaky]
    lines.append(f"flaky: {len(flaky)}")
    failed = sum(len(preset.red) for preset in presets)
    # A run that broke off has more failures than ctest counts tests.
    total = max(failed, sum(preset.total for preset in presets))
    return [*lines, closing_line(failed, total)]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("presets", nargs="*", default=["asan", "release"])
    args = parser.parse_args()
    SUMMARY.unlink(missing_ok=True)
    presets = []
    for name in args.presets:
        presets.append(Preset(name, args.jobs))
        presets[-1].run()
    lines = "".join(f"{line}\n" for line in summary(presets))
    SUMMARY.write_text(lines, encoding="utf-8")
    print(f"\n{lines}", end="")
    sys.exit(1 if any(preset.red for preset in presets) else 0)


if __name__ == "__main__":
    main()
