#!/usr/bin/env python3
"""Runs every test of a build many times on a machine that is made slow and busy: stress.py BUILD.

A test that needs a fast or idle machine fails here. Each round runs all tests once:

  load     two busy processes run beside, and ctest runs four tests at a time in random order;
  core     in every second round, all processes share one core;
  disk     a cgroup limits the disk; if no cgroup can be made, ionice's idle class is used;
  order    GoogleTest, pytest and the tests of the command line shuffle the tests of a suite.

Each round has a seed, and the run prints it. The run goes on after a failure and keeps the output
of the test in build/long/stress/logs. It ends with a list of failures, and with 1 if there is one.

A run can be broken off at any time. The next call goes on with the tests that are left. A result
holds as long as the inputs of the test are the same, byte for byte: its programs, its scripts, its
arguments. The seed and the kind of disk are inputs, too. A failure holds as well: a test that fails
in one round of twenty must not pass by another try.

  STRESS_ROUNDS=3     rounds; 20 if it is not set
  STRESS_SECONDS=3000 no test begins after so many seconds. The run then says how much is left
  STRESS_TESTS=regex  only tests whose names match
  STRESS_SEED=17      the seed of the run; the seeds of its rounds follow from it. Without it, a
                      run goes on with the last seed, and the first run draws one
"""

import argparse
import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

import ctest_output
import run_changed

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python/tests/hf"))

import sizes  # noqa: E402

ROOT = run_changed.ROOT
BUSY_PROCESSES = 2
JOBS = 4
# On one core, four tests and two busy processes share the time that one test has on an idle
# machine. A slow disk adds to that.
TIMEOUT_FACTOR = 10
CTEST_TIMEOUT = 1500  # Seconds that ctest gives a test that sets none.
MAX_GTEST_SEED = 99_999

# The entries of ctest that are left out: a label or a name, and the reason.
LEFT_OUT = (
    ("label", "lint", "reads sources, and measures no time"),
    ("label", "install", "builds projects outside of the tree"),
    ("name", "bench_build", "builds programs that other tests run"),
    ("name", "python_package", "builds the wheel"),
    ("name", "compile_fail", "runs compilers only"),
    ("name", "cpu_test", "emulates every instruction: an hour under load"),
)


def why_left_out(entry):
    """The reason not to run the test, or None."""
    for kind, word, reason in LEFT_OUT:
        if word in (entry.listed("LABELS") if kind == "label" else [entry.name]):
            return reason
    return None


def files_named(entry):
    """The files and folders among a test's arguments, and behind a "=" in one; absolute."""
    folder = pathlib.Path(entry.properties.get("WORKING_DIRECTORY", ROOT))
    for word in entry.command:
        for part in (word, word.partition("=")[2]):
            if part and (folder / part).exists():
                yield os.path.normpath(folder / part)


def key_of(entry, build, known, *conditions):
    """Digest of a test's inputs, as scripts/run_changed.py makes it, and of the conditions."""
    words = with_programs(files_named(entry), build, known)
    words += packages(words)
    digest = hashlib.sha256(repr((entry.command, conditions)).encode())
    digest.update(run_changed.fingerprint(words, entry.listed("ENVIRONMENT"), known).encode())
    return digest.hexdigest()


def with_programs(words, build, known):
    """The files, and the programs of the build that they start, directly or not."""
    found, waiting = [], list(words)
    while waiting:
        word = waiting.pop()
        if word not in found:
            found.append(word)
            waiting += programs_started_by(pathlib.Path(word), build, known)
    return sorted(found)


