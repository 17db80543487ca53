"""Draws the measurements of attndb.measure as matplotlib figures.

    from attndb import plot

    file = attndb.KvFile("book.safetensors")
    plot.attention(file, layer=4, head=2, plan="dipr(alpha=0.012)", path="attention.png")

Each function draws the numbers of attndb.measure, of a session's explain or of a report, and
returns a ``matplotlib.figure.Figure``. With ``path``, the function also saves the figure, in the
format that the path ends with (png, svg, pdf). The module does not use pyplot, so it opens no
window, needs no backend and changes no global state.
"""

from __future__ import annotations

try:
    import matplotlib  # noqa: F401
except ImportError as error:
    raise ImportError(
        "attndb.plot needs matplotlib: pip install matplotlib", name="matplotlib"
    ) from error

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from matplotlib.transforms import Bbox

from attndb import measure
from attndb._checked import I64, U32, Path, checked
from attndb._errors import InvalidArgumentError
from attndb._kv_file import KvFile
from attndb._results import Explain, SimulatedRun, SimulateReport
from attndb.measure import Doubles, PlanError, PrefixHit

__all__ = [
    "Pictures",
    "attention",
    "physical_plan",
    "pictures",
    "plan_errors",
    "prefix_hits",
    "tiers",
    "tokens_for_mass",
]


def __dir__() -> list[str]:
    """The names that completion offers, without the modules that this module imports."""
    return __all__


# Okabe and Ito's colours, which colour-blind people can tell apart; paler colours for the rest.
_BLUE, _VERMILLION, _GREEN, _PURPLE = "#0072B2", "#D55E00", "#009E73", "#A6548A"
_GREY, _PALE, _STRIPE = "#767676", "#CFCFCF", "#F4F4F4"
_FLOOR = 1e-10  # Smaller weights are drawn at the lower edge.

_PLANS = (  # The plans that plan_errors.png compares.
    *(f"topk(k={k})" for k in (16, 64, 256)),
    *(f"dipr(alpha={alpha})" for alpha in (0.1, 0.012, 0.001)),
    "window",
)


@dataclass(frozen=True)
class Pictures:
    """The result of :func:`pictures`."""

    files: tuple[str, ...]
    layer: int  # The layer that attention.png shows.
    head: int  # The q head that attention.png shows.
    points: tuple[PlanError, ...]  # The points of plan_errors.png.


@checked
def pictures(
    file: KvFile,
    folder: Path,
    *,
    plan: str = "dipr(alpha=0.012)",
    layer: U32 | None = None,
    head: U32 | None = None,
    queries: U32 = 16,
    format: Literal["png", "svg", "pdf"] = "png",  # noqa: A002: matplotlib's word.
    drawn: Callable[[str], object] | None = None,
) -> Pictures:
    """Draws the three pictures of `attndb plot` for a captured file. Creates `folder` if needed.

    tokens_for_mass: the tokens that each head needs. attention: the weights of the newest token in
    one q head, with the critical tokens of `plan` marked. Without `layer` and `head`, the function
    picks the head that attends most to each of its critical tokens. plan_errors: the errors of
    plans against the bytes that they read.

    ``queries``: at most this many rows at the end of the file are measured. ``drawn(path)`` is
    called after each picture. A picture replaces a file of the same name.
    """
    made = os.fsdecode(folder)
    os.makedirs(made, exist_ok=True)
    files: list[str] = []

    def path(name: str) -> str:
        return os.path.join(made, f"{name}.{format}")

    def save(name: str) -> None:
        files.append(path(name))
        if drawn is not None:
            drawn(path(name))

    queries = min(queries, max(1, file.num_queries))
    tokens_for_mass(file, queries=queries, alpha=0.012, path=path("tokens_for_mass"))
    save("tokens_for_mass")
    if layer is None or head is None:
        layer, head = _telling_head(file, plan, layer, head)
    attention(file, layer, head, plan, path=path("attention"))
    save("attention")
    points = tuple(measure.plan_errors(file, _PLANS, queries))
    plan_errors(points, notes=_name(file), path=path("plan_errors"))
    save("plan_errors")
    return Pictures(tuple(files), layer, head, points)


