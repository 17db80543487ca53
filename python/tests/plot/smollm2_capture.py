"""Real q, k, v: some layers of SmolLM2 over Python's own documentation, with the weights that the
model's own softmax gave."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any
from unittest import mock

import gguf
import numpy as np
import torch
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    AutoModelForCausalLM,
    AutoTokenizer,
)
from transformers.masking_utils import eager_mask
from transformers.models.llama.modeling_llama import eager_attention_forward

import attndb

MODEL = Path(__file__).parents[3] / ".deps/models/SmolLM2-135M-Instruct.Q4_1.gguf"
LAYERS = (0, 7, 15, 22, 29)
NUM_TOKENS, NUM_QUERIES = 800, 24


@dataclass(frozen=True)
class Capture:
    path: Path
    k: dict[int, np.ndarray]  # By layer: [num_tokens, num_kv_heads, head_dim]
    v: dict[int, np.ndarray]
    q: dict[int, np.ndarray]  # [NUM_QUERIES, num_q_heads, head_dim], of the last tokens
    weights: dict[int, np.ndarray]  # [NUM_QUERIES, num_q_heads, num_tokens]: the model's softmax


def capture(path: Path) -> Capture:
    """Runs the model once and writes the KV file `path`."""
    tokenizer, model = _load()
    ids = tokenizer(topics["class"] + topics["assignment"], return_tensors="pt").input_ids
    ids = ids[:, :NUM_TOKENS]
    k, v, q, weights = {}, {}, {}, {}

    def spy(module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
        out, softmax = eager_attention_forward(module, query, key, value, mask, **options)
        if module.layer_idx in LAYERS:
            k[module.layer_idx] = key[0].transpose(0, 1).numpy()
            v[module.layer_idx] = value[0].transpose(0, 1).numpy()
            q[module.layer_idx] = query[0, :, -NUM_QUERIES:].transpose(0, 1).numpy()
            weights[module.layer_idx] = softmax[0, :, -NUM_QUERIES:].transpose(0, 1).numpy()
        return out, softmax

    AttentionInterface.register("spy", spy)
    AttentionMaskInterface.register("spy", eager_mask)
    model.set_attn_implementation("spy")
    with torch.no_grad():
        model(ids, use_cache=False)
    attndb.write_kv_file(
        path, _spec(model.config), ids[0], {i: (k[i], v[i], q[i]) for i in LAYERS},
        notes={"model": "SmolLM2-135M-Instruct", "text": "Python's documentation"},
    )
    return Capture(path, k, v, q, weights)


def _load() -> tuple[Any, Any]:
    source = {"pretrained_model_name_or_path": str(MODEL.parent), "gguf_file": MODEL.name}
    # transformers reads the file's header three times, which is most of the time that it takes.
    with mock.patch("gguf.GGUFReader", cache(gguf.GGUFReader)):
        tokenizer = AutoTokenizer.from_pretrained(**source)
        model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32).eval()
    return tokenizer, model


def _spec(config: Any) -> attndb.ModelSpec:
    return attndb.ModelSpec.uniform(
        config.num_hidden_layers,
        config.num_attention_heads,
        config.num_key_value_heads,
        config.head_dim,
        kv_dtype="float32",
        rope=attndb.Rope(config.rope_parameters["rope_theta"]),
        fingerprint=hashlib.sha256(MODEL.read_bytes()).digest(),
    )
