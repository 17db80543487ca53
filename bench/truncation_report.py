#!/usr/bin/env python3
"""Makes the tables of docs/truncation.md of bench/results/truncation.json: what stands between its
marks.

    bench/truncation_report.py            rewrites them
    bench/truncation_report.py --check    fails if the page is not that of the results

A figure that is not what it should be is MISSED. What was not measured is left out, and said.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from report_page import fill_page, table

RECOMPUTE, FULL, NO_SINK, NAIVE = "recompute", "full", "no_sink", "naive"
RUN_AGAIN, CUT = "run_again", "cut"
OURS = ("sink", "keep_4", "keep_16", "unrotated")
NAMES = {
    FULL: "nothing leaves",
    RECOMPUTE: "recomputed (TT)",
    "sink": "first token stays (`DropOldest`)",
    "keep_4": "first 4 stay (the engine, `chat`)",
    "keep_16": "first 16 stay",
    "unrotated": "first 4 stay, keys stored without RoPE",
    NO_SINK: "none stays (`sink=false`)",
    NAIVE: "keys kept naively (NKVT)",
    RUN_AGAIN: "the rest is run again (`exact`)",
    CUT: "the rest stays (`cut`)",
}
PIECES = {"early": "four, a quarter of the window, in its first half",
          "late": "one, half of the window, in front of its last 64 tokens"}
# What should be: changes of perplexity against recomputing, at most, and of the controls, at least.
MEAN, DOCUMENT, SEGMENT, NO_SINK_LEAST, NAIVE_LEAST = 0.01, 0.03, 0.05, 0.30, 9.0
POINTS = -5.0
DROP_MS = 1.0
NLL = {"f32": 1e-3, "f16": 0.05}
# What bench/run.sh measures, and of how much.
PARTS = {"stream_2048": "the window of 2,048 tokens", "stream_4096": "the window of 4,096 tokens",
         "codes": "codes", "edits": "edits", "positions": "positions", "speed": "time"}
NUM_DOCUMENTS, DOCUMENT_TOKENS, NUM_QUESTIONS = 16, 12_288, 400
NUM_WINDOWS = 2 * NUM_DOCUMENTS  # For edits.

Part = dict[str, Any]


def missed(fine: bool, wanted: str) -> str:
    return "" if fine else f" MISSED: {wanted}"


def percent(ratio: float) -> str:
    return f"{100 * ratio:+.2f}"


def changes(part: Part, way: str) -> list[float]:
    """Change of each document's perplexity against recomputing."""
    return [math.exp(statistics.mean(document["nll"][way]) -
                     statistics.mean(document["nll"][RECOMPUTE])) - 1
            for document in part["documents"]]


def segment_changes(part: Part, way: str) -> list[list[float]]:
    """Likewise of each segment, by document."""
    return [[math.exp(ours - theirs) - 1
             for ours, theirs in zip(document["nll"][way], document["nll"][RECOMPUTE],
                                     strict=True)]
            for document in part["documents"]]


