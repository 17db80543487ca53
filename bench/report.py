#!/usr/bin/env python3
"""Makes docs/performance.md of bench/results/: the table between its marks, and the pictures.

    bench/report.py            rewrites both; the pictures only where matplotlib is
    bench/report.py --check    fails if the page is not that of the results

Each line of the table is a function below, with its target and the arithmetic of what was measured.
A result that is not there is "not measured"; a figure off its target is MISSED.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report_pictures import picture
from report_runs import (
    AUTO,
    BY_CLUSTERS,
    BY_SCAN,
    FAST,
    TOP_BY_CLUSTERS,
    TOP_BY_SCAN,
    group_size,
    plan_of,
)

ROOT = Path(__file__).resolve().parent.parent
PICTURES = {
    "frontier_8k": "Error of plans on SmolLM2's heads at 8,192 tokens",
    "frontier_stretched": "Error of plans on heads stretched to 131,072 tokens",
}
INDEX_PICTURES = {"break_even": "Where indexes are faster than a scan, and where not"}

Results = dict[str, Any]  # By name of the file, without .json.


@dataclass(frozen=True)
class Line:
    what: str
    target: str
    measured: str = "not measured"
    met: bool | None = None
    why: str = ""
    source: str = ""  # The result that it is of.


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def bound_of_bytes(plan: Any, result: Any) -> str:
    """What the bytes alone allow, and what the time says of them."""
    full = plan_of(result, "full")
    share = plan["share_of_full_bytes"]
    return (
        f"reads {percent(share)} of full's bytes, so {1 / share:.1f} × at full's rate "
        f"({percent(full['share_of_bandwidth'], 0)} of the bandwidth); its own rate is "
        f"{percent(plan['share_of_bandwidth'], 0)}; error {percent(plan['error_mean'], 2)}"
    )


def speedup(what: str, source: str, name: str, least: float) -> Callable[[Results], Line]:
    def line(results: Results) -> Line:
        target = f"≥ {least:g} ×"
        if source not in results:
            return Line(what, target, source=source)
        plan = plan_of(results[source], name)
        if plan is None:
            return Line(what, target, f"`{name}` is not in this build", False, source=source)
        error = float(name.partition("error=")[2].partition(",")[0].rstrip(")"))
        met = plan["speedup"] >= least and plan["error_mean"] <= error
        why = bound_of_bytes(plan, results[source])
        return Line(what, target, f"{plan['speedup']:.2f} ×", met, why, source)

    return line


def scan(bits: int, least: float) -> Callable[[Results], Line]:
    def line(results: Results) -> Line:
        what = f"scan of {bits}-bit planes for 4 q heads, d = 128, share of the read bandwidth"
        target = f"≥ {percent(least, 0)}"
        rows = [
            row for row in results.get("planes", {"results": []})["results"]
            if row["name"].startswith(f"scan/{bits}bit/")
        ]
        if not rows:
            measured = "not in this build" if "planes" in results else "not measured"
            return Line(what, target, measured, False if "planes" in results else None,
                        source="planes")
        by_shape = {row["name"].split("/", 2)[2]: row["share"] for row in rows}
        wanted = by_shape.pop("d128/group4")
        why = ", ".join(f"{shape.replace('/group', ' × ')}: {percent(share, 0)}"
                        for shape, share in sorted(by_shape.items()))
        return Line(what, target, percent(wanted, 0), wanted >= least, f"others: {why}", "planes")

    return line


def planes_built(results: Results) -> Line:
    what, target = "planes built, d = 128, transform included", "≥ 10M keys/s a core"
    if "planes" not in results:
        return Line(what, target, source="planes")
    times = {row["name"]: row["median"] for row in results["planes"]["results"]
             if row["unit"] == "ns/key"}
    nanoseconds = times["rotate+encode/d128"]
    why = ", ".join(f"{name} {value:.0f} ns" for name, value in sorted(times.items()))
    return Line(what, target, f"{1e3 / nanoseconds:.1f}M keys/s", nanoseconds <= 100, why, "planes")


def error_8k(results: Results) -> Line:
    what = "SmolLM2, 8,192 tokens, all heads: mean error, bytes over exact's"
    target = "≤ 1 %, ≤ 35 %"
    if "attention_8k" not in results:
        return Line(what, target, source="attention_8k")
    plan = plan_of(results["attention_8k"], AUTO)
    error, share = plan["error_mean"], plan["share_of_full_bytes"]
    why = f"worst head {percent(plan['error_worst_head'])}; {plan['speedup']:.2f} × full's speed"
    return Line(what, target, f"{percent(error, 2)}, {percent(share)}",
                error <= 0.01 and share <= 0.35, why, "attention_8k")


CODES, FAST_CODES = "auto(error=0.01,index=pq)", "auto(error=0.03,index=pq)"


def by_codes(what: str, source: str, most: tuple[float, float]) -> Callable[[Results], Line]:
    """Bytes of draws by product codes at errors of 1 and 3 %."""

    def line(results: Results) -> Line:
        target = " and ".join(f"≤ {percent(share, 0)}" for share in most)
        plans = [plan_of(results[source], name) for name in (CODES, FAST_CODES)] \
            if source in results else []
        if not plans or None in plans:
            return Line(what, target, source=source)
        shares = [plan["share_of_full_bytes"] for plan in plans]
        met = all(share <= bound and plan["error_mean"] <= error for share, bound, plan, error
                  in zip(shares, most, plans, (0.01, 0.03), strict=True))
        why = "; ".join(
            f"error {percent(plan['error_mean'], 2)}, worst head "
            f"{percent(plan['error_worst_head'])}, {plan['speedup']:.2f} × full's speed; draws by "
            f"planes take {percent(other['share_of_full_bytes'])} and {other['speedup']:.2f} ×"
            for plan, other in zip(plans, [plan_of(results[source], name) for name in (AUTO, FAST)],
                                   strict=True))
        measured = " and ".join(percent(share) for share in shares)
        return Line(what, target, measured, met, why, source)

    return line


def biased(results: Results) -> Line:
    what, target = "error with a Qwen-kind key bias (synthetic) over the unbiased", "≤ 1.5 ×"
    if not {"attention_8k", "attention_biased"} <= results.keys():
        return Line(what, target, source="attention_biased")
    plans = [plan_of(results[name], AUTO) for name in ("attention_biased", "attention_8k")]
    errors = [plan["error_mean"] for plan in plans]
    ratio = errors[0] / errors[1]
    why = (f"{percent(errors[0], 2)} against {percent(errors[1], 2)}; bytes "
           f"{percent(plans[0]['share_of_full_bytes'])} against "
           f"{percent(plans[1]['share_of_full_bytes'])}")
    return Line(what, target, f"{ratio:.2f} ×", ratio <= 1.5, why, "attention_biased")


def greedy(results: Results) -> Line:
    what = "greedy answers of 64 tokens on a stored 8K document equal to full's"
    target = "≥ 19 of 20"
    found = results.get("answers", {}).get("greedy")
    if found is None:
        return Line(what, target, source="answers")
    different = [answer for answer in found["answers"] if not answer["equal"]]
    why = "; ".join(f"parts at token {answer['first_difference']}, logit gap "
                    f"{answer['logit_gap']:.2f}" for answer in different)
    num_equal = sum(answer["control_is_equal"] for answer in found["answers"])
    control = f"full against itself, the question run token by token: {num_equal}"
    why = f"{control}; {why}" if why else control
    met = found["num_equal"] >= 19 and found["num_questions"] == 20
    return Line(what, target, f"{found['num_equal']} of {found['num_questions']}", met, why,
                "answers")


def perplexity(results: Results) -> Line:
    what, target = "perplexity, in steps of 64 rows, against full's", "within 0.5 %"
    found = results.get("answers", {}).get("perplexity")
    if found is None:
        return Line(what, target, source="answers")
    why = (f"{found['full']:.4f} and {found['plan']:.4f} over {found['num_tokens']:,.0f} tokens "
           f"after {found['context_tokens']:,} of context each")
    return Line(what, target, f"{100 * found['change']:+.2f} %", abs(found["change"]) <= 0.005,
                why, "answers")


def estimates(results: Results) -> Line:
    what, target = "estimated mass left out right within a factor 2", "95 % of 10⁵ queries"
    if "estimates" not in results:
        return Line(what, target, source="estimates")
    counts = [plan["estimates_of_mass_left_out"] for plan in results["estimates"]["plans"]
              if "estimates_of_mass_left_out" in plan]
    number = sum(count["num"] for count in counts)
    within = sum(count["within_factor_2"] for count in counts)
    why = ", ".join(f"`{plan['plan']}` {percent(count['within_factor_2'] / count['num'], 2)}"
                    for plan in results["estimates"]["plans"]
                    if (count := plan.get("estimates_of_mass_left_out")))
    return Line(what, target, f"{percent(within / number, 2)} of {number:,}",
                within >= 0.95 * number and number >= 1e5, why, "estimates")


def bounds(results: Results) -> Line:
    what, target = "hard bound on the error holds", "100 % of 10⁵ queries"
    counts = [(plan["plan"], plan["bounds_of_mass_left_out"], plan["bounds_of_output_error"])
              for plan in results.get("estimates", {}).get("plans", [])
              if "bounds_of_output_error" in plan]
    if not counts:
        return Line(what, target, source="estimates")
    number = sum(mass["num"] for _, mass, _ in counts)
    held = min(sum(mass["held"] for _, mass, _ in counts), sum(out["held"] for _, _, out in counts))
    why = "bounds over the mass left out, and over ‖out − full‖, medians: " + ", ".join(
        f"`{plan}` {mass['looseness_median']:.2f}, {out['looseness_median']:.1f}"
        for plan, mass, out in counts)
    return Line(what, target, f"held in {held:,} of {number:,} queries",
                held == number and number >= 1e5, why, "estimates")


def long_decode(other: str, least: float) -> Callable[[Results], Line]:
    def line(results: Results) -> Line:
        tokens = results.get("decode_long", {}).get("context", 32768)
        against = "llama.cpp's own" if other == "llama.cpp" else "attndb's exact plan"
        what, target = f"decode at {tokens:,} tokens through llama.cpp against {against}", (
            f"≥ {least:g} ×")
        if "decode_long" not in results:
            return Line(what, target, source="decode_long")
        sides = {side["name"]: side for side in results["decode_long"]["sides"]}
        if other not in sides:
            return Line(what, target, source="decode_long")
        ratio = sides[AUTO]["faster_than"][other]
        why = ", ".join(f"{name} {side['tokens_per_second']:.1f} tokens/s"
                        for name, side in sides.items())
        met = ratio >= least and tokens >= 32768
        return Line(what, target, f"{ratio:.2f} ×", met, why, "decode_long")

    return line


def never_slower(results: Results) -> Line:
    what, target = "`auto` against exact in the same run, the slowest case", "≥ 0.95 ×"
    found = [
        (plan["speedup"], f"`{plan['plan']}` in {name}")
        for name, result in sorted(results.items()) if result.get("bench") == "attention"
        for plan in result["plans"] if plan["plan"].startswith("auto(")
    ]
    if not found:
        return Line(what, target)
    slowest, where = min(found)
    return Line(what, target, f"{slowest:.2f} ×", slowest >= 0.95, where)


def index_against_peers(recall: float, where: str, source: str) -> Callable[[Results], Line]:
    def line(results: Results) -> Line:
        what = f"keys found, recall {recall:g} of the 100 best, {where}, against the best peer"
        target = "≥ 2 × on 6 of 9 heads, < 1 × on none"
        if source not in results:
            return Line(what, target, source=source)
        ratios, peers = {}, set()
        for head in results[source]["heads"]:
            best = next(best for best in head["best"] if best["recall"] == recall)
            if not best["attndb"] or not best["peer"]:
                continue
            ratios[head["name"]] = best["peer"]["us_per_query"] / best["attndb"]["us_per_query"]
            peers.add(best["peer"]["name"])
        num_fast = sum(ratio >= 2 for ratio in ratios.values())
        if not ratios:
            return Line(what, target, "not measured beside peers", source=source)
        met = num_fast >= 6 and min(ratios.values()) >= 1
        why = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
        return Line(what, target, f"≥ 2 × on {num_fast} of {len(ratios)}", met,
                    f"{why}; best peers: {', '.join(sorted(peers))}", source)

    return line




def clusters(what: str, run_of: Callable[[Results], Any], source: str, scan: str, index: str,
             least: float, most_error: float = 1.0) -> Callable[[Results], Line]:
    def line(results: Results) -> Line:
        target = f"≥ {least:g} ×"
        if most_error < 1:
            target += f", error ≤ {percent(most_error, 0)}"
        if source not in results:
            return Line(what, target, source=source)
        by_scan, by_index = (plan_of(run_of(results), name) for name in (scan, index))
        ratio = by_scan["ms_median"] / by_index["ms_median"]
        why = (f"{by_scan['ms_median']:.2f} ms, error {percent(by_scan['error_mean'], 2)}, against "
               f"{by_index['ms_median']:.2f} ms, {percent(by_index['error_mean'], 2)}")
        met = ratio >= least and by_index["error_mean"] <= most_error
        return Line(what, target, f"{ratio:.2f} ×", met, why, source)

    return line


def growth(plan: str) -> Callable[[Results], Line]:
    def line(results: Results) -> Line:
        what = f"`{plan}`, from 131,072 to 1,048,576 tokens (synthetic), takes longer"
        target = "≤ 3 ×"
        if "million" not in results:
            return Line(what, target, source="million")
        ms = [plan_of(run, plan)["ms_median"] for run in results["million"]["runs"]]
        ratio = ms[-1] / ms[0]
        return Line(what, target, f"{ratio:.2f} ×", ratio <= 3, f"{ms[0]:.3f} and {ms[-1]:.3f} ms",
                    "million")

    return line


def never_a_slower_index(results: Results) -> Line:
    what = "what `auto` chooses over the faster of scan and clusters, the worst length"
    target = "≤ 1.05 ×"
    # Tokens from which it has the choice: planner/plan_layer.cc.
    runs = [run for name in ("break_even", "million") if name in results
            for run in results[name]["runs"]
            if run["heads"]["num_tokens"] >= 12288 * (1 + min(group_size(run), 3))]
    if not runs:
        return Line(what, target, source="break_even")
    ratios = {}
    for run in runs:
        chosen, by_scan, by_index = (
            plan_of(run, name)["ms_median"] for name in (AUTO, BY_SCAN, BY_CLUSTERS))
        heads = run["heads"]
        origin = "synthetic" if "synthetic" in heads.get("description", "") else heads["origin"]
        name = f"{heads['num_tokens']:,} {origin}, groups of {group_size(run)}"
        ratios[name] = chosen / min(by_scan, by_index)
    why = "; ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    return Line(what, target, f"{max(ratios.values()):.2f} ×", max(ratios.values()) <= 1.05, why,
                "break_even")


def rows_of(results: Results, begin: str, end: str = "") -> dict[str, Any]:
    """Of calls: what lies between the two in each name, and its row."""
    return {row["name"].removeprefix(begin).removesuffix(end): row
            for row in results["calls"]["results"]
            if row["name"].startswith(begin) and row["name"].endswith(end)}


def hand_over(results: Results) -> Line:
    what, target = "a call handed to a worker that waits for one", "≤ 5 µs"
    if "calls" not in results:
        return Line(what, target, source="calls")
    micros = {name: row["median"] for name, row in rows_of(results, "handover").items()}
    why = f"{micros['/asleep']:.1f} µs to one that sleeps"
    return Line(what, target, f"{micros['']:.2f} µs", micros[""] <= 5, why, "calls")


def kernel_share(results: Results) -> str:
    """What the kernel of one thread reaches of what one thread reads, groups of three and four."""
    shares = [row["share"] for row in results.get("decode", {}).get("results", [])
              if re.fullmatch(r"decode/float16/d(64|128)/group[34]", row["name"])]
    if not shares:
        return ""
    return (f"; the kernel by itself reads {percent(min(shares), 0)} to {percent(max(shares), 0)} "
            "of what one thread reads")


def two_threads(what: str, begin: str, least: float, unit: str) -> Callable[[Results], Line]:
    def line(results: Results) -> Line:
        number = f"{percent(least, 0)}" if unit == "%" else f"{least:g} ×"
        if "calls" not in results:
            return Line(what, f"≥ {number}", source="calls")
        shares = {name: row["share"]
                  for name, row in rows_of(results, begin, "/threads2").items()}
        texts = {name: percent(share, 0) if unit == "%" else f"{share:.2f} ×"
                 for name, share in shares.items()}
        worst = min(shares, key=lambda name: shares[name])
        why = ", ".join(f"{name.strip('/').replace('/', ', ')} tokens: {text}"
                        for name, text in texts.items())
        if unit == "%":
            over_one = rows_of(results, begin.removeprefix("bytes/"), "/threads2")
            why += "; times one thread: " + ", ".join(
                f"{row['share']:.2f}" for row in over_one.values())
            why += kernel_share(results)
        return Line(what, f"≥ {number}", texts[worst], shares[worst] >= least, why, "calls")

    return line


def medians_of_contexts(results: Results, call: str) -> dict[int, float]:
    """Milliseconds of a call of the store, by the number of contexts, all of one tenant."""
    return {int(number): row["median"] for row in results["contexts"]["results"]
            for name, _, number in [row["name"].partition("/")]
            if name == call and number.isdecimal()}


def medians_of(results: Results, source: str) -> dict[str, float]:
    return {row["name"]: row["median"] for row in results.get(source, {}).get("results", [])}


def within_limit(what: str, call: str) -> Callable[[Results], Line]:
    """The slower of 10,000 contexts of one tenant and of 100."""
    def line(results: Results) -> Line:
        target, rows = "≤ 100 ms", medians_of(results, "contexts")
        times = {tenants: rows.get(f"{call}/10000{suffix}")
                 for tenants, suffix in (("of one tenant", ""), ("of 100 tenants", "x100"))}
        known = {tenants: time for tenants, time in times.items() if time is not None}
        if not known:
            return Line(what, target, source="contexts")
        worst = max(known.values())
        why = ", ".join(f"{time:.2f} ms {tenants}" for tenants, time in known.items())
        met = worst <= 100 and len(known) == len(times)
        return Line(what, target, f"{worst:.1f} ms", met, why, "contexts")

    return line


def beside_many(what: str, call: str) -> Callable[[Results], Line]:
    def line(results: Results) -> Line:
        target = "≤ 1.2 × beside 10, + 2 ms"
        if "contexts" not in results:
            return Line(what, target, source="contexts")
        times = medians_of_contexts(results, call)
        most, few = max(times), min(times)
        why = ", ".join(f"{time:.2f} ms beside {number:,}" for number, time in times.items()
                        if number != most)
        met = times[most] <= 1.2 * times[few] + 2
        return Line(what, target, f"{times[most]:.2f} ms", met, why, "contexts")

    return line


def area_of_tenants(what: str, name: str, aim: str,
                    is_met: Callable[[float], bool]) -> Callable[[Results], Line]:
    """The area under the ROC curve of times of hits and misses of another tenant's prefix."""
    def line(results: Results) -> Line:
        rows = medians_of(results, "tenants")
        if name not in rows:
            return Line(what, aim, source="tenants")
        why = f"medians: miss {rows['miss']:.2f} µs, hit {rows['hit']:.2f} µs"
        return Line(what, aim, f"{rows[name]:.3f}", is_met(rows[name]), why, "tenants")

    return line


