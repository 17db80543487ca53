"""Methods as published, through Python, against loops in numpy that know nothing of attndb: static
tokens of the prompt, AlayaDB's Algorithm 1, and its rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import attndb
from core_steps import HEAD_DIM, NUM_KV_HEADS, NUM_LAYERS, NUM_Q_HEADS, Steps

GROUP = NUM_Q_HEADS // NUM_KV_HEADS
SINK, WINDOW = 4, 20
WEIGHING = 64  # Rows of q that rank a prompt's tokens.
Selects = Callable[[np.ndarray, int], np.ndarray]


@pytest.fixture
def sampled(tmp_path: Path) -> Iterator[attndb.DB]:
    """Stores all rows of q with the keys."""
    with attndb.open(tmp_path / "sampled", query_sample=GROUP) as opened:
        yield opened


def resumed(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps, plan: str, build: str = ""
) -> attndb.Session:
    """Holds all of the steps' tokens, of which all but the last are stored."""
    num_stored = len(steps.ids) - 1
    session, _ = db.create_session(spec, steps.ids[:num_stored])
    steps.run(session, 0, num_stored)
    stored = db.store(session, steps.ids[:num_stored])
    if build:
        assert db.build(stored, build).num_built == 1
    session.set_plan(plan)
    return session


def scores_of(steps: Steps, layer: int, head: int) -> np.ndarray:
    """Of the last token's q with all keys, in float64."""
    q = steps.q[layer, -1, head].astype(np.float64)
    return np.asarray(steps.k[layer, :, head // GROUP].astype(np.float64) @ q)


def attended(steps: Steps, layer: int, selects: Selects) -> np.ndarray:
    """Attention of the last token over those that selects(scores, kv_head) gives."""
    rows = []
    for head in range(NUM_Q_HEADS):
        scores = scores_of(steps, layer, head)
        tokens = selects(scores, head // GROUP)
        logits = scores[tokens] / np.sqrt(HEAD_DIM)
        weights = np.exp(logits - logits.max())
        rows.append(weights / weights.sum() @ steps.v[layer, tokens, head // GROUP])
    return np.stack(rows)


def weighed_most(steps: Steps, layer: int, kv_head: int, num_stored: int) -> np.ndarray:
    """Tokens by what the last rows of q of the stored prompt weighed them, heaviest first."""
    weights = np.zeros(num_stored)
    heads = slice(kv_head * GROUP, (kv_head + 1) * GROUP)
    q = steps.q[layer, :num_stored, heads].reshape(-1, HEAD_DIM).astype(np.float64)
    keys = steps.k[layer, :num_stored, kv_head].astype(np.float64)
    for row in range(len(q) - WEIGHING, len(q)):
        seen = row // GROUP + 1
        of_row = np.exp(keys[:seen] @ q[row] / np.sqrt(HEAD_DIM))
        weights[:seen] += of_row / of_row.sum()
    return np.argsort(-weights)


@pytest.mark.parametrize("num_static", [40, 200])
@pytest.mark.parametrize("index", ["", ",index=graph"])
def test_static_tokens_are_those_that_the_last_queries_weighed_most(
    sampled: attndb.DB, spec: attndb.ModelSpec, num_static: int, index: str
) -> None:
    steps = Steps(301)
    plan = f"topk(k=9{index},sink={SINK},window={WINDOW},static=prefill:{num_static})"
    session = resumed(sampled, spec, steps, plan, build="static=prefill")
    out = steps.run(session, 300, 301)
    middle = np.arange(SINK, 301 - WINDOW)
    for layer in range(NUM_LAYERS):

        def selects(scores: np.ndarray, kv_head: int, layer: int = layer) -> np.ndarray:
            ranked = weighed_most(steps, layer, kv_head, 300)
            static = ranked[np.isin(ranked, middle)][:num_static]
            others = np.setdiff1d(middle, static)
            best = others[np.argsort(-scores[others])[:9]]
            return np.concatenate([np.arange(SINK), static, best, np.arange(301 - WINDOW, 301)])

        np.testing.assert_allclose(out[layer, 0], attended(steps, layer, selects), atol=1e-5)
        assert session.explain().layers[layer].selected_mean == 9


@pytest.mark.parametrize("index", ["graph", "roargraph"])
def test_algorithm_1_finds_the_exact_range_with_a_list_of_all_keys(
    sampled: attndb.DB, spec: attndb.ModelSpec, index: str
) -> None:
    steps = Steps(2101)
    plan = f"dipr(beta=4,index={index},walk=diprs,l0={{}},sink={SINK},window={WINDOW})"
    session = resumed(sampled, spec, steps, plan.format(4096), build=index)
    steps.run(session, 2100, 2101)
    missed = 0
    for layer in range(NUM_LAYERS):
        q = steps.q[layer, -1:]
        session.set_plan(plan.format(4096))
        session.attend(layer, q)
        assert session.explain().layers[layer].heads[0].visited_mean > 0
        found = session.search(layer, q)
        session.set_plan(plan.format(1))
        narrow = session.search(layer, q)
        for head in range(NUM_Q_HEADS):
            scores = scores_of(steps, layer, head)
            middle = np.arange(SINK, 2101 - WINDOW)
            exact = middle[scores[middle] >= scores.max() - 4]
            assert set(found[head].tokens) == set(exact)
            by_token = np.argsort(found[head].tokens)
            np.testing.assert_allclose(found[head].scores[by_token], scores[exact], atol=1e-4)
            missed += len(set(exact) - set(narrow[head].tokens))
    assert missed > 0, "l0 makes no difference"


def test_rules_of_alaya_attend_to_what_they_say(db: attndb.DB, spec: attndb.ModelSpec) -> None:
    def all_tokens(scores: np.ndarray, kv_head: int) -> np.ndarray:
        return np.arange(len(scores))

    def in_range(scores: np.ndarray, kv_head: int) -> np.ndarray:
        """dipr(alpha=0.012,sink=128,window=512,tail=exact), of a tail of one token."""
        margin = -np.log(0.012) * np.sqrt(HEAD_DIM)
        tokens = np.arange(len(scores))
        fixed = (tokens < 128) | (tokens >= len(scores) - 513)
        return tokens[fixed | (scores >= scores.max() - margin)]

    steps = Steps(4501)
    session = resumed(db, spec, steps, "auto(rules=alaya)")
    num_before = session.num_tokens
    for plan, reason, selects in (
        ("auto(rules=alaya,memory=1)", "memory", all_tokens),
        ("auto(rules=alaya,memory=0.0000001)", "DIPR", in_range),
    ):
        session.set_plan(plan)
        out = steps.run(session, 4500, 4501)
        explain = session.explain()
        for layer in range(NUM_LAYERS):
            assert reason in explain.layers[layer].reason
            np.testing.assert_allclose(out[layer, 0], attended(steps, layer, selects), atol=1e-5)
        session.crop(num_before)
    short = Steps(301)
    short.ids += 10000  # Another prompt: nothing of it is stored.
    session = resumed(db, spec, short, "auto(rules=alaya,memory=0.0000001)")
    out = short.run(session, 300, 301)
    assert session.explain().layers[0].reason == "Fig. 8: short context: full"
    np.testing.assert_allclose(out[0, 0], attended(short, 0, all_tokens), atol=1e-5)
