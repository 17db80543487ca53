"""Sessions: attention agrees with numpy in float64, whatever the arrays; nothing is copied."""

from __future__ import annotations

import gc
import threading
import tracemalloc
import warnings
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import attndb
from core_steps import HEAD_DIM, NUM_KV_HEADS, NUM_LAYERS, NUM_Q_HEADS, Steps

CLOSE: dict[str, Any] = {"rtol": 0, "atol": 1e-5}


def test_attends_as_numpy_does_in_float64(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    session, rest = db.create_session(spec, steps.ids)
    assert len(rest) == 90 and session.num_reused == 0
    for begin, end in [(0, 40), (40, 41), (41, 90)]:
        for layer in range(NUM_LAYERS):
            session.append(layer, steps.k[layer, begin:end], steps.v[layer, begin:end])
            out, lse = session.attend(layer, steps.q[layer, begin:end], return_lse=True)
            expected_out, expected_lse = steps.expected(layer, begin, end)
            np.testing.assert_allclose(out, expected_out, **CLOSE)
            np.testing.assert_allclose(lse, expected_lse, **CLOSE)
    assert session.num_tokens == len(session) == 90


def test_denominator_logits_weigh_and_are_part_of_the_identity(
    tmp_path: Path, steps: Steps
) -> None:
    """The tokens' lse is 4 or so."""
    logits = (-3.0, 0.5, 2.0, 3.25, 4.0, 6.0)

    def make_spec(last: float | None) -> attndb.ModelSpec:
        layers = [
            attndb.LayerSpec(
                NUM_Q_HEADS,
                NUM_KV_HEADS,
                HEAD_DIM,
                denominator_logits=None if last is None else (*logits[:-1], last),
            )
        ] * NUM_LAYERS
        return attndb.ModelSpec(layers, "float32", b"model")

    spec = make_spec(6.0)
    with attndb.open(tmp_path / "store") as db:
        session, _ = db.create_session(spec, steps.ids)
        steps.run(session, 0, 77)
        db.store(session, steps.ids[:77])
        assert session.spec.layers[1].denominator_logits == logits
    with attndb.open(tmp_path / "store") as db:
        session, _ = db.create_session(spec, steps.ids)
        assert session.num_reused == 77
        for layer in range(NUM_LAYERS):
            session.append(layer, steps.k[layer, 77:], steps.v[layer, 77:])
            out, lse = session.attend(layer, steps.q[layer, 77:], return_lse=True)
            expected_out, expected_lse = steps.expected(layer, 77, 90, logits)
            np.testing.assert_allclose(out, expected_out, **CLOSE)
            np.testing.assert_allclose(lse, expected_lse, **CLOSE)
        for last in (None, 6.0001):
            assert db.create_session(make_spec(last), steps.ids).session.num_reused == 0


def test_the_stored_prefix_gives_the_same_bits_in_another_open(
    tmp_path: Path, spec: attndb.ModelSpec, steps: Steps
) -> None:
    with attndb.open(tmp_path / "store") as db:
        session, _ = db.create_session(spec, steps.ids)
        first = steps.run(session, 0, 77)
        context = db.store(session, steps.ids[:77], name="book")
        assert session.context_id == context and session.num_reused == 77
        last = steps.run(session, 77, 90)
    with attndb.open(tmp_path / "store", read_only=True) as db:
        session, rest = db.create_session(spec, steps.ids)
        assert session.num_reused == 77
        np.testing.assert_array_equal(rest, steps.ids[77:])
        np.testing.assert_array_equal(steps.run(session, 77, 90), last)
    assert first.shape == (NUM_LAYERS, 77, NUM_Q_HEADS, HEAD_DIM)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_takes_torch_tensors_of_each_dtype(db: attndb.DB, steps: Steps, dtype: torch.dtype) -> None:
    kv_dtype: Any = str(dtype).removeprefix("torch.")
    spec = attndb.ModelSpec.uniform(
        NUM_LAYERS, NUM_Q_HEADS, NUM_KV_HEADS, HEAD_DIM, kv_dtype=kv_dtype, fingerprint=b"t"
    )
    session, _ = db.create_session(spec, steps.ids)
    k, v, q = (torch.from_numpy(rows).to(dtype) for rows in (steps.k, steps.v, steps.q))
    out = None
    for layer in range(NUM_LAYERS):
        session.append(layer, k[layer], v[layer])
        out = session.attend(layer, q[layer])
        assert isinstance(out, torch.Tensor) and out.dtype == dtype
    rounded = Steps(90)
    rounded.q, rounded.k, rounded.v = (x.float().numpy() for x in (q, k, v))
    expected, _ = rounded.expected(NUM_LAYERS - 1, 0, 90)
    assert out is not None
    # The output is rounded to `dtype` once: half a unit in the last place of values below 4.
    tolerance = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    np.testing.assert_allclose(out.float().numpy(), expected, rtol=0, atol=tolerance)


def test_takes_views_of_any_strides(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    session, _ = db.create_session(spec, steps.ids)
    for layer in range(NUM_LAYERS):
        # [heads, tokens, dim] in memory, as Hugging Face has it; every second channel of another.
        heads_first = np.ascontiguousarray(steps.k[layer].transpose(1, 0, 2)).transpose(1, 0, 2)
        wide = np.full((90, NUM_KV_HEADS, 2 * HEAD_DIM), np.nan, np.float32)
        wide[:, :, ::2] = steps.v[layer]
        session.append(layer, heads_first, wide[:, :, ::2])
        backwards = np.ascontiguousarray(steps.q[layer][::-1])[::-1]
        out = session.attend(layer, torch.from_numpy(np.ascontiguousarray(backwards)))
        np.testing.assert_allclose(out.numpy(), steps.expected(layer, 0, 90)[0], **CLOSE)
        np.testing.assert_array_equal(session.attend(layer, backwards), out.numpy())


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_writes_into_the_callers_array(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps, library: str
) -> None:
    session, _ = db.create_session(spec, steps.ids)
    wide = np.zeros((90, NUM_Q_HEADS, HEAD_DIM + 3), np.float32)
    out: Any = wide[:, :, :HEAD_DIM]
    if library == "torch":
        out = torch.from_numpy(wide)[:, :, :HEAD_DIM]
    session.append(0, steps.k[0], steps.v[0])
    result = session.attend(0, steps.q[0], out=out)
    assert result is out
    np.testing.assert_allclose(wide[:, :, :HEAD_DIM], steps.expected(0, 0, 90)[0], **CLOSE)
    assert not wide[:, :, HEAD_DIM:].any()


def test_copies_neither_inputs_nor_outputs(db: attndb.DB) -> None:
    """64 MiB go through append and 16 MiB through attend; Python's heap grows by a few KiB."""
    spec = attndb.ModelSpec.uniform(1, 8, 8, 128, kv_dtype="float32", fingerprint=b"big")
    num_tokens = 8192
    k = np.ones((num_tokens, 8, 128), np.float32)
    q, out = k[:512], np.empty((512, 8, 128), np.float32)
    session, _ = db.create_session(spec, range(num_tokens))
    tracemalloc.start()
    try:
        session.append(0, k, k)
        assert session.attend(0, q, out=out) is out
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 1024
    np.testing.assert_allclose(out, 1, rtol=1e-5)


def test_update_and_attention_are_a_dynamic_cache_and_flash_attention(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    session, _ = db.create_session(spec, steps.ids)
    for begin, end in [(0, 30), (30, 31)]:
        for layer in range(NUM_LAYERS):
            q, k, v = (x[layer, begin:end] for x in (steps.q, steps.k, steps.v))
            all_k, all_v = session.update(q, k, v, layer, return_kv=True)
            np.testing.assert_array_equal(all_k, steps.k[layer, :end])
            np.testing.assert_array_equal(all_v, steps.v[layer, :end])
            out = session.attention(q, layer)
            np.testing.assert_allclose(out, steps.expected(layer, begin, end)[0], **CLOSE)
    assert session.update(steps.q[0, 31:32], steps.k[0, 31:32], steps.v[0, 31:32], 0) is None
    session.crop(31)
    k, _ = session.read_kv(1, 5, 9)
    np.testing.assert_array_equal(k, steps.k[1, 5:9])


def test_crop_fork_and_reset(db: attndb.DB, spec: attndb.ModelSpec, steps: Steps) -> None:
    session, _ = db.create_session(spec, steps.ids)
    steps.run(session, 0, 60)
    fork = session.fork()
    session.crop(20)
    assert (len(session), len(fork)) == (20, 60)
    out = steps.run(fork, 60, 90)
    np.testing.assert_allclose(out[1], steps.expected(1, 60, 90)[0], **CLOSE)
    out = steps.run(session, 20, 90)
    np.testing.assert_allclose(out[1], steps.expected(1, 20, 90)[0], **CLOSE)
    fork.reset()
    assert len(fork) == 0


def test_attend_batch_is_attend_on_each(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    sessions = [start.session for start in db.create_session(spec, [[1, 2], [3, 4, 5]])]
    for session, length in zip(sessions, (10, 25), strict=True):
        session.append(0, steps.k[0, :length], steps.v[0, :length])
    q = np.concatenate([steps.q[0, :10], steps.q[0, :25]])
    out, lse = attndb.attend_batch(sessions, [10, 25], 0, q, return_lse=True)
    np.testing.assert_allclose(out[:10], steps.expected(0, 0, 10)[0], **CLOSE)
    np.testing.assert_allclose(out[10:], steps.expected(0, 0, 25)[0], **CLOSE)
    np.testing.assert_allclose(lse[10:], steps.expected(0, 0, 25)[1], **CLOSE)


def test_attend_batch_tells_each_sessions_error(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    sessions = [start.session for start in db.create_session(spec, [[1, 2], [3, 4, 5]])]
    sessions[0].append(0, steps.k[0, :10], steps.v[0, :10])
    q = np.concatenate([steps.q[0, :10], steps.q[0, :2]])
    errors: list[attndb.Error | None] = []
    out = attndb.attend_batch(sessions, [10, 2], 0, q, errors=errors)
    np.testing.assert_allclose(out[:10], steps.expected(0, 0, 10)[0], **CLOSE)
    assert errors[0] is None
    assert isinstance(errors[1], attndb.InvalidArgumentError)
    with pytest.raises(attndb.InvalidArgumentError, match="session 1 of the batch"):
        attndb.attend_batch(sessions, [10, 2], 0, q)


def test_parts_of_one_attend_run_on_threads(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    session, _ = db.create_session(spec, steps.ids)
    session.append(0, steps.k[0], steps.v[0])
    out = np.empty_like(steps.q[0])

    def part(index: int) -> None:
        session.attend_part(0, steps.q[0], out, None, index, 3)

    threads = [threading.Thread(target=part, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_allclose(out, steps.expected(0, 0, 90)[0], **CLOSE)


def test_a_part_may_give_a_temporary_that_others_still_read(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    session, _ = db.create_session(spec, steps.ids)
    session.append(0, steps.k[0], steps.v[0])
    out = np.empty_like(steps.q[0])
    refs = []
    for index in range(3):  # One after another: what a part gave is gone when the next one comes.
        q = steps.q[0].copy()
        refs.append(weakref.ref(q))
        session.attend_part(0, q, out, None, index, 3)
        del q
        gc.collect()
        assert refs[0]() is not None
        junk = [np.full_like(steps.q[0], np.nan) for _ in range(64)]
        del junk
    np.testing.assert_allclose(out, steps.expected(0, 0, 90)[0], **CLOSE)
    session.crop(0)
    gc.collect()
    assert all(ref() is None for ref in refs)


def test_closing_a_session_lets_go_of_the_arrays_of_parts_under_the_interpreter_lock(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    gone: list[Any] = []
    with db.create_session(spec, steps.ids).session as session:
        session.append(0, steps.k[0], steps.v[0])
        q = steps.q[0].copy()
        # The callback is Python, which ends the process without the lock.
        ref = weakref.ref(q, gone.append)
        session.attend_part(0, q, np.empty_like(q), None, 0, 1)
        del q
        gc.collect()
        assert not gone
    assert gone == [ref]


def test_the_interpreter_runs_on_while_a_session_attends(db: attndb.DB) -> None:
    spec = attndb.ModelSpec.uniform(1, 8, 8, 128, kv_dtype="float32", fingerprint=b"big")
    num_tokens = 6000
    rows = np.zeros((num_tokens, 8, 128), np.float32)
    session, _ = db.create_session(spec, range(num_tokens))
    session.append(0, rows, rows)
    thread = threading.Thread(target=session.attend, args=(0, rows))
    refused = turns = 0
    thread.start()
    while thread.is_alive():
        turns += 1
        try:
            session.crop(num_tokens)
        except attndb.FailedPreconditionError as error:
            assert "another thread" in str(error)
            refused += 1
    thread.join()
    # With the lock held the loop would turn at most once or twice, before and after the call.
    assert turns > 10 and refused > 10


def test_explains_and_takes_plans(db: attndb.DB, spec: attndb.ModelSpec, steps: Steps) -> None:
    session, _ = db.create_session(spec, steps.ids, plan="topk(k=4,sink=2,window=8)")
    steps.run(session, 0, 60)
    db.store(session, steps.ids[:60])
    steps.run(session, 60, 61)
    explain = session.explain()
    assert explain.plan.startswith("topk(k=4") and explain.num_tokens == 61
    assert len(explain.layers) == NUM_LAYERS and explain.layers[1].selected_mean > 0
    assert session.explain(1) == explain.layers[1]
    assert "topk" in str(explain)
    heads = explain.layers[1].heads
    assert [head.kv_head for head in heads] == list(range(NUM_KV_HEADS))
    assert sum(head.bytes_touched for head in heads) == explain.layers[1].bytes_touched
    assert all(head.plan == explain.layers[1].plan and head.time_us > 0 for head in heads)
    assert all(head.ran == head.plan for head in heads) and explain.substitutes == ()
    assert explain.predicted_us > 0 and not explain.unreachable and explain.tpot_error == 0
    session.set_plan("auto(tpot=3)")
    assert session.explain().layers[0].heads[0].reason == "sink and window hold all tokens: full"
    session.set_plan("topk(k=4,sink=2,window=8,index=graph)")
    (substitute,) = session.explain(1).substitutes
    assert session.explain(1).ran == "topk(k=4,sink=2,window=8)"
    assert (substitute.ran, substitute.wanted) == ("index=flat", "index=graph")
    assert substitute.because.startswith("too few tokens") and substitute.share == 1
    assert str(substitute) in session.explain().summary
    assert session.explain().substitutes == (substitute,)
    session.set_plan("full")
    assert session.explain().plan == "full"
    with pytest.raises(attndb.InvalidArgumentError, match="column"):
        session.set_plan("topk(k=)")
    machine = db.machine()
    assert not machine.measured and machine.num_threads > 0 and len(machine.attend_ns) == 4


def test_search_gives_the_tokens_that_score_best(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    steps = Steps(3001)
    session, _ = db.create_session(spec, steps.ids)
    steps.run(session, 0, 3000)
    db.store(session, steps.ids[:3000])
    k, _ = session.read_kv(1)
    q = np.linspace(-1, 1, NUM_Q_HEADS * k.shape[2], dtype=np.float32)
    q = q.reshape(1, -1, k.shape[2])
    group = q.shape[1] // k.shape[1]
    for plan in ("topk(k=32)", "topk(k=32,index=clustered,effort=100)"):
        session.set_plan(plan)
        for head, found in enumerate(session.search(1, q)):
            scores = k[:, head // group] @ q[0, head]
            np.testing.assert_allclose(found.scores, scores[found.tokens], rtol=1e-3, atol=1e-3)
            best = 16 + np.argsort(-scores[16 : 3000 - 128])[:32]
            assert len(set(best) & set(found.tokens)) >= 30
        db.wait_for_background()  # The clusters are there for the second plan's next search.
    assert len(session.search(1, q)) == q.shape[1]
    session.set_plan("full")
    with pytest.raises(attndb.FailedPreconditionError, match="does not search"):
        session.search(1, q)


@pytest.mark.parametrize("bits", ["exact", "8", "4"])
def test_plans_that_estimate_come_near_the_reference(
    db: attndb.DB, spec: attndb.ModelSpec, bits: str
) -> None:
    steps = Steps(3001)
    session, _ = db.create_session(spec, steps.ids)
    steps.run(session, 0, 3000)
    db.store(session, steps.ids[:3000])
    db.wait_for_background()  # Planes are read once they are there.
    expected = np.stack([steps.expected(layer, 3000, 3001)[0] for layer in range(NUM_LAYERS)])
    errors = []
    for rest in ("drop", "sample:64", "sample:512", "sample:3001"):
        session.set_plan(f"mass(p=0.8,bits={bits},remainder={rest})")
        out = steps.run(session, 3000, 3001)
        errors.append(float(np.linalg.norm(out - expected) / np.linalg.norm(expected)))
        session.crop(3000)
    assert errors[2] < errors[0] and errors[2] < errors[1]  # Dropped, and sampled less.
    assert errors[3] < (1e-4 if spec.kv_dtype == "float32" else 2e-3)  # Nothing is left out.
    layer = session.explain(0)
    assert (layer.candidates_mean > 0) == (bits != "exact")


def test_sessions_close_by_call_by_with_and_by_the_collector(
    db: attndb.DB, spec: attndb.ModelSpec
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with db.create_session(spec, [1, 2]).session as session:
            assert not session.closed
        assert session.closed and "closed" in repr(session)
        session.close()
        with pytest.raises(attndb.FailedPreconditionError, match="closed"):
            session.crop(0)
        kept = db.create_session(spec, [1, 2]).session
        assert db.stats().num_sessions == 1
        del kept
        gc.collect()
        assert db.stats().num_sessions == 0


def test_the_oldest_leave_and_what_stays_is_moved_together(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    rope = attndb.Rope(10000.0)
    spec = replace(spec, layers=[replace(layer, rope=rope) for layer in spec.layers])
    session, _ = db.create_session(spec, steps.ids)
    steps.run(session, 0, 60)
    session.drop_oldest(30, keep_first=2, keep=[(10, 13)])
    assert session.cuts == (attndb.Cut(60, ((2, 10), (13, 35))),)
    assert (session.num_dropped, session.num_tokens, session.next_position) == (30, 60, 60)
    kept, _ = db.create_session(spec, steps.ids, reuse=False)
    rows = np.r_[0:2, 10:13, 35:60]
    keys = steps.k[0, rows].astype(np.float64)
    for i, token in enumerate(rows):
        keys[i] = turned(keys[i], rope, float(30 if token < 2 else 22 if token < 13 else 0))
    kept.append(0, keys.astype(np.float32), steps.v[0, rows])
    q = steps.q[0, 59:60]
    np.testing.assert_allclose(session.attend(0, q), kept.attend(0, q), rtol=0, atol=2e-3)
    assert session.explain().num_dropped == 30
    assert session.explain().num_moved == 5
    heavy = session.heaviest_tokens(32)
    assert sum(end - begin for begin, end in heavy) <= 32 and heavy[0][0] >= 0
    session.rebase(7)
    assert session.next_position == 7
    with pytest.raises(attndb.InvalidArgumentError, match="only 27 stand between"):
        session.drop_oldest(99, keep_first=2)
    session.crop(59)
    assert session.cuts == ()


def turned(rows: np.ndarray, rope: attndb.Rope, positions: float) -> np.ndarray:
    """Rows [heads, head_dim] in RoPE layout half or interleaved, at later positions."""
    pairs = rows.shape[-1] // 2
    angles = positions * rope.base ** (-np.arange(pairs) / pairs)
    halves = rope.layout == "half"
    a, b = (
        (rows[..., :pairs], rows[..., pairs:]) if halves else (rows[..., 0::2], rows[..., 1::2])
    )
    x, y = a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)
    return np.concatenate([x, y], -1) if halves else np.stack([x, y], -1).reshape(rows.shape)


def test_a_filter_hides_all_but_its_ranges(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    session, _ = db.create_session(spec, steps.ids)
    steps.run(session, 0, 60)
    whole = session.attend(0, steps.q[0, 59:60])
    session.set_filter([(0, 4), (30, 50)])
    left = session.attend(0, steps.q[0, 59:60])
    kept, _ = db.create_session(spec, steps.ids, reuse=False)
    rows = np.r_[0:4, 30:50]
    kept.append(0, steps.k[0, rows], steps.v[0, rows])
    np.testing.assert_allclose(left, kept.attend(0, steps.q[0, 59:60]), **CLOSE)
    session.set_filter()
    np.testing.assert_array_equal(session.attend(0, steps.q[0, 59:60]), whole)
    with pytest.raises(attndb.InvalidArgumentError, match=r"\[50, 30\) holds no token"):
        session.set_filter([(50, 30)])