def standard_error(values: Sequence[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def with_error(values: Sequence[float]) -> str:
    text = percent(statistics.mean(values))
    return text if len(values) < 2 else f"{text} ± {100 * standard_error(values):.2f}"


def perplexity_row(part: Part, way: str) -> list[str]:
    documents = part["documents"]
    nll = statistics.mean(statistics.mean(document["nll"][way]) for document in documents)
    row = [NAMES[way], f"{math.exp(nll):.2f}"]
    if way == RECOMPUTE:
        return [*row, "", "", ""]
    of_documents = changes(part, way)
    worst_segment = max(max(segments) for segments in segment_changes(part, way))
    mean = statistics.mean(of_documents)
    cells = [with_error(of_documents), f"{percent(min(of_documents))} to "
             f"{percent(max(of_documents))}", percent(worst_segment)]
    if way in OURS:
        cells[0] += missed(mean <= MEAN, "+1")
        cells[1] += missed(max(of_documents) <= DOCUMENT, "+3")
        cells[2] += missed(worst_segment <= SEGMENT, "+5")
    elif way == NO_SINK:
        cells[0] += missed(mean > NO_SINK_LEAST, "the control should be far off, by 30")
    else:
        cells[0] += missed(mean > NAIVE_LEAST, "the control should be 10 times as large")
    return row + cells


def perplexity(part: Part) -> str:
    ways = [way for way in NAMES if way in part["documents"][0]["nll"]]
    return table(["window " + f"{part['window']:,}", "perplexity", "against recomputing %",
                  "by document", "worst segment"], [perplexity_row(part, way) for way in ways])


def by_truncations(part: Part) -> str:
    ways = [way for way in NAMES if way in part["documents"][0]["nll"] and way != RECOMPUTE]
    num_segments = len(part["documents"][0]["nll"][RECOMPUTE])
    rows = []
    for way in ways:
        segments = segment_changes(part, way)
        rows.append([NAMES[way], *(with_error([of_document[i] for of_document in segments])
                                   for i in range(num_segments))])
    header = [f"window {part['window']:,}, % after truncations:",
              *(str(i + 1) for i in range(num_segments))]
    return table(header, rows)


def difference(right: Sequence[bool], reference: Sequence[bool]) -> tuple[str, float]:
    """The paired difference in points with its 95 % interval, and its mean."""
    pairs = [float(a) - float(b) for a, b in zip(right, reference, strict=True)]
    mean = 100 * statistics.mean(pairs)
    half = 196 * standard_error(pairs)
    return (f"{mean:+.1f} ({mean - half:+.1f} to {mean + half:+.1f})", mean)


def answers(right: dict[str, list[bool]], reference: str, ours: Sequence[str]) -> str:
    rows = []
    for way in (way for way in NAMES if way in right):
        cell = ""
        if way != reference:
            cell, mean = difference(right[way], right[reference])
            if way in ours:
                cell += missed(mean >= POINTS, f"{POINTS:g}")
        rows.append([NAMES[way], f"{sum(right[way])} of {len(right[way])}", cell])
    return table(["", "right", f"against \"{NAMES[reference]}\", points (95 %)"], rows)


def choices(part: Part) -> str:
    documents = part["documents"]
    right = {way: [bool(answer) for document in documents for answer in document["right"][way]]
             for way in documents[0]["right"]}
    return answers(right, RECOMPUTE, OURS)


def scored_windows(part: Part) -> list[Part]:
    return [window for window in part["windows"] if "nll" in window]


def edit_changes(windows: Sequence[Part], kind: str, way: str) -> list[float]:
    """Change of each window's perplexity against running again."""
    return [math.exp(window["nll"][kind][way] - window["nll"][kind][RUN_AGAIN]) - 1
            for window in windows]


def edits(part: Part) -> str:
    windows = scored_windows(part)
    rows = []
    for kind, pieces in PIECES.items():
        for way in (FULL, RUN_AGAIN, CUT):
            nll = statistics.mean(window["nll"][kind][way] for window in windows)
            row = [pieces, NAMES[way], f"{math.exp(nll):.2f}"]
            of_windows = edit_changes(windows, kind, way)
            cells = [with_error(of_windows),
                     f"{percent(min(of_windows))} to {percent(max(of_windows))}"]
            if way == CUT:
                cells[0] += missed(statistics.mean(of_windows) <= MEAN, "+1")
            rows.append(row + (["", ""] if way == RUN_AGAIN else cells))
    return table(["pieces", "way", "perplexity", "against running again %", "by window"], rows)


def edited_codes(part: Part) -> dict[str, list[bool]]:
    texts = [text for text in part["texts"] if "right" in text]
    return {way: [bool(right) for text in texts for right in text["right"][way]]
            for way in (FULL, RUN_AGAIN, CUT)}


def positions(part: Part) -> str:
    rows = []
    for dtype in ("f32", "f16"):
        for result in part[dtype]:
            worst = result["rebased_max"]
            rows.append([dtype, f"{result['first_position']:,}",
                         f"{worst:.2g}" + missed(worst <= NLL[dtype], f"{NLL[dtype]:g}"),
                         f"{result['own_angles_max']:.2g}"])
    return table(["keys", "first position", "max \\|ΔNLL\\|, `Rebase`",
                  "max \\|ΔNLL\\|, llama.cpp's own angles"], rows)


def speed(part: Part) -> str:
    rows = []
    for run in part["runs"]:
        drop = run["drop_ms"]["median"]
        unrotated = run.get("next_unrotated_ms")
        rows.append([str(run["keep_first"]),
                     f"{drop:.3f}" + missed(drop <= DROP_MS, f"{DROP_MS:g}"),
                     f"{run['next_ms']['median']:.1f} ± {run['next_ms']['mad']:.1f}",
                     f"{run['next_of_plain_ms']['median']:.1f} ± "
                     f"{run['next_of_plain_ms']['mad']:.1f}", f"{run['ratio']['median']:.2f}",
                     f"{unrotated['median']:.1f} ± {unrotated['mad']:.1f}" if unrotated else ""])
    return table(["tokens in front", "`DropOldest`, ms", "next token, ms",
                  "with 4,096 tokens that never were more, ms", "ratio",
                  "next token, keys stored without RoPE, ms"], rows)


def measured(part: Part, what: str) -> str:
    head = part["head"]
    load = f" (load before: {head['load_before']:.1f})" if "load_before" in head else ""
    by_document = {place for document in part.get("documents", [])
                   for place in document.get("measured", {}).values()}
    by_document |= {entry["measured"] for entry in part.get("windows", []) + part.get("texts", [])
                    if "measured" in entry}
    place = f"on {head['machine']['cpu']}, commit {head['commit']}"
    if by_document:  # Documents may have been run one after the other, on several machines.
        place = ", ".join(f"commit {one}" for one in sorted(by_document))
    return (f"{what}, {head['threads']} thread{'s' if head['threads'] > 1 else ''}{load}, "
            f"{place}.\n")


def still_to_do(parts: Part) -> str:
    """What bench/run.sh would measure and these figures lack."""
    lacks = [what for name, what in PARTS.items() if name not in parts]
    for name in ("stream_2048", "stream_4096"):
        documents = parts[name]["documents"] if name in parts else []
        tokens = parts[name]["document_tokens"] if name in parts else DOCUMENT_TOKENS
        if name in parts and (len(documents) < NUM_DOCUMENTS or tokens < DOCUMENT_TOKENS):
            lacks.append(f"{NUM_DOCUMENTS} documents of {DOCUMENT_TOKENS:,} tokens in "
                         f"{PARTS[name]} (here {len(documents)} of {tokens:,})")
    asked = {"codes": len(parts["codes"]["right"][FULL]) if "codes" in parts else NUM_QUESTIONS,
             "choices": sum(len(document["right"][RECOMPUTE]) for document in
                            parts.get("stream_2048", {}).get("documents", []))}
    if "edits" in parts:
        num_windows = len(scored_windows(parts["edits"]))
        asked["codes of edits"] = len(edited_codes(parts["edits"])[FULL])
        if num_windows < NUM_WINDOWS:
            lacks.append(f"{NUM_WINDOWS} windows of edits (here {num_windows})")
    lacks += [f"{NUM_QUESTIONS} {kind} (here {count})" for kind, count in asked.items()
              if count < NUM_QUESTIONS]
    return f"\nNot measured yet: {'; '.join(lacks)}.\n" if lacks else ""


def stream_sections(parts: Part) -> list[str]:
    sections = []
    for name in sorted((name for name in parts if name.startswith("stream_")),
                       key=lambda name: int(name.removeprefix("stream_"))):
        part = parts[name]
        documents = part["documents"]
        segments = len(documents[0]["nll"][RECOMPUTE])
        sections += [
            "**Perplexity of what follows the first overflow**, window "
            f"{part['window']:,}. " + measured(
                part, f"{len(documents)} document{'s' if len(documents) > 1 else ''} of "
                f"{part['document_tokens']:,} tokens, {segments} truncations each"),
            perplexity(part), by_truncations(part)]
        if documents[0]["right"][RECOMPUTE]:
            sections += [
                "**Choice of four**: which passage follows, in the same streams. Chance is a "
                "quarter.\n", choices(part)]
    return sections


def edit_sections(part: Part) -> list[str]:
    windows = scored_windows(part)
    num_documents = len({window["sha256"] for window in windows})
    what = (f"{len(windows)} windows of {part['window']:,} tokens, of {num_documents} documents; "
            f"{part['scored']} tokens behind each")
    sections = ["**Perplexity behind pieces that leave in the middle** (`\"edits\": \"cut\"`). " +
                measured(part, what), edits(part)]
    right = edited_codes(part)
    if right[FULL]:
        sections += ["**Codes behind early pieces**, ten a text, 64 tokens after the window. "
                     "All of them stand in what stays.\n", answers(right, RUN_AGAIN, (CUT,))]
    return sections


def whole_documents(parts: dict[str, Part]) -> dict[str, Part]:
    """Without a document that a run was stopped in: every way is of the same ones."""
    for part in parts.values():
        if "documents" not in part:
            continue
        ways = max((set(document["nll"]) for document in part["documents"]), key=len)
        part["documents"] = [document for document in part["documents"]
                             if set(document["nll"]) == ways]
    return parts


def section(result: Part) -> str:
    parts = whole_documents(result["parts"])
    sections = [next(iter(parts.values()))["head"]["model"] + ". MISSED is what is not as it "
                "should be.\n", *stream_sections(parts)]
    if "codes" in parts:
        part = parts["codes"]
        sections += ["**Codes that stand in what is kept.** " + measured(
            part, f"Window {part['window']:,}, ten codes a text"),
            answers(part["right"], FULL, OURS)]
    if "edits" in parts:
        sections += edit_sections(parts["edits"])
    if "positions" in parts:
        sections += ["**Positions that go on without end**, against the same at position 0. " +
                     measured(parts["positions"], "Weights in float32"),
                     positions(parts["positions"])]
    if "speed" in parts:
        sections += ["**Time**, dropping half of 8,192 tokens. " +
                     measured(parts["speed"], "Medians ± median deviation"),
                     speed(parts["speed"])]
    return "\n".join(sections) + still_to_do(parts)


def main() -> None:
    fill_page("truncation", (__doc__ or "").splitlines()[0], section)


if __name__ == "__main__":
    main()