def programs_started_by(path, build, known):
    """The programs of the build that a program or a script of a test starts itself.

    A program has the path of another in its bytes, or finds it beside itself: attndb becomes
    attndb-server to serve. A script has the name of a program in quotes.
    """
    at = ("started by", path)
    if at in known:
        return known[at]
    found = []
    if path.parent == build / "bin":
        names = re.findall(re.escape(f"{build}/bin/").encode() + rb"([\w.-]+)", path.read_bytes())
        found = [build / "bin" / os.fsdecode(name) for name in names]
        found += (build / "bin").glob(f"{path.name}-*")
    elif path.suffix == ".py":
        names = re.findall(r"[\"']([\w.-]+)[\"']", path.read_text(encoding="utf-8"))
        found = [build / "bin" / name for name in names]
    known[at] = sorted({str(program) for program in found if program.is_file()} - {str(path)})
    return known[at]


def packages(words):
    """The installed Python packages `attndb` of the interpreters that a test runs.

    An interpreter is an argument of the test, or a script has its path in quotes.
    """
    found = set()
    for path in map(pathlib.Path, words):
        if path.name.startswith("python") and path.is_relative_to(ROOT / ".deps"):
            found.add(path)
        elif path.suffix == ".py":
            names = re.findall(r"[\"'](\.deps/[\w.-]+/bin/python[\d.]*)[\"']",
                               path.read_text(encoding="utf-8"))
            found |= {ROOT / name for name in names}
    return sorted(str(package) for python in found
                  for package in python.parent.parent.glob("lib/python*/site-packages/attndb"))


def quoted(value):
    """An argument of CMake's language that means these characters."""
    bars = "=" * (1 + max(map(len, re.findall("=+", value)), default=0))
    return f"[{bars}[{value}]{bars}]"


def property_value(value):
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    if isinstance(value, list):
        return ";".join(item.replace(";", "\\;") for item in map(str, value))
    return str(value)


class Deadline:
    """A time after which no test begins. ctest can't stop so: its --stop-time kills what runs.

    Each test of the tree starts behind a gate, which reads the time from a file.
    """

    GATE = """\
if [ "$(date +%s)" -ge "$(cat "$0/deadline")" ]; then
  echo "$1" >>"$0/not-begun"
  exit 1
fi
shift
exec "$@"
"""

    def __init__(self, folder, seconds):
        """`seconds` from now on, or None: then there is no gate, and the time never comes."""
        self.folder, self.seconds = folder.resolve(), seconds
        self._time, self._not_begun = self.folder / "deadline", self.folder / "not-begun"
        if seconds is not None:
            self._time.write_text(f"{int(time.time()) + seconds}\n")
            self._not_begun.write_text("")

    def gated(self, name, command):
        if self.seconds is None:
            return command
        return ["/bin/sh", "-c", self.GATE, str(self.folder), name, *command]

    def passed(self):
        return self.seconds is not None and time.time() >= int(self._time.read_text())

    def kept_back(self, name):
        """Whether the gate let this test not begin."""
        return self.seconds is not None and name in self._not_begun.read_text().splitlines()


def write_tree(entries, folder, gated=lambda name, command: command):
    """A tree for ctest with the same tests, whose time-outs are longer.

    A time-out that a test sets itself can't be changed by an option of ctest. `gated` changes a
    test's command.
    """
    lines = []
    for entry in entries:
        properties = dict(entry.properties)
        properties["TIMEOUT"] = TIMEOUT_FACTOR * float(properties.get("TIMEOUT", CTEST_TIMEOUT))
        words = " ".join(map(quoted, [entry.name, *gated(entry.name, entry.command)]))
        values = " ".join(f"{name} {quoted(property_value(value))}"
                          for name, value in properties.items())
        lines.append(f"add_test({words})\n"
                     f"set_tests_properties({quoted(entry.name)} PROPERTIES {values})\n")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "CTestTestfile.cmake").write_text("".join(lines), encoding="utf-8")


class Results:
    """The results so far, in a file that only grows: one line for each test and round."""

    def __init__(self, path):
        self.path = path
        self.known = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            with contextlib.suppress(ValueError):  # The last line of a run that was killed.
                self._keep(json.loads(line))

    def _keep(self, record):
        self.known[record["test"], record["round"], record["key"]] = record

    def add(self, record):
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        self._keep(record)

    def of(self, keys, rounds):
        """The records of these tests, at these keys, of the first rounds."""
        return [self.known[name, number, key] for number in range(1, rounds + 1)
                for name, key in keys.items() if (name, number, key) in self.known]