def store_onto(results: Results) -> Line:
    what = "`Store` of 100 tokens onto 131,072 stored ones"
    target = "≤ 1.2 × onto 1,024, as many bytes"
    if "stores" not in results:
        return Line(what, target, source="stores")
    rows = {row["name"]: row for row in results["stores"]["results"]}
    lengths = sorted(int(name.removeprefix("store/")) for name in rows if name.startswith("store/"))
    ratio = 1 / rows[f"store/{lengths[-1]}"]["share"]
    sealed = {length: rows[f"segment/{length}"]["median"] for length in lengths}
    why = "; ".join(
        f"onto {length:,}: {rows[f'store/{length}']['median']:.1f} ms, "
        f"{sealed[length] / 1e6:.3f} MB sealed, {rows[f'written/{length}']['median'] / 1e6:.2f} MB "
        "written in all" for length in lengths)
    met = ratio <= 1.2 and len(set(sealed.values())) == 1
    return Line(what, target, f"{ratio:.2f} ×", met, why, "stores")


def beside_store(what: str, whose: str) -> Callable[[Results], Line]:
    def line(results: Results) -> Line:
        target = "≤ 1.2 × alone"
        if "stores" not in results:
            return Line(what, target, source="stores")
        rows = {row["name"]: row for row in results["stores"]["results"]}
        plans = [name.split("/")[1] for name in rows if name.startswith("async/")
                 and name.endswith(whose)]
        ratios = {plan: 1 / rows[f"step/{plan}/{whose}/beside"]["share"] for plan in plans}
        why = "; ".join(
            f"`{plan}` {ratios[plan]:.2f} ({rows[f'step/{plan}/{whose}/beside']['median']:.1f} and "
            f"{rows[f'step/{plan}/{whose}/alone']['median']:.1f} ms), of its thread's own time "
            f"{1 / rows[f'cpu/{plan}/{whose}/beside']['share']:.2f}, the Store "
            f"{rows[f'async/{plan}/{whose}']['median']:.0f} ms" for plan in plans)
        if whose == "own":
            why += "; the first step after it " + ", ".join(
                f"{rows[f'step/{plan}/own/after']['median']:.0f} ms" for plan in plans)
        worst = max(ratios.values())
        return Line(what, target, f"{worst:.2f} ×", worst <= 1.2, why, "stores")

    return line


