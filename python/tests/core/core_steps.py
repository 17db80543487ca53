"""A small model's shape, its random q, k, v, and the attention that they must give."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import attndb

NUM_LAYERS, NUM_Q_HEADS, NUM_KV_HEADS, HEAD_DIM = 2, 6, 2, 32


class Steps:
    """Feeds one sequence's random q, k, v to sessions; knows the attention that they must give."""

    def __init__(self, num_tokens: int, seed: int = 7) -> None:
        random = np.random.default_rng(seed)

        def rows(heads: int) -> np.ndarray:
            shape = (NUM_LAYERS, num_tokens, heads, HEAD_DIM)
            return random.standard_normal(shape, dtype=np.float32)

        self.q, self.k, self.v = rows(NUM_Q_HEADS), rows(NUM_KV_HEADS), rows(NUM_KV_HEADS)
        self.ids = np.arange(num_tokens, dtype=np.int32) + 100

    def run(self, session: attndb.Session, begin: int, end: int) -> np.ndarray:
        """Appends and attends tokens [begin, end); the outputs [layer, token, head, dim]."""
        outputs = []
        for layer in range(NUM_LAYERS):
            session.append(layer, self.k[layer, begin:end], self.v[layer, begin:end])
            outputs.append(session.attend(layer, self.q[layer, begin:end]))
        return np.stack(outputs)

    def expected(
        self, layer: int, begin: int, end: int, denominators: Sequence[float] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Attention and lse of tokens [begin, end), in float64. denominators: logits by q head."""
        group = NUM_Q_HEADS // NUM_KV_HEADS
        k = np.repeat(self.k[layer, :end].astype(np.float64), group, axis=1)
        v = np.repeat(self.v[layer, :end].astype(np.float64), group, axis=1)
        logits = np.einsum("nhd,mhd->nhm", self.q[layer, begin:end].astype(np.float64), k)
        logits /= np.sqrt(HEAD_DIM)
        future = np.arange(end)[None, None, :] > np.arange(begin, end)[:, None, None]
        logits = np.where(future, -np.inf, logits)
        extra = np.full((1, NUM_Q_HEADS, 1), -np.inf)
        if denominators is not None:
            extra[0, :, 0] = denominators
        peak = np.maximum(logits.max(axis=2, keepdims=True), extra)
        weights = np.exp(logits - peak)
        total = weights.sum(axis=2, keepdims=True) + np.exp(extra - peak)
        out = np.einsum("nhm,mhd->nhd", weights / total, v)
        return out, (peak + np.log(total))[..., 0]
