#!/usr/bin/env python3
"""Writes what a long run counted into the table of docs/testing.md: long_runs.py PART LOG.

Counts and seeds are those that the tests printed into the log (testing/test_size.h, seed.h). A log
without a count is an error: a run that counted nothing proves nothing. A run that ended early and
says so (ATTNDB_LEFT, scripts/stress.py) gets no line. scripts/test_long.sh calls this.
"""

import argparse
import datetime
import os
import pathlib
import platform
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python/tests/hf"))

from sizes import counts_in, seeds_in  # noqa: E402

PARTS = ("unit", "rooms", "kills", "flips", "cpu", "agreement", "transformers", "server",
         "chats", "fuzz", "asan", "tsan", "tsan-engine", "asan-server", "tsan-server", "stress")
BEGIN = "<!-- long runs: scripts/test_long.sh writes this table -->\n"
END = "<!-- end of long runs -->\n"
HEAD = ("| part | counts | seeds | seconds | commit | date | machine |\n"
        "|---|---|---|---|---|---|---|\n")
NOT_RUN = "not run yet"


def counts(log):
    """What the log counted, in its order; what two tests say in the same words stands once."""
    return ", ".join(f"{count:,} {what}" for count, what in dict.fromkeys(counts_in(log)))


def seeds(log):
    """The seeds of its tests, those that follow each other as 3-7."""
    runs = []
    for seed in sorted(set(seeds_in(log))):
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run))
                     for run in runs) or "none drawn"


def machine():
    model = ""
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    if cpuinfo.exists():
        match = re.search(r"^model name\s*: (.*)$", cpuinfo.read_text(), re.MULTILINE)
        model = match[1].strip() if match else ""
    return f"{model or platform.machine()}, {len(os.sched_getaffinity(0))} cores"


def commit():
    """Of the sources that were run; with a + where they have changed since."""
    def git(*args):
        return subprocess.run(["git", "-C", ROOT, *args], capture_output=True, text=True,
                              check=False).stdout.strip()
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/testing.md")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + ("+" if changed else "")


def line(part, *cells):
    return "| " + " | ".join([part, *cells]) + " |\n"


def rewritten(page, part, cells):
    """The page with the part's line; parts without one are said to be not run."""
    before, rest = page.split(BEGIN)
    table, after = rest.split(END)
    lines = {row.split("|")[1].strip(): row + "\n" for row in table.splitlines()[2:]}
    lines[part] = line(part, *cells)
    rows = [lines.get(name, line(name, NOT_RUN, "", "", "", "", "")) for name in PARTS]
    return before + BEGIN + HEAD + "".join(rows) + END + after


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("log", type=pathlib.Path)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs/testing.md")
    args = parser.parse_args()
    log = args.log.read_text(encoding="utf-8", errors="replace")
    if left := re.search(r"^ATTNDB_LEFT (\d+ .*)$", log, re.MULTILINE):
        print(f"{args.part}: {left[1]} are left, so that the table gets no line yet")
        return
    counted = counts(log)
    if not counted:
        sys.exit(f"long_runs: {args.log} counts nothing: nothing was run")
    cells = (counted, seeds(log), f"{args.seconds:,}", commit(), datetime.date.today().isoformat(),
             machine())
    page = args.page.read_text(encoding="utf-8")
    args.page.write_text(rewritten(page, args.part, cells), encoding="utf-8")
    print(f"{args.part}: {counted}; seeds: {seeds(log)}; {args.seconds} s")


if __name__ == "__main__":
    main()