def _telling_head(
    file: KvFile, plan: str, layer: int | None, head: int | None
) -> tuple[int, int]:
    """Returns the layer and q head that attends most to each of its critical tokens. `layer` and
    `head` limit the choice."""
    best = (-1.0, 0, 0)
    for at in file.layers if layer is None else (layer,):
        weights = measure.attention_weights(file, at)
        critical = measure.critical_tokens(file, at, plan).critical
        shares = np.where(critical, weights, 0).sum(axis=1) / (1 + critical.sum(axis=1))
        heads = range(len(shares)) if head is None else range(head, min(head + 1, len(shares)))
        best = max([best, *((float(shares[h]), at, h) for h in heads)])
    if best[0] < 0:
        raise InvalidArgumentError(f"head {head}: no layer has so many q heads")
    return best[1], best[2]


@checked
def tokens_for_mass(
    file: KvFile,
    mass: float = 0.9,
    queries: U32 = 16,
    *,
    alpha: float | None = None,
    beta: float | None = None,
    path: Path | None = None,
) -> Figure:
    """Draws the tokens that each q head needs for a share of the softmax (AlayaDB Fig. 5). With
    `alpha` or `beta`, also draws the number of tokens that a range query (DIPR) takes."""
    needed = measure.tokens_for_mass(file, mass, queries)
    num_layers, num_heads = needed.shape
    figure, axes = _new(7.2 if num_layers <= 12 else 11.0)
    at = np.arange(num_layers)[:, None] + 0.84 * ((np.arange(num_heads) + 0.5) / num_heads - 0.5)
    size = 24 if num_layers <= 12 else 9
    for layer in range(0, num_layers, 2):
        axes.axvspan(layer - 0.5, layer + 0.5, color=_STRIPE, linewidth=0, zorder=0)
    if alpha is not None or beta is not None:
        taken = measure.dipr_tokens(file, alpha=alpha, beta=beta, queries=queries)
        axes.vlines(at.ravel(), needed.ravel(), taken.ravel(), color=_PALE, linewidth=1, zorder=1)
        label = f"dipr(alpha={alpha:g})" if alpha is not None else f"dipr(beta={beta:g})"
        label += f" takes: mean {np.nanmean(taken):,.0f}"
        axes.scatter(at, taken, size, _BLUE, linewidths=0, zorder=2, label=label)
    label = f"needed for {_percent(mass)} of the mass: mean {np.nanmean(needed):,.0f}"
    axes.scatter(at, needed, size, _VERMILLION, linewidths=0, zorder=3, label=label)
    axes.axhline(file.num_tokens, color=_GREY, linewidth=1, linestyle="--", zorder=1)
    _note(axes, f"all {file.num_tokens:,} tokens", (1.0, file.num_tokens), by=(-4, 3))
    axes.set(yscale="log", ylim=(0.8, 2.0 * file.num_tokens), xlim=(-0.5, num_layers - 0.5))
    _plain_numbers(axes, (1,))
    step = max(1, num_layers // 32)
    axes.set_xticks(range(0, num_layers, step), [str(i) for i in file.layers[::step]])
    axes.set_xlabel(f"layer, and in it {num_heads} q heads from left to right")
    axes.set_ylabel(f"tokens per q head, mean of {_plural(queries, 'query', 'queries')}")
    _title(axes, f"Tokens that hold {_percent(mass)} of the attention mass", _name(file))
    _legend(figure)
    return _save(figure, path)


@checked
def attention(
    file: KvFile,
    layer: U32,
    head: U32,
    plan: str | None = None,
    *,
    query: I64 = -1,
    path: Path | None = None,
) -> Figure:
    """Draws the softmax weight of each token that one query of one q head sees, by position. With
    `plan`, marks the tokens that the plan attends to."""
    weights = measure.attention_weights(file, layer, query)
    if not 0 <= head < len(weights):
        raise InvalidArgumentError(f"head {head}: layer {layer} has {len(weights)} q heads")
    token = query % file.num_tokens
    window = file.spec.layers[layer].sliding_window or file.num_tokens
    seen = np.arange(max(0, token + 1 - window), token + 1)
    of_head = weights[head]
    figure, axes = _new(7.2)
    if plan is None:
        groups = [(f"{_plural(len(seen), 'token')}", seen, _BLUE)]
    else:
        chosen = measure.critical_tokens(file, layer, plan, query)
        critical = chosen.critical[head]
        always = chosen.attended[head] & ~critical
        rest = np.setdiff1d(seen, np.flatnonzero(chosen.attended[head]))
        words = "sink and window" if rest.size or critical.any() else "attended to: all"
        groups = [
            ("left out", rest, _GREY),
            (words, np.flatnonzero(always), _GREEN),
            ("critical", np.flatnonzero(critical), _VERMILLION),
        ]
    lowest = max(_FLOOR, float(of_head[seen].min()))
    for i, (label, tokens, color) in enumerate(groups):
        if not tokens.size:
            continue
        if plan is not None:
            label += f": {_plural(tokens.size, 'token')}, {100 * of_head[tokens].sum():.3g} %"
        heights = np.maximum(of_head[tokens], lowest)
        size = (7, 9, 16)[i] if len(seen) <= 4000 else (2, 3, 6)[i]
        axes.scatter(
            file.positions[tokens], heights, size, color, linewidths=0, zorder=2 + i, label=label,
            rasterized=len(seen) > 4000,
        )
    axes.set(yscale="log", ylim=(lowest / 2, 2.0))
    axes.margins(x=0.015)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("position of the token")
    axes.set_ylabel("share of the attention mass")
    what = f"Attention of token {file.positions[token]:,}, layer {layer}, q head {head}"
    _title(axes, what, _name(file) + (f" · {plan}" if plan is not None else ""))
    if plan is not None:
        _legend(figure, "tokens, and their share of the mass")
    return _save(figure, path)


@checked
def plan_errors(
    points: Sequence[PlanError],
    *,
    against: Literal["bytes", "selected"] = "bytes",
    notes: str = "",
    path: Path | None = None,
) -> Figure:
    """Draws the error of plans against the bytes that they read, or against the critical tokens
    that they select (AlayaDB Fig. 6). A line joins plans of one name. ``notes``: text below the
    title."""
    if not points:
        raise InvalidArgumentError("points: expected one or more, found none")
    if against not in ("bytes", "selected"):
        raise InvalidArgumentError(f"against: expected 'bytes' or 'selected', found {against!r}")
    figure, axes = _new(7.2)
    families: dict[str, list[PlanError]] = {}
    labels: list[tuple[float, float, str, str]] = []
    for point in points:
        families.setdefault(point.plan.partition("(")[0].strip(), []).append(point)
    colors = [_BLUE, _VERMILLION, _GREEN, _PURPLE]
    lowest = min((point.error for point in points if point.error > 0), default=1e-6)
    for i, (family, members) in enumerate(families.items()):
        members = sorted(members, key=lambda point: _cost(point, against))
        costs = [_cost(point, against) for point in members]
        errors = [100 * (point.error or lowest / 2) for point in members]
        texts = _differences(members)
        color, marker = colors[i % len(colors)], "osD^v"[i % 5]
        axes.plot(costs, errors, color=color, marker=marker, markersize=5, label=family)
        labels += zip(costs, errors, texts, [color] * len(members), strict=True)
    axes.set_yscale("log")
    axes.margins(x=0.14, y=0.12)
    _plain_numbers(axes, (1, 2, 5))
    axes.set_ylabel("relative error of the output, %")
    if against == "bytes":
        full = points[0].full_bytes_per_token / 2**20
        axes.axvline(full, color=_GREY, linewidth=1, linestyle="--", zorder=1)
        axes.annotate("full", (full, 1), (-4, -12), xycoords=("data", "axes fraction"),
                      textcoords="offset points", ha="right", color=_GREY, fontsize=8)
        axes.set_xlim(left=0)
        axes.set_xlabel("K and V read for one new token, MiB")
    else:
        axes.set_xlabel("critical tokens per q head, beside sink and window")
    title = "Error against bytes" if against == "bytes" else "Error against critical tokens"
    _title(axes, title, notes)
    _legend(figure)
    _label_points(figure, axes, labels)
    return _save(figure, path)


@checked
def physical_plan(
    explain: Explain,
    *,
    show: Literal["bytes", "time"] = "bytes",
    notes: str = "",
    path: Path | None = None,
) -> Figure:
    """Draws the cost of each layer and kv head of a session. The colour shows the bytes or the time
    of the last call; before a run, the prediction. A dot marks heads that read everything."""
    if not explain.layers:
        raise InvalidArgumentError("explain: expected one or more layers, found none")
    if show not in ("bytes", "time"):
        raise InvalidArgumentError(f"show: expected 'bytes' or 'time', found {show!r}")
    has_run = any(layer.num_queries for layer in explain.layers)
    num_heads = max(len(layer.heads) for layer in explain.layers)
    values = np.full((num_heads, len(explain.layers)), np.nan)
    full: list[tuple[int, int]] = []
    for column, layer in enumerate(explain.layers):
        for head in layer.heads:
            if show == "bytes":
                value = (head.bytes_touched if has_run else head.predicted_bytes) / 2**10
            else:
                value = head.time_us if has_run else head.predicted_us
            values[head.kv_head, column] = value
            if head.ran == "full":
                full.append((column, head.kv_head))
    figure, axes = _new(7.2 if len(explain.layers) <= 12 else 11.0, 1.9 + 0.22 * num_heads)
    image = axes.imshow(values, cmap="cividis", vmin=0, aspect="auto", interpolation="nearest")
    label = "KiB read" if show == "bytes" else "microseconds of one thread"
    figure.colorbar(image, ax=axes, label=label if has_run else label + ", predicted")
    if full:
        columns, heads = zip(*full, strict=True)
        axes.scatter(columns, heads, 9, _VERMILLION, linewidths=0, label=f"full: {len(full)}")
    axes.grid(False)
    step = max(1, len(explain.layers) // 32)
    shown = range(0, len(explain.layers), step)
    axes.set_xticks(shown, [str(explain.layers[i].layer) for i in shown])
    axes.set_yticks(range(0, num_heads, max(1, num_heads // 16)))
    axes.set_xlabel("layer")
    axes.set_ylabel("kv head")
    what = f"{explain.num_tokens:,} tokens · {explain.predicted_us / 1e3:,.3g} ms predicted"
    if explain.unreachable:
        what += " · objective unreachable"
    _title(axes, f"Physical plan of {explain.plan}", notes or what)
    if full:
        _legend(figure)
    return _save(figure, path)


@checked
def prefix_hits(
    hits: Sequence[PrefixHit], *, notes: str = "", path: Path | None = None
) -> Figure:
    """Draws, for each prompt, the tokens that a store has and those that the model must run."""
    if not hits:
        raise InvalidArgumentError("hits: expected one or more, found none")
    figure, axes = _new(7.2, 1.6 + 0.3 * min(len(hits), 60))
    rows = np.arange(len(hits))
    reused = np.array([hit.num_reused for hit in hits])
    total = np.array([hit.num_tokens for hit in hits])
    axes.barh(rows, reused, 0.7, color=_BLUE, label=f"reused: {reused.sum():,} tokens")
    rest = total - reused
    axes.barh(rows, rest, 0.7, left=reused, color=_PALE, label=f"to run: {rest.sum():,} tokens")
    for row, hit in zip(rows, hits, strict=True):
        text = f"{hit.num_reused:,} from '{hit.context}'" if hit.num_reused else "none"
        axes.annotate(text, (hit.num_tokens, row), (4, 0), textcoords="offset points",
                      va="center", color=_GREY, fontsize=8)
    axes.set_yticks(rows, [hit.prompt for hit in hits])
    axes.set(ylim=(len(hits) - 0.4, -0.6), xlim=(0, 1.25 * max(1, int(total.max()))))
    axes.grid(False, axis="y")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("tokens of the prompt")
    axes.set_ylabel("prompt")
    share = 100 * reused.sum() / max(1, int(total.sum()))
    _title(axes, f"{share:.0f} % of the prompts' tokens are reused", notes)
    _legend(figure)
    return _save(figure, path)


def _cost(point: PlanError, against: str) -> float:
    return point.bytes_per_token / 2**20 if against == "bytes" else point.selected


def _differences(points: Sequence[PlanError]) -> list[str]:
    """Returns, for each plan of one name, the options in which it differs from the other plans. A
    text names an error of 0, because a logarithmic axis has no place for it."""
    options = [point.plan.partition("(")[2].rstrip(") ").split(",") for point in points]
    common = set.intersection(*map(set, options)) if len(options) > 1 else set()
    texts = [",".join(text for text in of_one if text not in common) for of_one in options]
    return [
        (text or point.plan) + ("" if point.error else ": error 0")
        for text, point in zip(texts, points, strict=True)
    ]


def _label_points(
    figure: Figure, axes: Axes, labels: Sequence[tuple[float, float, str, str]]
) -> None:
    """Writes each ``(x, y, text, color)`` at the corner of its point where the text hides least."""
    figure.draw_without_rendering()  # Fixes the layout, on which places in pixels depend.
    curves = [line.get_transform().transform(line.get_xydata()) for line in axes.get_lines()]
    inked = np.concatenate([_along(curve) for curve in curves])
    for x, y, text, color in labels:
        found: list[tuple[int, int, Annotation, Bbox]] = []
        for right, up in ((1, 1), (-1, -1), (-1, 1), (1, -1)):
            note = axes.annotate(
                text, (x, y), (5 * right, 3 * up), textcoords="offset points", color=color,
                fontsize=8, ha="left" if right > 0 else "right", va="bottom" if up > 0 else "top",
            )
            box = note.get_window_extent()
            hidden = int(box.count_contains(inked))
            found.append((hidden, len(found), note, box))
        _, _, best, box = min(found)
        for _, _, note, _ in found:
            if note is not best:
                note.remove()
        xs, ys = np.meshgrid(np.linspace(box.x0, box.x1, 12), np.linspace(box.y0, box.y1, 6))
        inked = np.concatenate([inked, np.column_stack([xs.ravel(), ys.ravel()])])


def _along(curve: Doubles) -> Doubles:
    """Returns points on the line through [n, 2] corners, in pixels."""
    at = np.linspace(0, len(curve) - 1, 100 * len(curve))
    whole = np.arange(len(curve))
    return np.column_stack([np.interp(at, whole, curve[:, i]) for i in range(2)])


@checked
def tiers(report: SimulateReport, *, notes: str = "", path: Path | None = None) -> Figure:
    """Draws the hit rates of simulated policies. Curves show them against the size of disk, or
    against the size of memory if there is only one size of disk. Bars show them if there is one
    size of each (AttentionStore Fig. 21)."""
    if not report.runs:
        raise InvalidArgumentError("report: expected one or more runs, found none")
    figure, axes = _new(7.2)
    disks = sorted({run.disk_bytes for run in report.runs})
    memories = sorted({run.memory_bytes for run in report.runs})
    if len(disks) == 1 and len(memories) == 1:
        _hit_bars(axes, report.runs)
    else:
        _hit_curves(axes, report.runs, by_disk=len(disks) > 1, others=len(memories))
        _legend(figure)
    axes.set(ylim=(0, 103))
    axes.set_ylabel("turns whose KV was kept, %")
    _title(axes, f"What memory and disk keep of {report.model.name or 'a model'}'s conversations",
           notes or report.workload)
    return _save(figure, path)


def _hit_bars(axes: Axes, runs: Sequence[SimulatedRun]) -> None:
    at = np.arange(len(runs))
    in_memory = [100 * run.memory_hit_rate for run in runs]
    axes.bar(at, in_memory, 0.6, color=_BLUE)
    axes.bar(at, [100 * run.disk_hit_rate for run in runs], 0.6, bottom=in_memory, color=_PALE)
    for x, run in enumerate(runs):
        axes.annotate(f"{100 * run.hit_rate:.1f}", (x, 100 * run.hit_rate), (0, 3),
                      textcoords="offset points", ha="center", color=_GREY, fontsize=8)
    axes.set_xticks(at, [run.policy for run in runs], fontsize=8)
    axes.set_xlabel("policy (blue: hits in memory)")
    axes.grid(False, axis="x")


def _hit_curves(axes: Axes, runs: Sequence[SimulatedRun], *, by_disk: bool, others: int) -> None:
    colours = (_VERMILLION, _GREEN, _PURPLE, _BLUE, _GREY)
    policies = list(dict.fromkeys(run.policy for run in runs))
    curves = dict.fromkeys((run.policy, run.memory_bytes if by_disk else 0) for run in runs)
    for policy, memory in curves:
        points = [run for run in runs
                  if run.policy == policy and memory in (0, run.memory_bytes)]
        sizes = [(run.disk_bytes if by_disk else run.memory_bytes) / 1e9 for run in points]
        label = policy + (f", {memory / 1e9:g} GB of memory" if by_disk and others > 1 else "")
        order = np.argsort(sizes)
        axes.plot(np.array(sizes)[order], 100 * np.array([run.hit_rate for run in points])[order],
                  "o-", markersize=4, color=colours[policies.index(policy) % len(colours)],
                  alpha=0.4 + 0.6 * (memory == max(m for _, m in curves)), label=label)
    axes.set_xlabel(f"{'disk' if by_disk else 'memory'}, GB")
    axes.xaxis.set_major_formatter("{x:,.0f}")


# Parts that all pictures use.


def _new(width: float, height: float = 4.3) -> tuple[Figure, Axes]:
    """Makes a figure of this size in inches, without pyplot."""
    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="#E6E6E6", linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def _plain_numbers(axes: Axes, digits: Sequence[int]) -> None:
    """Labels a logarithmic y axis with 10, not 10^1."""
    axes.yaxis.set_major_locator(LogLocator(subs=digits))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))


def _name(file: KvFile) -> str:
    model = file.notes.get("model") or os.path.basename(file.path)
    return f"{model} · {file.num_tokens:,} tokens"


def _title(axes: Axes, title: str, notes: str) -> None:
    axes.set_title(title, loc="left", fontsize=11, pad=20 if notes else 8)
    if notes:
        axes.text(0, 1.02, notes, transform=axes.transAxes, color=_GREY, fontsize=9)


def _note(axes: Axes, text: str, at: tuple[float, float], by: tuple[float, float]) -> None:
    """Writes a small text to the left of `at`: x in axes' widths, y in data."""
    axes.annotate(text, at, by, xycoords=("axes fraction", "data"), textcoords="offset points",
                  ha="right", color=_GREY, fontsize=8)


def _legend(figure: Figure, title: str | None = None) -> None:
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8.5,
                  markerscale=1.4, columnspacing=1.6, handletextpad=0.4, title=title,
                  title_fontsize=8.5)


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


def _plural(count: int, word: str, many: str | None = None) -> str:
    return f"{count:,} {word if count == 1 else many or word + 's'}"


def _save(figure: Figure, path: Path | None) -> Figure:
    if path is not None:
        figure.savefig(os.fsdecode(path))
    return figure


if __name__ == "__main__":
    from attndb._plot_command import main

    raise SystemExit(main())
