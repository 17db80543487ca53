#!/usr/bin/env python3
"""Prints how long the last `make demo`, `make check` and `make test` took, and by which steps.

    scripts/minutes.py             prints, and writes the tables of this machine in docs/testing.md
    scripts/minutes.py --print     prints only, also runs that failed
    scripts/minutes.py --edits     first measures `make check` after an edit of one source of the
                                   planner, of the store and of the server
    scripts/minutes.py FILE...     reads these records, for example another clone's

Each step of the Makefile appends a record to build/minutes.jsonl (scripts/step.sh).
scripts/run_tests.py adds the seconds of each program. The page gets a run only if all its steps
passed. Tables of other machines stay. A row stays until a new run replaces it.
"""

import argparse
import collections
import contextlib
import datetime
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import long_runs

ROOT = pathlib.Path(__file__).resolve().parents[1]
RECORDS = ROOT / "build/minutes.jsonl"
BEGIN = "<!-- minutes: `make minutes` writes these tables -->\n"
END = "<!-- end of minutes -->\n"
MACHINE = re.compile(r"^<!-- machine: (.*) -->\n", re.MULTILINE)
# Each measured command, and its last step.
LAST_STEP = {"demo": "demo", "check": "check", "test": "tests"}
# A run that measures `make check` after an edit, and the edited source.
EDIT = re.compile(r"check after an edit of (\S+)")
# The sources that --edits edits, and a remark for the table.
EDITED = {"src/planner/plan_layer.cc": "", "src/store/lookup.cc": "",
          "server/batch/scheduler.cc": "; no test of the server: it needs llama.cpp"}
# A constant that stays in the program: its bytes change, and the tests that need them run again.
# The number differs each time, so that nothing comes from ccache.
EDIT_LINES = "\n[[gnu::used]] static const long kEditOfMinutes = {number};\n"
# A step that contains others is shown with only its own remaining seconds.
HOLDS = {"check": ("build: unit tests",), "tests": ("tests: ",)}
COMMANDS = ("| command | seconds | what was set up and compiled | commit | date |\n"
            "|---|---|---|---|---|\n")
STEPS = "| step of `make test` | seconds | share of the whole |\n|---|---|---|\n"
PROGRAMS = ("| program, its shards together | seconds, release | seconds, asan | share |\n"
            "|---|---|---|---|\n")
PROGRAMS_SHOWN = 30
SHARD = re.compile(r"_\d+$")


def keep(run, path=RECORDS, **members):
    """Appends a record, as scripts/step.sh does."""
    path.parent.mkdir(exist_ok=True)
    whole = {"run": run, "machine": long_runs.machine(), "commit": long_runs.commit(), **members}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(whole) + "\n")


@contextlib.contextmanager
def step(name, path=RECORDS):
    """Records a step. The caller may add members to the dict it gets."""
    record = {"step": name, "status": 1}
    start = time.time()
    try:
        yield record
        record["status"] = 0
    finally:
        if run := os.environ.get("MINUTES_RUN"):
            keep(run, path, start=start, end=time.time(), **record)