def by_threads(what: str, where: str, peer: str, least: float) -> Callable[[Results], Line]:
    """Decode with the threads that attndb chooses, over another number of them."""
    def line(results: Results) -> Line:
        target, rows = f"≥ {percent(least, 0)}", medians_of(results, "busy")
        if not rows:
            return Line(what, target, source="busy")
        share = rows[f"{where}/default"] / rows[f"{where}/{peer}"]
        why = ", ".join(f"{name.removeprefix(where + '/')} {rate:.0f}"
                        for name, rate in rows.items() if name.startswith(where))
        why += " tokens a second"
        return Line(what, target, percent(share, 0), share >= least, why, "busy")

    return line


LINES: list[Callable[[Results], Line]] = [
    speedup("SmolLM2 heads stretched to 128K, error 0.01, against exact", "attention_stretched",
            AUTO, 4),
    speedup("synthetic heads of Llama 3 8B's geometry, 128K, error 0.01", "attention_synthetic",
            AUTO, 5),
    scan(8, 0.85),
    scan(4, 0.75),
    planes_built,
    error_8k,
    greedy,
    perplexity,
    by_codes("SmolLM2, 8,192 tokens: bytes of draws by product codes at errors of 1 and 3 %",
             "attention_8k", (0.10, 0.07)),
    by_codes("the same stretched to 131,072", "attention_stretched", (0.05, 0.03)),
    biased,
    bounds,
    estimates,
    long_decode("llama.cpp", 6),
    long_decode("full", 2),
    never_slower,
    index_against_peers(0.95, "65,536 tokens", "index"),
    index_against_peers(0.99, "65,536 tokens", "index"),
    index_against_peers(0.95, "8,192 tokens with key biases", "index_biased"),
    index_against_peers(0.99, "8,192 tokens with key biases", "index_biased"),
    clusters("draws by clusters over draws by a scan of 4 bits, 262,144 tokens, error 0.01",
             lambda results: results["draws"], "draws", BY_SCAN, BY_CLUSTERS, 1.5, 0.01),
    clusters("the same at 1,048,576 tokens, synthetic heads",
             lambda results: results["million"]["runs"][-1], "million", BY_SCAN, BY_CLUSTERS, 3,
             0.01),
    clusters("the 100 best by clusters over a scan of 4 bits, 1,048,576 tokens, synthetic heads",
             lambda results: results["million"]["runs"][-1], "million", TOP_BY_SCAN,
             TOP_BY_CLUSTERS, 3),
    growth(BY_CLUSTERS),
    growth(TOP_BY_CLUSTERS),
    never_a_slower_index,
    hand_over,
    two_threads("`full` by two threads, of what two threads read, the worst case", "bytes/full/",
                0.9, "%"),
    two_threads("`auto(error=0.01)` by two threads over one, 3 kv heads, the worst case",
                "auto/3x3x64", 1.5, "×"),
    two_threads("the same, 8 kv heads", "auto/8x4x128", 1.8, "×"),
    within_limit("`List` of 10,000 contexts that share a prefix", "list"),
    within_limit("`Drop` of one of them", "drop"),
    within_limit("`Verify` of all until its first progress", "verify_start"),
    within_limit("`Compact` that finds one whose time to live is over", "expiry"),
    within_limit("`Stats`", "stats"),
    within_limit("`ExplainPrefix`", "explain_prefix"),
    within_limit("`Open`", "open"),
    beside_many("`CreateSession` beside 10,000 contexts that share a prefix", "create_session"),
    beside_many("`Store` beside them, at a full quota, which evicts one", "store"),
    beside_many("`Compact` of them that has nothing to do", "compact"),
    area_of_tenants("`CreateSession` on a prefix of another tenant against one of nobody, 10⁴ "
                    "tries of each: area under the ROC curve of the times", "area", ".48 to .52",
                    lambda area: .48 <= area <= .52),
    area_of_tenants("the same where hits take 5 % longer (control: what would be seen)",
                    "area_of_control", "> .52", lambda area: area > .52),
    by_threads("decode at 2,000 tokens beside one busy process, of what one thread gives", "beside",
               "one", 0.9),
    by_threads("the same with nothing beside it, of what all cores give", "alone", "all", 0.97),
    store_onto,
    beside_store("a step at 12,288 tokens beside a `StoreAsync` of 4,096 tokens of another session,"
                 " the slower plan", "other"),
    beside_store("the same beside a `StoreAsync` of its own tail", "own"),
]


