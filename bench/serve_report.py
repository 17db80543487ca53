#!/usr/bin/env python3
"""Makes the tables of docs/serving.md: what stands between their marks.

One is of bench/results/serve.json, and of what a long run under kills counted (docs/testing.md).
The other, about agents, is of bench/results/agents.json.

    bench/serve_report.py            rewrites them
    bench/serve_report.py --check    fails if the page is not that of the results

A figure that is not what it should be is MISSED. What was not measured is left out, and said; so is
what was measured before one of its figures was, for none stands for one that is not there.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import agents_report
from agents_report import PEER, Figures, Row
from report_page import replaced

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/serving.md"
RESULTS = ROOT / "bench/results/serve.json"
AGENTS = ROOT / "bench/results/agents.json"
LONG_RUNS = ROOT / "docs/testing.md"
HEAD = ["| what | should be | attndb | llama-server | |", "| --- | --- | --- | --- | --- |"]


def faster(figures: Figures, who: str, what: str, least: float) -> Row:
    """Tokens a second."""
    ratio = figures[who] / figures[PEER]
    return (what, f"≥ {least:g} ×", f"{figures[who]:.1f} tokens/s: {ratio:.2f} ×",
            f"{figures[PEER]:.1f} tokens/s", ratio >= least)


def together(figures: Figures) -> list[Row]:
    what = "8 conversations of 4,000 tokens reply together"
    return [faster(figures, "attndb", f"{what}, exact", 2),
            faster(figures, "attndb_auto", f"{what}, `auto`", 3)]


def alone(figures: Figures) -> list[Row]:
    what = "one conversation without context"
    return [faster(figures, "attndb", f"{what}, exact", 0.95),
            faster(figures, "attndb_auto", f"{what}, `auto`", 0.95)]


def long(figures: Figures) -> list[Row]:
    return [faster(figures, "attndb_auto", "one conversation of 32,000 tokens (YaRN), `auto`", 7)]


def next_turn(figures: Figures) -> list[Row]:
    ours, theirs = figures["attndb/restart"], figures[f"{PEER}/restart"]
    in_memory, in_slot = figures["attndb/memory"], figures[f"{PEER}/memory"]
    what = "first token of the next turn of a conversation of 6,000 tokens"
    return [(f"{what}, after a restart", "≤ 3 %", f"{ours:,.0f} ms: {100 * ours / theirs:.1f} %",
             f"{theirs:,.0f} ms", ours <= 0.03 * theirs),
            (f"{what}, its prompt in memory there", "≤ 1 ×",
             f"{in_memory:,.0f} ms: {in_memory / in_slot:.2f} ×", f"{in_slot:,.0f} ms",
             in_memory <= in_slot)]


def choices(figures: Figures) -> list[Row]:
    def told(who: str) -> str:
        one, all_of_8 = figures[f"{who}/first_1"], figures[f"{who}/first_8"]
        return f"{one:,.0f} → {all_of_8:,.0f} ms: {all_of_8 / one:.2f} ×"

    one, all_of_8 = figures["kv_mb_1"], figures["kv_mb_8"]
    return [("first token of all of 8 choices (`n`) of a prompt of 7,000 tokens", "≤ 1.1 × one's",
             told("attndb"), told(PEER),
             figures["attndb/first_8"] <= 1.1 * figures["attndb/first_1"]),
            ("K and V in memory behind 8 such choices of 128 tokens", "≤ 1.1 × one's",
             f"{one:.0f} → {all_of_8:.0f} MB: {all_of_8 / one:.2f} ×", "", all_of_8 <= 1.1 * one)]


def bound(figures: Figures) -> list[Row]:
    return [(what, "≥ 0.98 ×", f"{ours:.1f} tokens/s: {ours / theirs:.2f} ×",
             f"{theirs:.1f} tokens/s", ours >= 0.98 * theirs)
            for what, ours, theirs in (
                (text, figures[f"attndb/{name}"], figures[f"{PEER}/{name}"])
                for text, name in (("a short reply of 128 tokens", "plain"),
                                   ("such a reply, bound by the grammar of a schema", "bound")))]


def beside(figures: Figures) -> list[Row]:
    def told(who: str) -> str:
        return (f"{figures[f'{who}/before']:.1f} → {figures[f'{who}/beside']:.1f} ms: "
                f"{figures[f'{who}/ratio']:.2f} ×, {figures[f'{who}/longest']:,.0f} ms at most; "
                f"the prompt {figures[f'{who}/prompt'] / 1000:.1f} s")

    return [("time per token of 3 replies while a prompt of 7,900 tokens is read", "≤ 2 ×",
             told("attndb"), told(PEER), figures["attndb/ratio"] <= 2)]


def round_robin(figures: Figures) -> list[Row]:
    def told(who: str) -> str:
        first, p90 = figures[f"{who}/first"], figures[f"{who}/p90"]
        return f"{p90:,.0f} of {first:,.0f} ms: {100 * p90 / first:.1f} %"

    return [("second turns of 64 conversations of 1,500 tokens, one after another: first token at "
             "the 90th percentile, of a first turn's", "≤ 10 %", told("attndb"), told(PEER),
             figures["attndb/p90"] <= 0.1 * figures["attndb/first"])]


def connections(figures: Figures) -> list[Row]:
    def told(who: str) -> str:
        return f"{figures[f'{who}/alone']:.1f} → {figures[f'{who}/beside']:.1f} ms a token"

    grows = figures["attndb/grows"]
    slower = figures["attndb/beside"] / figures["attndb/alone"]
    stopped = bool(figures["default_stopped"])
    theirs = (f"{told(PEER)}, with `--threads-http 64`"
              f"{'; without, it answers nobody else' if stopped else ''}")
    return [("memory of 1,000 idle connections", "≤ 200 MB", f"{grows:.1f} MB", "",
             grows <= 200 and figures["attndb/answered"] == 1000),
            ("a reply beside 50 clients that read nothing", "≤ 1.1 ×",
             f"{told('attndb')}: {slower:.2f} ×", theirs,
             slower <= 1.1 and figures["attndb/whole"] == 50)]


def start(figures: Figures) -> list[Row]:
    ours, theirs = figures["attndb"], figures[PEER]
    return [("start, pages warm", "≤ 1 s more", f"{ours:.2f} s", f"{theirs:.2f} s",
             ours <= theirs + 1)]


PARTS: dict[str, Callable[[Figures], list[Row]]] = {
    "together": together, "alone": alone, "long": long, "next_turn": next_turn,
    "choices": choices, "bound": bound, "beside": beside, "round_robin": round_robin,
    "connections": connections, "start": start}


def kills(long_runs: str) -> list[Row]:
    """Of the line that scripts/test_long.sh wrote: only a run that found no fault writes one."""
    line = re.search(r"^\| server \| (\d.*?) \| .*\| ([\d,]+) \| (\S+) \| .* \|$", long_runs,
                     re.MULTILINE)
    if line is None:
        return []
    counts, _, commit = line.groups()
    return [("half an hour of load with `kill -9` every 30 s: acknowledged turns that are lost, "
             "wrong answers", "0, 0", f"0, 0: {counts} (commit {commit})", "", True)]


def flags(figures: Figures) -> str:
    """llama-server's, of which the fastest are chosen."""
    found = [f"`{flag}` {figures[f'{flag}/together']:.1f} tokens/s, "
             f"{figures[f'{flag}/prompt'] / 1000:.1f} s"
             for flag in sorted({key.rpartition("/")[0] for key in figures})]
    return ("llama-server's flags, by 8 conversations of 4,000 tokens that reply together and by "
            f"the time to read one: {'; '.join(found)}.")


