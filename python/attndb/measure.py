"""Measures how many tokens attention needs and what plans cost, from captured K, V and q.

    from attndb import measure

    file = attndb.KvFile("book.safetensors")
    measure.tokens_for_mass(file)              # [num_layers, num_q_heads] tokens for 90 %
    measure.plan_errors(file, ["topk(k=64)", "dipr(alpha=0.012)"])

Rows:    ``queries`` is a number of tokens at the end of the file, which must have their q. Each of
         them sees the tokens up to itself, or its layer's sliding window. A single ``query`` is a
         token's index; a negative index counts from the end.
Arrays:  float64, computed from the file's K and q. ``[num_layers, num_q_heads]`` has the layers in
         the file's order, and NaN where a layer has fewer heads than another layer. Memory holds K
         and V of one layer at a time.
Errors:  InvalidArgumentError: no such layer, no q of such a token, a bad plan or share.
Source:  tokens for a share of the softmax and tokens of DIPR: AlayaDB 6.1 and Fig. 5. Error against
         tokens: AlayaDB Fig. 6.
"""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attndb._arrays import Tokens, token_ids
from attndb._checked import I64, U32, checked
from attndb._custom import CustomIndex
from attndb._db import DB
from attndb._db import open as open_db
from attndb._errors import InvalidArgumentError, UnsupportedError
from attndb._kv_file import Floats, KvFile
from attndb._results import Substitute
from attndb._spec import LayerSpec, ModelSpec

__all__ = [
    "PlanError",
    "PrefixHit",
    "Selection",
    "attention_weights",
    "critical_tokens",
    "dipr_tokens",
    "plan_errors",
    "prefix_hits",
    "tokens_for_mass",
]


def __dir__() -> list[str]:
    """The names that completion offers, without the modules that this module imports."""
    return __all__


Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Rows of q that are scored at a time. Their scores for one group take 64 MiB at 128K tokens.
_ROWS_AT_ONCE = 16

_OPTIONS: dict[str, set[str]] = {  # Options of canonical plans.
    "full": set(),
    "window": {"sink", "window"},
    "topk": {"k", "sink", "window"},
    "dipr": {"alpha", "beta", "sink", "window"},
    "mass": {"p", "sink", "window"},
}


@dataclass(frozen=True, eq=False)
class Selection:
    """The tokens that one query attends to under a plan. Flags are [num_q_heads, num_tokens]."""

    plan: str  # Canonical plan text of the layer.
    attended: Flags  # Sink, window and critical tokens; under `full`, all visible tokens.
    critical: Flags  # Tokens of the middle that the plan selected.


@dataclass(frozen=True)
class PlanError:
    """The cost and the error of a plan against `full`, over rows, heads and layers of a file."""

    plan: str  # The plan text as given.
    error: float  # Mean over q heads, rows and layers of |out - out of full| / |out of full|.
    # K and V bytes read for one new token, in all the file's layers together.
    bytes_per_token: float
    full_bytes_per_token: float  # The bytes that `full` reads for such a token.
    selected: float  # Critical tokens per q head and row, in layers without a sliding window.
    # As in LayerExplain: the plan text that ran, by layer of the file, and the parts of the plan
    # that did not run, or not for all tokens.
    ran: tuple[str, ...]
    substitutes: tuple[Substitute, ...]
    by_head: Doubles = field(repr=False, compare=False)  # [num_layers, num_q_heads] of `error`.


@dataclass(frozen=True)
class PrefixHit:
    """How much of a prompt a store has."""

    prompt: str  # Its name, or its number from 0.
    num_tokens: int
    num_reused: int  # At most num_tokens - 1: one token is left for the engine.
    context: str  # The context that is reused, by name or "#id"; empty if none is.


@checked
def attention_weights(file: KvFile, layer: U32, query: I64 = -1) -> Doubles:
    """Returns the softmax weights [num_q_heads, num_tokens] of one captured query.

    Tokens that the query does not see weigh 0. The weights are causal, with the layer's scale, soft
    cap, sliding window and denominators. In a layer with denominators the weights sum to less than
    1, because the denominators take the rest.
    """
    row = _row(file, query)
    shape = _shape(file, layer)
    weights = np.zeros((shape.num_q_heads, file.num_tokens))
    for first_head, scores in _scores(file, layer, range(row, row + 1)):
        heads = slice(first_head, first_head + scores.shape[1])
        extra = shape.denominator_logits
        denominators = None if extra is None else np.asarray(extra[heads], np.float64)[:, None]
        weights[heads, : row + 1] = _softmax(_logits(shape, scores), denominators)[0]
    return weights