def table(results: Results) -> str:
    rows = ["| what | target | measured | | arithmetic | command |", "|---|---|---|---|---|---|"]
    for make in LINES:
        line = make(results)
        verdict = {True: "met", False: "**MISSED**", None: ""}[line.met]
        command = f"`bench/run.sh {line.source}`" if line.source else ""
        rows.append(f"| {line.what} | {line.target} | {line.measured} | {verdict} | {line.why} "
                    f"| {command} |")
    return "\n".join(rows) + "\n\n" + machines(results)


def machines(results: Results) -> str:
    """What the figures are of: they may have been taken at different commits."""
    parts: dict[str, list[str]] = {}
    for name, result in sorted(results.items()):
        if not any(make(results).source == name for make in LINES):
            continue
        machine = result["machine"]
        of = f"{machine['cpu']}, {machine['isa']}, Linux {machine['kernel']}, " \
             f"commit {result['commit']}"
        if bandwidth := machine.get("read_bandwidth"):
            of += f", {bandwidth / 1e9:.1f} GB/s a thread"
        parts.setdefault(of, []).append(name)
    return "".join(f"- {', '.join(names)}: {of}\n" for of, names in parts.items())


def pictures(results: Results, captions: dict[str, str]) -> str:
    return "\n".join(f"![{caption}](images/{name}.png)\n" for name, caption in captions.items()
                     if name in results)