class Run:
    """One call of make: its steps and their notes."""

    def __init__(self, name):
        self.goal, _, self.began = name.rpartition(" ")
        self.steps, self.made, self.compiled = [], [], collections.Counter()
        self.machine = self.commit = self.tests = ""
        self.edited = edit[1] if (edit := EDIT.fullmatch(self.goal)) else None

    def add(self, record):
        self.machine, self.commit = record["machine"], record["commit"]
        if "step" in record:
            self.steps.append(record)
        elif "made" in record:
            self.made.append(record["made"])
        elif "tests" in record:
            self.tests = record["tests"]
        elif "compiled" in record:
            _, new, cached = record["compiled"].split()
            self.compiled += {"new": int(new), "cached": int(cached)}

    def command(self):
        """The measured command as the table names it. None for a call that no table shows."""
        if self.edited:
            return f"`make check` after an edit of `{self.edited}`"
        return f"`make {self.goal}`" if self.goal in LAST_STEP else None

    def whole(self):
        """Whether the run reached its last step and nothing failed."""
        last = LAST_STEP.get("check" if self.edited else self.goal)
        return (any(record["step"] == last for record in self.steps) and
                all(record["status"] == 0 for record in self.steps))

    def seconds(self):
        if not self.steps:
            return 0
        return (max(record["end"] for record in self.steps) -
                min(record["start"] for record in self.steps))

    def date(self):
        return datetime.date.fromtimestamp(float(self.began)).isoformat()

    def words(self):
        """Whether caches were empty or warm; after an edit, the work that the edit caused."""
        new, cached = self.compiled["new"], self.compiled["cached"]
        if self.edited:
            return (f"{new + cached:,} files compiled; {self.tests or 'no'} unit tests run"
                    f"{EDITED.get(self.edited, '')}")
        set_up = f"set up: {', '.join(self.made)}" if self.made else "all was set up"
        if new + cached == 0:
            return f"{set_up}; nothing compiled"
        return f"{set_up}; {new:,} files compiled, {cached:,} from ccache"

    def by_step(self):
        """(step, seconds), slowest first. A step that contains others keeps what is left of it."""
        names = [record["step"] for record in self.steps]
        found = collections.Counter()
        for record in self.steps:
            found[record["step"]] += record["end"] - record["start"]
        for name, inner in HOLDS.items():
            held = [other for other in dict.fromkeys(names) if other.startswith(inner)]
            if name in found and held:
                rest = found.pop(name) - sum(found[other] for other in held)
                found[f"{name}: all else"] = max(0, rest)
        return found.most_common()

    def by_program(self):
        """(program, seconds by preset), slowest first."""
        found = collections.defaultdict(collections.Counter)
        for record in self.steps:
            preset = record["step"].partition(": ")[2]
            for name, seconds in record.get("programs", {}).items():
                found[SHARD.sub("", name)][preset] += seconds
        return sorted(found.items(), key=lambda item: -sum(item[1].values()))


def runs_in(lines):
    """The runs, in the order in which they began."""
    runs = {}
    for line in lines:
        with contextlib.suppress(ValueError):  # A line that a full disk cut.
            record = json.loads(line)
            runs.setdefault(record["run"], Run(record["run"])).add(record)
    return list(runs.values())


def share(part, whole):
    return f"{100 * part / whole:.0f} %" if whole else ""


def command_row(run):
    return (f"| {run.command()} | {run.seconds():,.0f} | {run.words()} | {run.commit} | "
            f"{run.date()} |\n")


def step_rows(run):
    return "".join(f"| {name} | {seconds:,.0f} | {share(seconds, run.seconds())} |\n"
                   for name, seconds in run.by_step())


def program_rows(run, shown):
    """The slowest programs, a row each, and the others in one."""
    programs = run.by_program()
    whole = sum(sum(seconds.values()) for _, seconds in programs)
    rows = [(name, seconds) for name, seconds in programs[:shown]]
    if rest := programs[shown:]:
        rows.append((f"the {len(rest)} others", sum((seconds for _, seconds in rest),
                                                    collections.Counter())))
    return "".join(
        f"| {name} | " + " | ".join(f"{seconds[preset]:,.0f}" if preset in seconds else ""
                                    for preset in ("release", "asan")) +
        f" | {share(sum(seconds.values()), whole)} |\n" for name, seconds in rows)


def tables_of(block):
    """A machine's block in parts: rows by command, and the other two tables as text."""
    commands = {row.split("|")[1].strip(): row for row in block.splitlines(keepends=True)
                if row.startswith("| `make ")}
    rest = []
    for head in (STEPS, PROGRAMS):
        rows = block.partition(head)[2]
        rest.append(rows.partition("\n\n")[0].rstrip("\n") + "\n" if rows else "")
    return commands, *rest


def place(command):
    """Where a command stands in its table: in the order of LAST_STEP, edits behind `make check`."""
    goal, _, edit = command.removeprefix("`make ").partition("`")
    edits = [f" after an edit of `{source}`" for source in EDITED]
    return (list(LAST_STEP).index(goal), edit != "",
            edits.index(edit) if edit in edits else len(edits), edit)