@checked
def tokens_for_mass(file: KvFile, mass: float = 0.9, queries: U32 = 16) -> Doubles:
    """Counts the tokens of largest weight that together hold the share `mass` of all weights.

    Returns [num_layers, num_q_heads]: means over the last `queries` rows. A count is at least 1."""
    if not 0.0 < mass <= 1.0:
        raise InvalidArgumentError(f"mass: expected more than 0 and at most 1, found {mass}")

    def count(shape: LayerSpec, scores: Doubles) -> Doubles:
        ascending = np.sort(_softmax(_logits(shape, scores)), axis=-1)
        held = np.cumsum(ascending[..., ::-1], axis=-1)
        short = held < mass * held[..., -1:]  # False at the last token, whatever the rounding.
        return np.asarray(np.count_nonzero(short, axis=-1) + 1.0, np.float64)

    return _by_head(file, queries, count)


@checked
def dipr_tokens(
    file: KvFile, *, alpha: float | None = None, beta: float | None = None, queries: U32 = 16
) -> Doubles:
    """Counts the tokens whose score is within `beta` of the row's largest score.

    Returns [num_layers, num_q_heads]: means over the last `queries` rows. `beta` is a margin of
    unscaled scores; ``alpha`` stands for beta = -ln(alpha) / scale. All visible tokens count, also
    those that a plan would read as sink and window.
    """
    if (alpha is None) == (beta is None):
        raise InvalidArgumentError("dipr_tokens: expected one of alpha and beta")
    if alpha is not None and not 0.0 < alpha <= 1.0:
        raise InvalidArgumentError(f"alpha: expected more than 0 and at most 1, found {alpha}")
    if beta is not None and not beta >= 0.0:
        raise InvalidArgumentError(f"beta: expected 0 or more, found {beta}")

    def count(shape: LayerSpec, scores: Doubles) -> Doubles:
        least = scores.max(axis=-1, keepdims=True) - _margin(shape, alpha, beta)
        return np.asarray(np.count_nonzero(scores >= least, axis=-1), np.float64)

    return _by_head(file, queries, count)