def filled(page: str, part: str, text: str) -> str:
    """The page with `text` between the marks of `part`."""
    begin, end = f"<!-- {part}: bench/report.py -->", f"<!-- end of {part} -->"
    head, found_begin, rest = page.partition(begin)
    _, found_end, tail = rest.partition(end)
    if not found_begin or not found_end:
        raise SystemExit(f"the page lacks '{begin}' or '{end}'")
    return f"{head}{begin}\n\n{text}\n{end}{tail}"


def fill(page: str, results: Results) -> str:
    page = filled(page, "table", table(results))
    page = filled(page, "pictures", pictures(results, PICTURES))
    return filled(page, "indexes", pictures(results, INDEX_PICTURES))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=ROOT / "bench/results")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/performance.md")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    results = {path.stem: json.loads(path.read_text()) for path in arguments.results.glob("*.json")}
    page = arguments.page.read_text()
    wanted = fill(page, results)
    if arguments.check:
        if page != wanted:
            sys.exit(f"{arguments.page} is not that of the results: run bench/report.py")
        return
    arguments.page.write_text(wanted)
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        print("no matplotlib: the pictures stay as they are")
        return
    for name in PICTURES | INDEX_PICTURES:
        if name in results:
            picture(results[name], arguments.page.parent / "images" / f"{name}.png")


if __name__ == "__main__":
    main()
