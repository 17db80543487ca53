"""The table of docs/serving.md about agents, of bench/results/agents.json.

bench/serve_report.py writes it. A scenario that was not measured is left out, and said.
"""

from __future__ import annotations

from collections.abc import Callable

PEER = "llama-server"

Figures = dict[str, float]
# What is measured, what should be, attndb's figure, llama-server's, and whether it is so.
Row = tuple[str, str, str, str, bool]


def share(figures: Figures, who: str) -> str:
    """Tokens that a server ran, of those that are new; "" if it was not asked."""
    if f"{who}/run" not in figures:
        return ""
    run, new = figures[f"{who}/run"], figures[f"{who}/new"]
    turns = f", {figures[f'{who}/turns']:.0f} turns" if who == PEER else ""
    return f"{run:,.0f} of {new:,.0f}{turns}: {run / new:.3f} ×"


def seconds(figures: Figures, who: str, what: str) -> str:
    value = figures.get(f"{who}/{what}")
    return "" if value is None else f"{value / 1000:.1f} s"


def run_row(figures: Figures, what: str, most: float) -> Row:
    ratio = figures["attndb/run"] / figures["attndb/new"]
    return (f"{what}: tokens that were run, of those that are new", f"≤ {most:g} ×",
            share(figures, "attndb"), share(figures, PEER), ratio <= most)


def steady_rows(figures: Figures, what: str) -> list[Row]:
    """Nothing if llama-server was not asked."""
    if f"{PEER}/steady" not in figures:
        return []
    ours, theirs = figures["attndb/steady"], figures[f"{PEER}/steady"]
    return [(f"{what}: first token, median of the later turns", "≤ 1 ×",
             f"{seconds(figures, 'attndb', 'steady')}: {ours / theirs:.2f} ×",
             seconds(figures, PEER, "steady"), ours <= theirs)]


def restart(figures: Figures) -> list[Row]:
    what = f"{figures['attndb/turns']:.0f} turns, `kill -9` behind half of them"
    rows = [run_row(figures, what, 1.02), *steady_rows(figures, what)]
    if f"{PEER}/restart" in figures:
        ours, theirs = figures["attndb/restart"], figures[f"{PEER}/restart"]
        rows.append(("first token of the turn behind the restart", "≤ 5 %",
                     f"{ours / 1000:.1f} s: {100 * ours / theirs:.1f} %",
                     seconds(figures, PEER, "restart"), ours <= 0.05 * theirs))
    return rows


def agents(figures: Figures) -> list[Row]:
    what = "8 agents with the same instructions and tools, 5 turns each in turn"
    return [run_row(figures, what, 1.02), *steady_rows(figures, what)]


def reasoning(figures: Figures) -> list[Row]:
    what = (f"{figures['attndb/turns']:.0f} turns of a model that thinks, by a template that drops "
            "earlier thoughts")
    return [run_row(figures, what, 1.2), *steady_rows(figures, what)]


def cut(figures: Figures) -> list[Row]:
    what = (f'the same with [`"edits": "cut"`](#edits-without-reading-again), '
            f"{figures['attndb/cut']:,.0f} tokens cut")
    return [run_row(figures, what, 1.02)]


PARTS: dict[str, Callable[[Figures], list[Row]]] = {
    "restart": restart, "agents": agents, "reasoning": reasoning, "cut": cut}
