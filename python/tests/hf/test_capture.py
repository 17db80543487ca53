"""Captures: q, k, v of a file are those that the model's own attention is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, AttentionInterface

import attndb
from hf_models import make_model

NUM_TOKENS = 70


@pytest.fixture
def model() -> Any:
    return make_model("llama")


def reference(model: Any, ids: list[int]) -> dict[int, tuple[np.ndarray, ...]]:
    """(k, v, q) of each layer, [tokens, heads, dim], as transformers' sdpa is given them."""
    rows: dict[int, tuple[np.ndarray, ...]] = {}
    sdpa = ALL_ATTENTION_FUNCTIONS["sdpa"]

    def spy(module: Any, q: Any, k: Any, v: Any, *args: Any, **kwargs: Any) -> Any:
        rows[module.layer_idx] = tuple(x[0].transpose(0, 1).numpy().copy() for x in (k, v, q))
        return sdpa(module, q, k, v, *args, **kwargs)

    AttentionInterface.register("spy", spy)
    before = model.config._attn_implementation
    model.set_attn_implementation("spy")
    with torch.no_grad():
        model(torch.tensor([ids]))
    model.set_attn_implementation(before)
    return rows


def test_gives_what_the_model_attends_with(model: Any, tmp_path: Path) -> None:
    ids = [(7 * i) % 90 + 1 for i in range(NUM_TOKENS)]
    expected = reference(model, ids)
    seen: list[tuple[int, int]] = []
    file = attndb.capture(
        model,
        ids,
        tmp_path / "all.safetensors",
        ubatch_tokens=32,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(32, 70), (64, 70), (70, 70)]
    assert file.num_queries == NUM_TOKENS and list(file.tokens) == ids
    assert file.spec.layers[0].rope is not None
    for layer, (k, v, q) in expected.items():
        got_k, got_v = file.read_kv(layer)
        np.testing.assert_allclose(got_k, k, rtol=0, atol=2e-5)
        np.testing.assert_allclose(got_v, v, rtol=0, atol=2e-5)
        np.testing.assert_allclose(file.read_queries(layer), q, rtol=0, atol=2e-5)


def test_some_layers_and_the_last_queries(model: Any, tmp_path: Path) -> None:
    ids = list(range(1, NUM_TOKENS + 1))
    path = tmp_path / "some.safetensors"
    file = attndb.capture(model, ids, path, layers=[1], num_queries=9, ubatch_tokens=64)
    assert file.layers == (1,) and file.num_queries == 9
    expected = reference(model, ids)[1][2][-9:]
    np.testing.assert_allclose(file.read_queries(1), expected, rtol=0, atol=2e-5)
    with pytest.raises(attndb.AlreadyExistsError):
        attndb.capture(model, ids, path, layers=[1])


def test_a_plan_holds_for_the_prefill(model: Any, tmp_path: Path) -> None:
    """With a window of the last 8 tokens a far token changes no later key; with full it does."""
    ids = [5] * NUM_TOKENS
    other = [6, *ids[1:]]
    last = {}
    for plan in ("window(sink=0,window=8)", "full"):
        files = [
            attndb.capture(model, text, tmp_path / f"{plan[:4]}{i}.safetensors", plan=plan)
            for i, text in enumerate((ids, other))
        ]
        k, other_k = (file.read_kv(1, NUM_TOKENS - 1)[0] for file in files)
        last[plan[:4]] = np.abs(k - other_k).max()
    assert last["wind"] == 0 and last["full"] > 1e-4


def test_bad_input(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "bad.safetensors"
    with pytest.raises(attndb.InvalidArgumentError, match="tokenizer"):
        attndb.capture(model, "a text", path)
    with pytest.raises(attndb.InvalidArgumentError, match="no token"):
        attndb.capture(model, [], path)
    with pytest.raises(attndb.InvalidArgumentError, match="layers"):
        attndb.capture(model, [1, 2], path, layers=[9])
    with pytest.raises(attndb.InvalidArgumentError, match="num_queries"):
        attndb.capture(model, [1, 2], path, num_queries=3)
    with pytest.raises(attndb.UnsupportedError, match="rope_scaling"):
        attndb.capture(model, [1, 2], path, rope_scaling="linear:2")
    assert not path.exists()