@checked
def critical_tokens(file: KvFile, layer: U32, plan: str, query: I64 = -1) -> Selection:
    """Returns the tokens that one captured query of `layer` attends to under `plan`.

    This function computes in float64 by the rules of docs/plan.md. A session may select another
    token if two scores differ by rounding only. Raises UnsupportedError for a kind of query that
    this function does not know.
    """
    row = _row(file, query)
    shape = _shape(file, layer)
    with tempfile.TemporaryDirectory() as folder, open_db(folder) as db:
        text = _layer_plan(db, file.spec, plan, layer)
    name, options = _parse(text)
    sink, window = int(options.get("sink", 0)), int(options.get("window", 0))
    end = row + 1
    seen = slice(max(0, end - (shape.sliding_window or end)), end)
    is_full = name == "full" or bool(shape.sliding_window) or end <= sink + window
    k, v = file.read_kv(layer, 0, end)
    heads = range(shape.num_kv_heads)
    is_finite = [bool(np.isfinite(k[:, h]).all() and np.isfinite(v[:, h]).all()) for h in heads]
    attended = np.zeros((shape.num_q_heads, file.num_tokens), np.bool_)
    critical = np.zeros_like(attended)
    for first_head, scores in _scores(file, layer, range(row, end)):
        runs_plan = not is_full and is_finite[first_head // scores.shape[1]]
        for head, of_head in enumerate(scores[0], first_head):
            if not runs_plan:
                attended[head, seen] = True
                continue
            middle = slice(sink, end - window)
            critical[head, middle] = _choose(name, options, shape, of_head, of_head[middle])
            attended[head, :end] = critical[head, :end]
            attended[head, :sink] = attended[head, end - window : end] = True
    return Selection(text, attended, critical)


@checked
def plan_errors(
    file: KvFile,
    plans: Iterable[str],
    queries: U32 = 16,
    custom_indexes: Mapping[str, CustomIndex] | None = None,
) -> list[PlanError]:
    """Measures the error and the bytes of each plan.

    Sessions of a temporary store replay the last `queries` tokens one by one, layer by layer, under
    the plan and under `full`. Layer numbers in plans are the model's, even if the file has only
    some layers. `auto` decides by fixed prices and one thread computes, so that every run is alike.
    The function waits for the indexes and planes that a plan reads before the first token; under
    plans with ``await=1`` it waits before each token. ``custom_indexes``: see :func:`attndb.open`.

    Raises UnsupportedError for a plan whose index can't be built, for example because the file has
    too few tokens: the figures would be those of a scan. ``substitutes`` lists other parts of a
    plan that did not run.
    """
    rows = _rows(file, queries)
    plans = list(plans)
    by_layer: list[list[_Replay]] = []  # [layer][plan]; `full` is the last plan.
    with (
        tempfile.TemporaryDirectory() as folder,
        open_db(
            os.path.join(folder, "store"), num_threads=1, measure_machine=False,
            custom_indexes=custom_indexes,
        ) as db,
    ):
        texts = [[_layer_plan(db, file.spec, plan, i) for i in file.layers] for plan in plans]
        for i, layer in enumerate(file.layers):
            layer_plans = [of_plan[i] for of_plan in texts]
            by_layer.append(_replay_layer(db, file, layer, rows, [*layer_plans, "full"]))
    full = [replays[-1] for replays in by_layer]
    full_bytes = sum(replay.num_bytes for replay in full)
    searched = [i for i, layer in enumerate(file.layers) if not _shape(file, layer).sliding_window]
    results = []
    for p, plan in enumerate(plans):
        replays = [of_layer[p] for of_layer in by_layer]
        errors = [_error(ours.out, theirs.out) for ours, theirs in zip(replays, full, strict=True)]
        by_head = _table(errors)
        results.append(
            PlanError(
                plan=plan,
                error=float(np.nanmean(by_head)),
                bytes_per_token=sum(replay.num_bytes for replay in replays),
                full_bytes_per_token=full_bytes,
                selected=float(np.mean([replays[i].selected for i in searched] or [0.0])),
                ran=tuple(replay.ran for replay in replays),
                substitutes=_merged([replays[i].substitutes for i in searched]),
                by_head=by_head,
            )
        )
    return results


@checked
def prefix_hits(
    db: DB, spec: ModelSpec, prompts: Sequence[Tokens] | Mapping[str, Tokens]
) -> list[PrefixHit]:
    """Tells how much of each prompt ``db.create_session(spec, prompt)`` would reuse now, and from
    which context. Changes no access time."""
    named: Iterable[tuple[Any, Tokens]] = (
        prompts.items() if isinstance(prompts, Mapping) else enumerate(prompts)
    )
    hits = []
    for name, prompt in named:
        found = db.explain_prefix(spec, token_ids(prompt))
        context = found.context if found.num_reused else ""
        hits.append(PrefixHit(str(name), found.num_prompt_tokens, found.num_reused, context))
    return hits


# The file's rows.


def _shape(file: KvFile, layer: int) -> LayerSpec:
    if layer not in file.layers:
        raise InvalidArgumentError(f"{file.path}: layer {layer}: the file has {file.layers}")
    return file.spec.layers[layer]


def _rows(file: KvFile, queries: int) -> range:
    """Returns the indices of the file's last `queries` tokens, whose q the file must have."""
    if not file.num_queries:
        raise InvalidArgumentError(
            f"{file.path}: the file has no q, which captures have: attndb capture makes one"
        )
    if not 1 <= queries <= file.num_queries:
        raise InvalidArgumentError(
            f"{file.path}: expected 1 to {file.num_queries} queries, which the file has q of, "
            f"found {queries}"
        )
    return range(file.num_tokens - queries, file.num_tokens)


def _row(file: KvFile, query: int) -> int:
    first = _rows(file, file.num_queries).start
    row = query + file.num_tokens if query < 0 else query
    if not first <= row < file.num_tokens:
        raise InvalidArgumentError(
            f"{file.path}: query {query}: the file has q of tokens [{first}, {file.num_tokens})"
        )
    return row


# Scores and softmax.


def _scale(shape: LayerSpec) -> float:
    return shape.scale or 1.0 / math.sqrt(shape.head_dim)


def _margin(shape: LayerSpec, alpha: float | None, beta: float | None) -> float:
    """Returns the margin of unscaled scores from alpha or from beta, one of which is given."""
    return -math.log(alpha) / _scale(shape) if alpha is not None else beta or 0.0


def _scores(file: KvFile, layer: int, rows: range) -> Iterator[tuple[int, Doubles]]:
    """Yields, for each group of q heads and some rows at a time, the group's first head and its
    unscaled scores q.k ``[rows, group_size, rows.stop]``; -inf for tokens that no row sees."""
    shape = _shape(file, layer)
    group = shape.num_q_heads // shape.num_kv_heads
    q = file.read_queries(layer, rows.start, rows.stop)
    keys, _ = file.read_kv(layer, 0, rows.stop)
    tokens = np.arange(rows.stop)
    for kv_head in range(shape.num_kv_heads):
        k = keys[:, kv_head].astype(np.float64)
        heads = slice(kv_head * group, (kv_head + 1) * group)
        for begin in range(0, len(q), _ROWS_AT_ONCE):
            some = q[begin : begin + _ROWS_AT_ONCE, heads].astype(np.float64)
            ages = (rows.start + begin + np.arange(len(some)))[:, None] - tokens
            unseen = (ages < 0) | (ages >= (shape.sliding_window or rows.stop))
            scores = some @ k.T
            scores[np.broadcast_to(unseen[:, None], scores.shape)] = -np.inf
            yield heads.start, scores


def _logits(shape: LayerSpec, scores: Doubles) -> Doubles:
    logits = scores * _scale(shape)
    if shape.soft_cap:
        logits = shape.soft_cap * np.tanh(logits / shape.soft_cap)
        logits[scores == -np.inf] = -np.inf
    return logits


def _softmax(logits: Doubles, denominators: Doubles | None = None) -> Doubles:
    """Returns softmax weights. denominators: [heads, 1], one logit per head in the sum only."""
    extra = np.full((1, 1), -np.inf) if denominators is None else denominators
    most = np.maximum(logits.max(axis=-1, keepdims=True), extra)
    weights = np.exp(logits - most)
    return np.asarray(weights / (weights.sum(axis=-1, keepdims=True) + np.exp(extra - most)))


def _by_head(
    file: KvFile, queries: int, count: Callable[[LayerSpec, Doubles], Doubles]
) -> Doubles:
    """Mean over rows of ``count(layer spec, scores) -> [rows, heads]``, for each layer and head."""
    rows = _rows(file, queries)
    means = []
    for layer in file.layers:
        shape = _shape(file, layer)
        sums = np.zeros(shape.num_q_heads)
        for first_head, scores in _scores(file, layer, rows):
            sums[first_head : first_head + scores.shape[1]] += count(shape, scores).sum(axis=0)
        means.append(sums / len(rows))
    return _table(means)


def _table(rows: Sequence[Doubles]) -> Doubles:
    table = np.full((len(rows), max(len(row) for row in rows)), np.nan)
    for line, row in zip(table, rows, strict=True):
        line[: len(row)] = row
    return table


# Plans.


def _layer_plan(db: DB, spec: ModelSpec, plan: str, layer: int) -> str:
    """Returns the canonical text of `plan` in one layer, with all its options."""
    with db.create_session(spec, [0], reuse=False, plan=plan).session as session:
        return session.explain(layer).plan


def _parse(text: str) -> tuple[str, dict[str, float]]:
    """Returns the name and the options of a canonical layer plan."""
    name, _, rest = text.partition("(")
    pairs = re.findall(r"(\w+)=([^,)]+)", rest)
    strange = {key for key, _ in pairs} - _OPTIONS.get(name, set())
    if name not in _OPTIONS or strange:
        raise UnsupportedError(f"plan '{text}': attndb.measure doesn't know which tokens it takes")
    return name, {key: float(value) for key, value in pairs}


def _choose(
    name: str, options: Mapping[str, float], shape: LayerSpec, scores: Doubles, middle: Doubles
) -> Flags:
    """Flags the critical tokens of `middle`, which is a part of `scores`."""
    chosen = np.zeros(len(middle), np.bool_)
    if name == "topk":
        chosen[np.argsort(-middle, kind="stable")[: int(options["k"])]] = True
    elif name == "dipr":
        margin = _margin(shape, options.get("alpha"), options.get("beta"))
        chosen = middle >= scores.max() - margin
    elif name == "mass":
        logits = _logits(shape, scores)
        weights = np.exp(_logits(shape, middle) - logits.max())
        total = np.exp(logits - logits.max()).sum()
        need = options["p"] * total - (total - weights.sum())
        order = np.argsort(-weights, kind="stable")
        before = np.cumsum(weights[order]) - weights[order]
        chosen[order[before < need]] = True
    return chosen


@dataclass
class _Replay:
    """The results of one layer under one plan, whose rows ran one by one."""

    out: Floats  # [rows, num_q_heads, v_head_dim]
    num_bytes: float  # Bytes read per row.
    selected: float
    ran: str
    substitutes: tuple[Substitute, ...]


def _replay_layer(
    db: DB, file: KvFile, layer: int, rows: range, plans: Sequence[str]
) -> list[_Replay]:
    """Replays a layer as a model of one layer. The tokens before `rows` are stored first."""
    spec = ModelSpec([_shape(file, layer)], file.spec.kv_dtype, file.spec.fingerprint)
    k, v = file.read_kv(layer)
    q = file.read_queries(layer, rows.start, rows.stop)
    stored = rows.start
    context = None
    if stored:
        context = db.import_context(spec, file.tokens[:stored], [(k[:stored], v[:stored])])
    replays = []
    for plan in plans:
        start = db.create_session(
            spec, file.tokens, context=context, reuse=bool(stored), plan=plan
        )
        with start.session as session:
            if not spec.layers[0].sliding_window:
                session.await_derived(0)
            _check_built(plan, session.explain(0).substitutes)
            out, num_bytes = [], 0
            for row, of_row in zip(rows, q, strict=True):
                session.append(0, k[row : row + 1], v[row : row + 1])
                if session.awaits_derived(0):
                    session.await_derived(0)
                out.append(session.attend(0, of_row[None])[0])
                num_bytes += session.explain(0).bytes_touched
            last = session.explain(0)
        replays.append(
            _Replay(
                np.stack(out), num_bytes / len(rows), last.selected_mean, last.ran, last.substitutes
            )
        )
    if context is not None:
        db.drop(context)
    return replays


def _check_built(plan: str, substitutes: Sequence[Substitute]) -> None:
    """Raises UnsupportedError if a scan ran instead of an index, so that no figures of a scan stand
    under the name of an index."""
    missing: dict[str, float] = {}
    for each in substitutes:
        if each.because.startswith("too few tokens") or each.because in ("not built", "no memory"):
            missing[each.wanted] = missing.get(each.wanted, 0.0) + each.share
            if missing[each.wanted] > 1 - 1e-6:
                raise UnsupportedError(f"plan '{plan}' can't be measured: {each}")


def _merged(of_layers: Sequence[Sequence[Substitute]]) -> tuple[Substitute, ...]:
    """Merges equal substitutes of several layers into one, with the share of all these layers."""
    merged: dict[tuple[str, str, str], float] = {}
    for each in (each for of_layer in of_layers for each in of_layer):
        key = (each.ran, each.wanted, each.because)
        merged[key] = merged.get(key, 0.0) + each.share / len(of_layers)
    return tuple(
        Substitute(*key, share=share, text=f"{key[0]} instead of {key[1]}: {key[2]}")
        for key, share in sorted(merged.items(), key=lambda item: -item[1])
    )


def _error(out: Floats, full: Floats) -> Doubles:
    """Returns [num_q_heads]: the relative norm of the difference, a mean over rows."""
    wanted = np.linalg.norm(full.astype(np.float64), axis=-1)
    off = np.linalg.norm(out.astype(np.float64) - full, axis=-1)
    ratios = np.divide(off, wanted, out=np.where(off > 0, np.inf, 0.0), where=wanted > 0)
    return np.asarray(ratios.mean(axis=0))
