"""The pictures of docs/performance.md: error of plans over their cost, and where indexes win."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from report_runs import (
    AUTO,
    BY_CLUSTERS,
    BY_SCAN,
    TOP_BY_CLUSTERS,
    TOP_BY_SCAN,
    group_size,
    plan_of,
)

BREAK_EVEN = (
    ("auto(error=0.01)", {BY_SCAN: "scan", BY_CLUSTERS: "clusters", AUTO: "as auto chooses"}),
    ("the 100 best", {TOP_BY_SCAN: "scan", TOP_BY_CLUSTERS: "clusters",
                      "topk(k=100,index=graph)": "graph"}),
)


def draw_lines(axes: Any, runs: list[Any], plans: dict[str, str]) -> None:
    colors = {"scan": "#0072B2", "clusters": "#D55E00", "graph": "#009E73"}
    for name, label in plans.items():
        points = [(run["heads"]["num_tokens"], plan["ms_median"]) for run in runs
                  if (plan := plan_of(run, name))]
        axes.plot([x for x, _ in points], [y for _, y in points], label=label, marker="o",
                  markersize=4, color=colors.get(label, "#767676"),
                  linestyle="--" if label not in colors else "-")
    lengths = [run["heads"]["num_tokens"] for run in runs]
    axes.set(xscale="log", yscale="log", xlabel="tokens", ylabel="ms a token")
    axes.set_xticks(lengths, [f"{length // 1024}K" for length in lengths], minor=False)
    low, high = axes.get_ylim()
    marks = [mark for mark in (0.5, 1, 2, 3, 5, 10, 20, 30, 50, 100) if low <= mark <= high]
    axes.set_yticks(marks, [f"{mark:g}" for mark in marks])
    axes.minorticks_off()
    axes.grid(True, color="#E6E6E6", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)


def break_even(result: Any, path: Path) -> None:
    from matplotlib.figure import Figure

    sizes = sorted({group_size(run) for run in result["runs"]}, reverse=True)
    figure = Figure(figsize=(10, 3.8 * len(sizes)), dpi=150, layout="constrained")
    for row, size in zip(figure.subplots(len(sizes), 2, squeeze=False), sizes, strict=True):
        runs = [run for run in result["runs"] if group_size(run) == size]
        for axes, (title, plans) in zip(row, BREAK_EVEN, strict=True):
            draw_lines(axes, runs, plans)
            axes.set_title(f"{title}, {size} q head{'s' if size > 1 else ''} a kv head")
    heads = result["runs"][-1]["heads"]
    figure.suptitle(f"SmolLM2 stretched by YaRN · {heads['num_layers']} layers · one thread",
                    fontsize=10)
    figure.savefig(path)


def picture(result: Any, path: Path) -> None:
    if "runs" in result:
        return break_even(result, path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), dpi=150, layout="constrained")
    sides = figure.subplots(1, 2, sharey=True)
    full = plan_of(result, "full")
    colors = {"topk": "#0072B2", "mass": "#D55E00", "dipr": "#009E73", "auto": "#A6548A"}
    for axes, cost, best, label in (
        (sides[0], "bytes_touched", "best_by_bytes", "bytes over full's, %"),
        (sides[1], "ms_median", "best_by_time", "time over full's, %"),
    ):
        plans = [plan for plan in result["plans"] if plan["error_mean"] > 0]
        for family in dict.fromkeys(plan["plan"].partition("(")[0] for plan in plans):
            of_family = [plan for plan in plans if plan["plan"].partition("(")[0] == family]
            axes.scatter([100 * plan[cost] / full[cost] for plan in of_family],
                         [100 * plan["error_mean"] for plan in of_family], 22,
                         colors.get(family, "#767676"), label=family, zorder=3)
        line = sorted((100 * plan[cost] / full[cost], 100 * plan["error_mean"], plan["plan"])
                      for plan in plans if plan[best])
        axes.plot([x for x, _, _ in line], [y for _, y, _ in line], color="#767676", linewidth=1)
        for x, y, name in line:
            axes.annotate(name, (x, y), (3, 4), textcoords="offset points", fontsize=5.5)
        axes.axvline(100, color="#767676", linestyle="--", linewidth=1)
        axes.set(yscale="log", xlabel=label)
        axes.set_xlim(left=0)
        axes.grid(True, color="#E6E6E6", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    sides[0].set_ylabel("relative error of the output, %")
    heads = result["heads"]
    figure.suptitle(f"{heads['description']} · {heads['num_tokens']:,} tokens · "
                    f"{heads['num_layers']} layers", fontsize=10)
    figure.legend(*sides[0].get_legend_handles_labels(), loc="outside lower center", ncols=8,
                  frameon=False, fontsize=8)
    figure.savefig(path)