def line_of(row: Row) -> str:
    what, wanted, ours, theirs, fine = row
    return f"| {what} | {wanted} | {ours} | {theirs} | {'met' if fine else '**MISSED**'} |"


def source(name: str, part: dict[str, Any]) -> str:
    machine = part["machine"]
    return (f"{name} ({machine['cpu']}, {machine['cpus']} cores, Linux {machine['kernel']}, "
            f"commit {part['commit']})")


def found_rows(parts: dict[str, Callable[[Figures], list[Row]]],
               results: dict[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """Lines of the table, the sources of their figures, and what was not measured."""
    lines = list(HEAD)
    sources, missing = [], []
    for name, rows in parts.items():
        if name not in results:
            missing.append(name)
            continue
        try:
            found = rows(results[name]["figures"])
        except KeyError as figure:
            missing.append(f"{name} (without {figure.args[0]})")
            continue
        sources.append(source(name, results[name]))
        lines += map(line_of, found)
    return lines, sources, missing


def end_of(sources: list[str], missing: list[str]) -> list[str]:
    lines = ["", "Measured: " + "; ".join(sources) + "."]
    if missing:
        lines += ["", f"Not measured yet: {', '.join(missing)}."]
    return lines


def report(results: dict[str, Any], long_runs: str = "") -> str:
    lines, sources, missing = found_rows(PARTS, results)
    killed = kills(long_runs)
    lines += map(line_of, killed)
    if not killed:
        missing.append("kills under load")
    if "flags" in results:
        sources.append(source("flags", results["flags"]))
        lines += ["", flags(results["flags"]["figures"])]
    else:
        missing.append("flags (llama-server's)")
    return "\n".join(lines + end_of(sources, missing)) + "\n"


def report_agents(results: dict[str, Any]) -> str:
    lines, sources, missing = found_rows(agents_report.PARTS, results)
    return "\n".join(lines + end_of(sources, missing)) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    results, agents = (json.loads(path.read_text(encoding="utf-8")) for path in (RESULTS, AGENTS))
    long_runs = LONG_RUNS.read_text(encoding="utf-8")
    made = replaced(page, "serve", report(results, long_runs))
    made = replaced(made, "agents", report_agents(agents))
    if args.check:
        sys.exit(0 if made == page else
                 f"{PAGE} is not that of {RESULTS} and {AGENTS}: bench/serve_report.py")
    PAGE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