class Disk:
    """A way to slow the disk down. `words` describe it, and `prefix` starts a command on it."""

    BYTES_PER_S = 40_000_000
    OPERATIONS_PER_S = 400

    def __init__(self, kind, words, prefix=(), group=None):
        self.kind, self.words, self.prefix, self.group = kind, words, list(prefix), group

    def close(self):
        if self.group:
            with contextlib.suppress(OSError):  # A process that a test left keeps the group.
                self.group.rmdir()


def disk_of(folder):
    """MAJOR:MINOR of the disk on which a folder lies, as cgroups name it; None if there is none."""
    number = os.stat(folder).st_dev
    device = pathlib.Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not device.exists():
        return None  # An overlay, a RAM disk.
    if (device / "partition").exists():
        device = device.resolve().parent  # Limits are those of whole disks.
    return (device / "dev").read_text().strip()


def throttled(group, limits, procs):
    """Makes a cgroup with limits, a dict of file -> text. None where that is not possible."""
    try:
        group.mkdir(exist_ok=True)
        for name, text in limits.items():
            if not (group / name).exists():
                raise FileNotFoundError(name)
            (group / name).write_text(text)
    except OSError:
        with contextlib.suppress(OSError):
            group.rmdir()
        return None
    move = f'echo $$ >"{group / procs}" && exec "$@"'
    return Disk("cgroup", f"a cgroup with {Disk.BYTES_PER_S / 1e6:.0f} MB/s and "
                f"{Disk.OPERATIONS_PER_S} operations per second each way: {group}",
                ["sh", "-c", move, "sh"], group)


def slow_disk(folder, cgroups=pathlib.Path("/sys/fs/cgroup"), disk=disk_of):
    device = disk(folder)
    name = f"attndb-stress-{os.getpid()}"
    size, count = Disk.BYTES_PER_S, Disk.OPERATIONS_PER_S
    made = None
    if device and (cgroups / "cgroup.controllers").exists():
        limit = f"{device} rbps={size} wbps={size} riops={count} wiops={count}"
        made = throttled(cgroups / name, {"io.max": limit}, "cgroup.procs")
    elif device and (cgroups / "blkio").is_dir():
        made = throttled(cgroups / "blkio" / name, {
            f"blkio.throttle.{way}_{what}_device": f"{device} {limit}"
            for way in ("read", "write") for what, limit in (("bps", size), ("iops", count))},
            "cgroup.procs")
    return made or Disk("ionice", "ionice's idle class: no cgroup with a limit can be made",
                        ["ionice", "-c3"])


