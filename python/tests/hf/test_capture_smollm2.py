"""Captures of a GGUF model, through llama.cpp, agree with those of transformers, layer by layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import attndb
from smollm2 import load_model

LAYERS = [0, 14, 29]


def relative_error(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def test_llama_cpp_and_transformers_capture_the_same(tmp_path: Path) -> None:
    text = "The keeper climbed the tower and lit the lamp. " * 8
    theirs = attndb.capture("smollm2", text, tmp_path / "gguf.safetensors", layers=LAYERS)
    model = load_model()
    ours = attndb.capture(
        model, theirs.tokens, tmp_path / "hf.safetensors", layers=LAYERS, num_queries=20
    )
    assert theirs.num_queries == theirs.num_tokens > 60
    assert theirs.spec.layers[0].rope is not None and ours.spec.layers[0].rope is not None
    # llama.cpp's Llama rotates neighbours, transformers halves; both say so.
    assert theirs.spec.layers[0].rope.layout == "interleaved"
    assert ours.spec.layers[0].rope.layout == "half"
    for layer in LAYERS:
        k, v = theirs.read_kv(layer)
        our_k, our_v = ours.read_kv(layer)
        pairs = k.reshape(*k.shape[:2], -1, 2)
        halves = np.concatenate([pairs[..., 0], pairs[..., 1]], axis=-1)
        # 4-bit weights with activations rounded to 8 bits against the same weights in float32.
        assert relative_error(halves, our_k) < 0.1
        assert relative_error(v, our_v) < 0.15
        assert ours.read_queries(layer).shape == (20, 9, 64)


def test_errors_of_the_command_line_are_exceptions(tmp_path: Path) -> None:
    path = tmp_path / "none.safetensors"
    with pytest.raises(attndb.NotFoundError, match="nowhere"):
        attndb.capture("/nowhere/model.gguf", "text", path)
    with pytest.raises(attndb.InvalidArgumentError, match="layer"):
        attndb.capture("smollm2", "text", path, layers=[99])
    with pytest.raises(attndb.InvalidArgumentError):
        attndb.capture("smollm2", [10**6], path)
    assert not path.exists()
