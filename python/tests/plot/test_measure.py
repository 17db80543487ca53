"""Goal:   attndb.measure says of a real model what the model itself and brute force say.
Method: SmolLM2's own softmax, torch in float64 one head and row at a time, and sessions whose
        values show which tokens they attended to; a synthetic file for windows and soft caps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import attndb
from attndb import measure
from brute_force import (
    HEAD_DIM,
    NUM_KV_HEADS,
    NUM_Q_HEADS,
    SCALE,
    attended,
    num_for_mass,
    output,
    scores,
)
from smollm2_capture import LAYERS, NUM_QUERIES, NUM_TOKENS, Capture

LAST_ROWS = range(NUM_TOKENS - 3, NUM_TOKENS)


@pytest.mark.parametrize("query", [-1, -NUM_QUERIES, NUM_TOKENS - 5])
def test_weights_are_those_of_the_models_own_softmax(
    captured: Capture, file: attndb.KvFile, query: int
) -> None:
    row = query % NUM_TOKENS - (NUM_TOKENS - NUM_QUERIES)
    for layer in LAYERS:
        weights = measure.attention_weights(file, layer, query)
        assert weights.shape == (NUM_Q_HEADS, NUM_TOKENS) and weights.dtype == np.float64
        np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-12)
        np.testing.assert_allclose(weights, captured.weights[layer][row], rtol=2e-3, atol=1e-6)
        assert not weights[:, query % NUM_TOKENS + 1 :].any()


def test_soft_caps_scales_and_sliding_windows_are_honoured(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    q, k, v = (3 * random.standard_normal((40, heads, 8), np.float32) for heads in (4, 2, 2))
    layers = [
        attndb.LayerSpec(4, 2, 8, scale=0.5, soft_cap=2.0),
        attndb.LayerSpec(4, 2, 8, sliding_window=7),
        attndb.LayerSpec(4, 2, 8, denominator_logits=(-1.0, 2.0, 5.0, 9.0)),
    ]
    spec = attndb.ModelSpec(layers, "float32", b"x")
    path = tmp_path / "two.safetensors"
    attndb.write_kv_file(path, spec, range(40), [(k, v, q)] * 3)
    file = attndb.KvFile(path)
    for row in (3, 39):
        for head in range(4):
            dots = torch.tensor(k[: row + 1, head // 2], dtype=torch.float64) @ torch.tensor(
                q[row, head], dtype=torch.float64
            )
            capped = torch.softmax(2 * torch.tanh(dots * 0.5 / 2), dim=0)
            found = measure.attention_weights(file, 0, row)[head]
            np.testing.assert_allclose(found[: row + 1], capped, atol=1e-6)
            near = torch.softmax(dots[-7:] / 8**0.5, dim=0)
            found = measure.attention_weights(file, 1, row)[head]
            np.testing.assert_allclose(found[max(0, row - 6) : row + 1], near, atol=1e-6)
            assert np.count_nonzero(found) == min(7, row + 1)
            extra = torch.tensor([layers[2].denominator_logits[head]], dtype=torch.float64)
            less = torch.softmax(torch.cat([dots / 8**0.5, extra]), dim=0)[:-1]
            found = measure.attention_weights(file, 2, row)[head]
            np.testing.assert_allclose(found[: row + 1], less, atol=1e-6)
    assert measure.tokens_for_mass(file, 1.0, 30)[1].max() <= 7
    assert measure.dipr_tokens(file, beta=1e9, queries=30)[1].tolist() == [7] * 4
    selection = measure.critical_tokens(file, 1, "topk(k=1,sink=1,window=1)")
    assert selection.attended.sum() == 4 * 7 and not selection.critical.any()
    point = measure.plan_errors(file, ["window(sink=1,window=2)"], queries=40)[0]
    assert point.by_head[0].min() > 0 and point.by_head[1].tolist() == [0] * 4


@pytest.mark.parametrize("mass", [0.5, 0.9, 0.99])
def test_tokens_for_mass_are_counted_as_by_hand(
    captured: Capture, file: attndb.KvFile, mass: float
) -> None:
    counts = measure.tokens_for_mass(file, mass, queries=len(LAST_ROWS))
    assert counts.shape == (len(LAYERS), NUM_Q_HEADS)
    for i, layer in enumerate(LAYERS):
        for head in range(NUM_Q_HEADS):
            of_rows = [
                num_for_mass(torch.softmax(scores(captured, layer, head, row) * SCALE, 0), mass)
                for row in LAST_ROWS
            ]
            assert counts[i, head] == np.mean(of_rows), (layer, head)


def test_dipr_counts_what_is_close_to_the_largest(captured: Capture, file: attndb.KvFile) -> None:
    counts = measure.dipr_tokens(file, alpha=0.012, queries=len(LAST_ROWS))
    by_beta = measure.dipr_tokens(file, beta=-np.log(0.012) / SCALE, queries=len(LAST_ROWS))
    np.testing.assert_array_equal(counts, by_beta)
    assert measure.dipr_tokens(file, beta=0, queries=1).tolist() == [[1] * 9] * len(LAYERS)
    for i, layer in enumerate(LAYERS):
        for head in range(NUM_Q_HEADS):
            of_rows = [scores(captured, layer, head, row) * SCALE for row in LAST_ROWS]
            weights = [torch.softmax(logits, dim=0) for logits in of_rows]
            assert counts[i, head] == np.mean([int((w >= 0.012 * w.max()).sum()) for w in weights])


@pytest.mark.parametrize(
    "plan",
    [
        "topk(k=20,sink=4,window=32)",
        "dipr(alpha=0.012,sink=16,window=128)",
        "window(sink=4,window=9)",
        "mass(p=0.9,sink=4,window=32)",
    ],
)
def test_critical_tokens_are_those_that_sessions_attend_to(
    captured: Capture, file: attndb.KvFile, tmp_path: Path, plan: str
) -> None:
    for layer in (LAYERS[1], LAYERS[-1]):
        selection = measure.critical_tokens(file, layer, f"full; layers {layer}: {plan}")
        assert selection.plan == plan
        seen = _tokens_that_a_session_attends_to(captured, layer, plan, tmp_path / "store")
        np.testing.assert_array_equal(selection.attended, seen)
        for head in range(NUM_Q_HEADS):
            by_hand, critical = attended(scores(captured, layer, head, NUM_TOKENS - 1), plan)
            assert set(np.flatnonzero(selection.attended[head])) == by_hand
            assert set(np.flatnonzero(selection.critical[head])) == critical


def test_a_plan_that_leaves_nothing_out_is_full(file: attndb.KvFile) -> None:
    for plan in ("full", f"topk(k=1,sink={NUM_TOKENS - 8},window=8)"):
        selection = measure.critical_tokens(file, 0, plan)
        assert selection.attended.all() and not selection.critical.any()


def test_plan_errors_are_those_of_attention_over_the_chosen_tokens(
    captured: Capture, file: attndb.KvFile
) -> None:
    plans = [
        "topk(k=40,sink=16,window=64)",
        "dipr(alpha=0.05,sink=4,window=32)",
        "window(sink=4,window=64)",
    ]
    found = measure.plan_errors(file, [*plans, "full"], queries=len(LAST_ROWS))
    for point, plan in zip(found[:3], plans, strict=True):
        errors = np.empty((len(LAYERS), NUM_Q_HEADS, len(LAST_ROWS)))
        num_critical, num_bytes = 0, 0
        for i, layer in enumerate(LAYERS):
            for head in range(NUM_Q_HEADS):
                for j, row in enumerate(LAST_ROWS):
                    of_row = scores(captured, layer, head, row)
                    tokens, critical = attended(of_row, plan)
                    full = output(captured, layer, head, of_row, set(range(row + 1)))
                    ours = output(captured, layer, head, of_row, tokens)
                    errors[i, head, j] = (ours - full).norm() / full.norm()
                    num_critical += len(critical)
                    num_bytes += _bytes_read(plan, row + 1, len(tokens), head)
        assert point.plan == plan
        np.testing.assert_allclose(point.by_head, errors.mean(axis=2), rtol=1e-3, atol=1e-5)
        assert point.error == pytest.approx(errors.mean(), rel=1e-3)
        assert point.selected == pytest.approx(num_critical / errors.size, rel=1e-6)
        assert point.bytes_per_token == pytest.approx(num_bytes / len(LAST_ROWS), rel=1e-12)
        assert point.full_bytes_per_token == pytest.approx(_full_bytes())
    assert found[3].error == 0 and found[3].bytes_per_token == point.full_bytes_per_token


def test_plans_name_the_models_layers_where_the_file_has_some(file: attndb.KvFile) -> None:
    layer = LAYERS[2]
    everywhere, there, elsewhere = measure.plan_errors(
        file, ["window", f"full; layers {layer}: window", f"full; layers {layer + 1}: window"], 2
    )
    np.testing.assert_array_equal(there.by_head[2], everywhere.by_head[2])
    assert there.by_head[[0, 1, 3, 4]].max() == 0 == elsewhere.error
    assert everywhere.error > there.error > 0


@pytest.mark.parametrize("index", ["quest", "graph", "clustered", "pq"])
def test_an_index_that_cannot_be_built_is_refused_by_name(
    file: attndb.KvFile, index: str
) -> None:
    plan = f"full; layers {LAYERS[1]}: topk(k=16,index={index})"
    with pytest.raises(
        attndb.UnsupportedError,
        match=f"can't be measured: index=flat instead of index={index}: too few tokens: one "
        "segment needs 2,048",
    ):
        measure.plan_errors(file, ["topk(k=16)", plan], queries=2)


def test_what_ran_is_said_and_indexes_are_waited_for(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    k, v, q = (random.standard_normal((3000, heads, 16), np.float32) for heads in (1, 1, 2))
    spec = attndb.ModelSpec([attndb.LayerSpec(2, 1, 16)], "float32", b"x")
    path = tmp_path / "one.safetensors"
    attndb.write_kv_file(path, spec, range(3000), [(k, v, q)])
    file = attndb.KvFile(path)
    flat, quest, graph, codes = measure.plan_errors(
        file, ["topk(k=16)", "topk(k=16,index=quest)", "topk(k=16,index=graph,beam_width=16)",
               "topk(k=16,bits=8)"], queries=3
    )
    assert flat.ran == ("topk(k=16,sink=16,window=128)",) and flat.substitutes == ()
    assert quest.ran == ("topk(k=16,index=quest,sink=16,window=128)",)
    assert codes.ran == ("topk(k=16,bits=8,sink=16,window=128)",) and codes.substitutes == ()
    for point in (quest, graph):
        assert point.substitutes == () and point.bytes_per_token < 0.9 * flat.bytes_per_token
    (auto,) = measure.plan_errors(attndb.KvFile(path), ["auto(error=0.1)"], queries=3)
    assert auto.ran != ("full",)
    short = tmp_path / "short.safetensors"
    attndb.write_kv_file(short, spec, range(700), [(k[:700], v[:700], q[:700])])
    (auto,) = measure.plan_errors(attndb.KvFile(short), ["auto(error=0.1)"], queries=3)
    assert auto.error == 0 and auto.ran == ("full",)
    (replaced,) = auto.substitutes
    assert (replaced.ran, replaced.wanted, replaced.because) == ("full", "auto", "short context")
    assert replaced.share == 1 and str(replaced) == "full instead of auto: short context"


def test_prefix_hits_are_common_prefixes(tmp_path: Path, file: attndb.KvFile) -> None:
    spec = attndb.ModelSpec([file.spec.layers[0]], "float32", b"SmolLM2's layer 0")
    ids = file.tokens
    k, v = file.read_kv(0)
    other = np.concatenate([ids[:130], ids[500:600]])
    edited = np.concatenate([ids[:333], ids[:60]])
    prompts = {"whole": ids, "edited": edited, "other": other, "far": ids[9:99], "equal": ids[:500]}
    with attndb.open(tmp_path / "store") as db:
        db.import_context(spec, ids[:500], [(k[:500], v[:500])], name="manual")
        db.import_context(spec, other, [(k[:230], v[:230])])
        stored = {"manual": ids[:500], "#2": other}
        hits = measure.prefix_hits(db, spec, prompts)
        assert [hit.prompt for hit in measure.prefix_hits(db, spec, [ids, other])] == ["0", "1"]
    for hit, (name, prompt) in zip(hits, prompts.items(), strict=True):
        common = {key: _common_prefix(prompt, tokens) for key, tokens in stored.items()}
        assert (hit.prompt, hit.num_tokens) == (name, len(prompt))
        assert hit.num_reused == min(max(common.values()), len(prompt) - 1)
        assert common.get(hit.context, 0) == max(common.values())


def test_refuses_a_file_without_q(tmp_path: Path, file: attndb.KvFile) -> None:
    path = tmp_path / "bare.safetensors"
    attndb.write_kv_file(path, file.spec, file.tokens, {0: file.read_kv(0)})
    bare = attndb.KvFile(path)
    for call in (measure.tokens_for_mass, lambda file: measure.attention_weights(file, 0)):
        with pytest.raises(attndb.InvalidArgumentError, match="has no q"):
            call(bare)


def test_refuses_what_the_file_has_not(file: attndb.KvFile) -> None:
    for call in (
        lambda: measure.attention_weights(file, 3),
        lambda: measure.attention_weights(file, 0, -NUM_QUERIES - 1),
        lambda: measure.attention_weights(file, 0, NUM_TOKENS),
        lambda: measure.tokens_for_mass(file, 0.0),
        lambda: measure.tokens_for_mass(file, queries=NUM_QUERIES + 1),
        lambda: measure.tokens_for_mass(file, queries=0),
        lambda: measure.dipr_tokens(file),
        lambda: measure.dipr_tokens(file, alpha=0.1, beta=3.0),
        lambda: measure.dipr_tokens(file, alpha=1.5),
        lambda: measure.dipr_tokens(file, beta=float("nan")),
        lambda: measure.critical_tokens(file, 0, "top(k=3)"),
        lambda: measure.plan_errors(file, ["full", "topk(k=)"]),
        lambda: measure.plan_errors(file, ["full; layers 30: window"]),
    ):
        with pytest.raises(attndb.InvalidArgumentError):
            call()


def _tokens_that_a_session_attends_to(
    captured: Capture, layer: int, plan: str, store: Path
) -> np.ndarray:
    """[num_q_heads, num_tokens]: a session whose V has a channel for each token says which."""
    shape = attndb.LayerSpec(NUM_Q_HEADS, NUM_KV_HEADS, HEAD_DIM, v_head_dim=200)
    spec = attndb.ModelSpec([shape], "float32", b"x")
    seen = []
    with attndb.open(store) as db:
        for begin in range(0, NUM_TOKENS, 200):
            v = np.zeros((NUM_TOKENS, NUM_KV_HEADS, 200), np.float32)
            v[np.arange(begin, begin + 200), :, np.arange(200)] = 1
            with db.create_session(spec, [0], reuse=False, plan=plan).session as session:
                session.append(0, captured.k[layer], v)
                seen.append(session.attend(0, captured.q[layer][-1:])[0] > 0)
    return np.concatenate(seen, axis=1)


def _bytes_read(plan: str, num_visible: int, num_attended: int, head: int) -> int:
    """A plan that searches reads each key once for a group, and each q head's values; one that
    doesn't reads K and V of what it keeps once for a group."""
    row = 4 * HEAD_DIM
    first_of_group = head % (NUM_Q_HEADS // NUM_KV_HEADS) == 0
    if plan.startswith("window"):
        return 2 * row * num_attended * first_of_group
    return row * num_visible * first_of_group + row * num_attended


def _full_bytes() -> float:
    rows = 2 * 4 * HEAD_DIM * NUM_KV_HEADS * len(LAYERS)
    return float(np.mean([rows * (row + 1) for row in LAST_ROWS]))


def _common_prefix(a: np.ndarray, b: np.ndarray) -> int:
    n = min(len(a), len(b))
    differ = np.flatnonzero(a[:n] != b[:n])
    return int(differ[0]) if differ.size else n