@contextlib.contextmanager
def busy_processes(count):
    """Starts processes that use one core each. They end when this process ends or is killed."""
    spin = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n  sum(range(100_000))"
    started = [subprocess.Popen([sys.executable, "-c", spin, str(os.getpid())])
               for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


@contextlib.contextmanager
def cores(wanted):
    """Processes that are started inside run on these cores only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, wanted)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def seed_of(base, number):
    """A round's seed: GoogleTest takes 1 to 99,999."""
    return (base + 7919 * number) % MAX_GTEST_SEED + 1


def shuffled(seed):
    """The environment in which a seed decides the order of tests (testing/shuffled.py)."""
    paths = [str(ROOT / "testing"), *filter(None, [os.environ.get("PYTHONPATH")])]
    options = [*filter(None, [os.environ.get("PYTEST_ADDOPTS")]), "-p shuffled"]
    return {**os.environ, "GTEST_SHUFFLE": "1", "GTEST_RANDOM_SEED": str(seed),
            "ATTNDB_SHUFFLE": str(seed), "PYTHONPATH": os.pathsep.join(paths),
            "PYTEST_ADDOPTS": " ".join(options)}


@dataclasses.dataclass
class Plan:
    """The things that all rounds of a run share."""

    folder: pathlib.Path
    disk: Disk
    deadline: Deadline
    names: set  # All tests of the build: fixtures bring in tests that are left out.
    keys: dict  # Name -> key, for each test that is to run.
    results: Results


class Round:
    """One round of the tests that are left."""

    def __init__(self, number, seed, core, plan):
        self.number, self.seed, self.core, self.plan = number, seed, core, plan

    def run(self, todo):
        """Runs the tests `todo`. False if some could not be run."""
        plan = self.plan
        places = "one core" if self.core is not None else "all cores"
        print(f"== round {self.number}: {len(todo)} tests, seed {self.seed}, {places}", flush=True)
        command = [*plan.disk.prefix, "ctest", "--test-dir", str(plan.folder / "tests"),
                   "-j", str(JOBS), "--output-on-failure", "--schedule-random", "--no-tests=error",
                   "-R", "^(" + "|".join(map(re.escape, todo)) + ")$"]
        wanted = os.sched_getaffinity(0) if self.core is None else {self.core}
        with cores(wanted), busy_processes(BUSY_PROCESSES):
            with subprocess.Popen(command, env=shuffled(self.seed), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace",
                                  start_new_session=True) as running:
                try:
                    left = set(todo)
                    for result in ctest_output.Reader(plan.names).results(running.stdout):
                        if result[0] in left and self._keep(*result):
                            left.discard(result[0])
                except BaseException:
                    os.killpg(running.pid, signal.SIGKILL)
                    raise
        if plan.deadline.passed():  # A test behind a fixture that did not begin is left, too.
            return True
        for name in sorted(left):
            print(f"not run: {name}", flush=True)
        return not left

    def _keep(self, name, status, seconds, output):
        """Keeps the result of a test. False if the test was not run."""
        plan = self.plan
        if plan.deadline.kept_back(name):
            return False
        state = ctest_output.state_of(status)
        if state is None:
            if not plan.deadline.passed():
                print(f"  not run {name}\n{output}", flush=True)
            return False
        print(f"  {state} {name} {seconds:.1f} s", flush=True)
        record = {"test": name, "round": self.number, "key": plan.keys[name], "state": state,
                  "seed": self.seed, "seconds": seconds}
        if state == "failed":
            log = plan.folder / "logs" / f"{name}-round-{self.number}-seed-{self.seed}.log"
            log.parent.mkdir(exist_ok=True)
            log.write_text(f"{status}, seed {self.seed}\n{output}", encoding="utf-8")
            record |= {"status": ctest_output.plain(status), "log": str(log),
                       "cases": ctest_output.cases_in(output)}
        plan.results.add(record)
        return True


def run_rounds(rounds, base, plan):
    """Runs the tests that are left, round by round. False if some could not be run."""
    whole = True
    for number in range(1, rounds + 1):
        todo = [name for name, key in plan.keys.items()
                if (name, number, key) not in plan.results.known]
        if plan.deadline.passed():
            break
        if todo:
            core = max(os.sched_getaffinity(0)) if number % 2 == 0 else None
            whole &= Round(number, seed_of(base, number), core, plan).run(todo)
    return whole


def summary(records, rounds, tests, left_out, base_seed, early=False):
    """Prints the results, for a reader and for scripts/long_runs.py. False if a test failed.

    A run that ends `early` by STRESS_SECONDS counts nothing: it gets no line in a table.
    """
    states = [record["state"] for record in records]
    failures = [record for record in records if record["state"] == "failed"]
    print(f"\nstress: {len(records):,} runs of {tests} tests in {rounds} rounds: "
          f"{states.count('passed'):,} passed, {states.count('skipped')} skipped, "
          f"{len(failures)} failed. Left out: {len(left_out)} tests.")
    for reason in dict.fromkeys(left_out.values()):
        names = [name for name, why in left_out.items() if why == reason]
        print(f"left out: {', '.join(names)}: {reason}")
    for record in failures:
        print(f"failed: {record['test']}, round {record['round']}, seed {record['seed']}: "
              f"{record['status']}; {' '.join(record['cases']) or 'no test named'}; "
              f"{record['log']}")
    if early:
        left = [tests - sum(record["round"] == number for record in records)
                for number in range(1, rounds + 1)]
        first = next(number for number, count in enumerate(left, 1) if count)
        print(f"stress: the time is over: {left.count(0)} of {rounds} rounds are done. "
              f"{sum(left):,} of {tests * rounds:,} runs are left: {left[first - 1]} of round "
              f"{first}, {sum(left[first:]):,} of later rounds. The same call goes on with them.")
        print(f"ATTNDB_LEFT {sum(left)} runs")
        return not failures
    print(f"ATTNDB_SEED={base_seed}")
    sizes.print_count(rounds, "rounds")
    sizes.print_count(tests, "tests")
    sizes.print_count(len(records), "runs")
    sizes.print_count(len(failures), "failures")
    sizes.print_count(round(sum(record["seconds"] for record in records)), "seconds of tests")
    return not failures


def base_seed_of(folder):
    """STRESS_SEED. If that is not set, the last run's seed. If there is none, a random one."""
    path = folder / "seed"
    text = os.environ.get("STRESS_SEED") or (path.read_text() if path.exists() else "")
    seed = int(text) if text else random.SystemRandom().randint(1, MAX_GTEST_SEED)
    path.write_text(f"{seed}\n")
    return seed


def chosen(build, pattern):
    """(the tests to run, reasons by name of those left out, all entries)."""
    entries = ctest_output.entries([], build)
    matching = [entry for entry in entries if re.search(pattern, entry.name)]
    left_out = {entry.name: why_left_out(entry) for entry in matching if why_left_out(entry)}
    wanted = [entry for entry in matching if entry.name not in left_out]
    if not wanted:
        sys.exit(f"stress: {build} has no test to run that matches '{pattern}'")
    missing = [entry.name for entry in wanted if not entry.command]
    if missing:
        sys.exit(f"stress: not built: {' '.join(missing)}")
    return wanted, left_out, entries


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--disk", choices=("slow", "as-is"), default="slow")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/long/stress")
    args = parser.parse_args()
    build, folder = args.build.resolve(), args.out
    rounds = int(os.environ.get("STRESS_ROUNDS") or 20)
    seconds = os.environ.get("STRESS_SECONDS")
    wanted, left_out, entries = chosen(build, os.environ.get("STRESS_TESTS", ""))
    folder.mkdir(parents=True, exist_ok=True)
    deadline = Deadline(folder, int(seconds) if seconds else None)
    write_tree([entry for entry in entries if entry.command], folder / "tests", deadline.gated)
    base, known = base_seed_of(folder), {}
    disk = slow_disk(folder) if args.disk == "slow" else Disk("as-is", "as it is")
    print(f"disk: {disk.words}\nseed: {base}", flush=True)
    # SIGTERM acts as Ctrl-C does: the processes that were started are ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        plan = Plan(folder, disk, deadline, {entry.name for entry in entries},
                    {entry.name: key_of(entry, build, known, base, disk.kind) for entry in wanted},
                    Results(folder / "results.jsonl"))
        whole = run_rounds(rounds, base, plan)
    except KeyboardInterrupt:
        sys.exit("stress: broken off; the same call goes on with the tests that are left")
    finally:
        disk.close()
    records = plan.results.of(plan.keys, rounds)
    early = deadline.passed() and len(records) < rounds * len(plan.keys)
    passed = summary(records, rounds, len(plan.keys), left_out, base, early)
    sys.exit(0 if passed and whole else 1)


if __name__ == "__main__":
    main()