def block_of(machine, block, runs):
    """The block of a machine, with the rows of these runs."""
    commands, steps, programs = tables_of(block)
    for run in runs:
        commands[run.command()] = command_row(run)
        if run.goal == "test":
            steps, programs = step_rows(run), program_rows(run, PROGRAMS_SHOWN)
    text = f"<!-- machine: {machine} -->\n**{machine}**\n\n{COMMANDS}" + "".join(
        commands[name] for name in sorted(commands, key=place))
    if steps:
        text += (f"\nSteps run side by side, so their shares add up to more than 100 %:\n\n"
                 f"{STEPS}{steps}")
    if programs:
        text += f"\nThe slowest tests:\n\n{PROGRAMS}{programs}"
    return text + "\n"


def rewritten(page, runs):
    """The page with new tables of the runs' machines. Tables of other machines stay."""
    before, rest = page.split(BEGIN)
    inside, after = rest.split(END)
    parts = MACHINE.split(inside)
    blocks = dict(zip(parts[1::2], parts[2::2]))
    for machine in dict.fromkeys(run.machine for run in runs):
        blocks[machine] = block_of(machine, blocks.get(machine, ""),
                                   [run for run in runs if run.machine == machine])
    text = "".join(block if block.startswith("<!--") else f"<!-- machine: {machine} -->\n{block}"
                   for machine, block in blocks.items())
    return before + BEGIN + text + END + after


def show(run):
    red = "" if run.whole() else ", not whole or red"
    print(f"{run.command().replace('`', '')}: {run.seconds():,.0f} s{red}; {run.words()}; "
          f"{run.machine}; {run.commit}; {run.date()}")
    for name, seconds in run.by_step():
        print(f"  {seconds:8,.1f} s  {share(seconds, run.seconds()):>5}  {name}")
    programs = run.by_program()
    whole = sum(sum(seconds.values()) for _, seconds in programs)
    for name, seconds in programs:
        each = ", ".join(f"{preset} {value:,.1f}" for preset, value in seconds.items())
        total = sum(seconds.values())
        print(f"    {total:8,.1f} s  {share(total, whole):>5}  {name} ({each})")


@contextlib.contextmanager
def edited(source, number):
    """The source has another line at its end, and is restored in every case."""
    before = source.read_bytes()
    try:
        source.write_bytes(before + EDIT_LINES.format(number=number).encode())
        yield
    finally:
        source.write_bytes(before)


def check(run):
    """Runs `make check`, whose steps are recorded as those of `run`. Returns what it printed."""
    process = subprocess.Popen(["make", "--no-print-directory", "check"], cwd=ROOT, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
                               env={**os.environ, "MINUTES_RUN": run}, start_new_session=True)
    lines = []
    try:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    except BaseException:
        os.killpg(process.pid, signal.SIGINT)  # As Ctrl-C does: check.sh ends its build.
        raise
    finally:
        status = process.wait()
    if status != 0:
        sys.exit(f"minutes: make check ended with {status}")
    return "".join(lines)


def measure_edits():
    """Records `make check` after an edit of each source, when all else is built and has passed."""
    # The edited source is restored when this process is ended, too.
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.default_int_handler)
    commit = long_runs.commit()  # Without the edit.
    for path in EDITED:
        check(f"before an edit {time.time():.0f}")  # No table shows this run.
        run = f"check after an edit of {path} {time.time():.0f}"
        with edited(ROOT / path, time.time_ns()):
            output = check(run)
        tests = re.search(r"^(\d+ of \d+) tests can have changed$", output, re.MULTILINE)
        keep(run, tests=tests[1] if tests else "", commit=commit)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="*", type=pathlib.Path, default=[RECORDS])
    parser.add_argument("--print", action="store_true")
    parser.add_argument("--edits", action="store_true")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs/testing.md")
    args = parser.parse_args()
    if args.edits:
        measure_edits()
    lines = [line for path in args.records if path.exists()
             for line in path.read_text(encoding="utf-8").splitlines()]
    runs = [run for run in runs_in(lines) if run.command()]
    last = {(run.machine, run.goal): run for run in runs if args.print or run.whole()}
    if not last:
        sys.exit("minutes: no whole run of make demo, check or test is recorded")
    for run in last.values():
        show(run)
    if not args.print:
        page = args.page.read_text(encoding="utf-8")
        args.page.write_text(rewritten(page, list(last.values())), encoding="utf-8")
        print(f"written: {args.page}")


if __name__ == "__main__":
    main()
