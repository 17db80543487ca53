"""Writes a capture of synthetic heads, for contexts longer than any that can be captured.

    python bench/python/synthetic_capture.py FILE --tokens 1048576 [--head-dim 128]
        [--kv-heads 2] [--queries 32768] [--seed 1]

One layer, four q heads a kv head. A stand-in: say so beside each figure. Keys and queries are
low-rank vectors plus noise, turned by RoPE (base 500,000) with their positions.
  latent   rank 16. A token is one of 8,192 types, drawn by Zipf's law, and stands in a passage of
           some 2,000 tokens with a latent of its own: z = type + 0.7 passage + 0.5 own.
  keys     A z + a mean as long as A z + noise, 0.25 of each channel's deviation. A's channels carry
           energy that falls by e^5 from the pairs that RoPE turns slowest to the fastest.
  values   C z + noise, half of each channel's deviation.
  queries  out of distribution: another mean, and a map B that shares half of its energy with A,
           applied to the latent of a type and of a passage some way back: the cube of a uniform
           number, of the tokens before. A q head has a map of its own that shares 0.8 of its energy
           with the group's. They are scaled so that q.k / sqrt(d) has a deviation of 5 over the
           keys.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import attndb

Array = NDArray[np.float32]
Complex = NDArray[np.complex64]
Ids = NDArray[np.int64]

ROPE_BASE = 500_000.0
GROUP, RANK, NUM_TYPES, PASSAGE = 4, 16, 8192, 2000
BLOCK = 1 << 16


class SyntheticHead:
    """A kv head and its group, by the recipe above."""

    def __init__(self, num_tokens: int, head_dim: int, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.num_tokens, self.pairs = num_tokens, head_dim // 2
        energy = np.exp(-2.5 * (1 - np.arange(self.pairs) / self.pairs))
        self.energy = (energy / np.sqrt((energy**2).mean())).astype(np.float32)
        self.key_map = self.normal(RANK, self.pairs) * self.energy
        self.value_map = self.real(RANK, head_dim)
        shared = self.mixed(self.key_map, 0.5)
        self.query_maps = [self.mixed(shared, 0.8) for _ in range(GROUP)]
        self.key_mean = self.normal(1, self.pairs) * self.energy * np.float32(RANK**0.5)
        self.query_mean = self.normal(1, self.pairs) * self.energy * np.float32(RANK**0.5)
        self.types = self.real(NUM_TYPES, RANK)
        self.passages = self.real(num_tokens // PASSAGE + 2, RANK)
        share = 1 / np.arange(1, NUM_TYPES + 1)
        self.type_shares = share / share.sum()
        self.scale = np.float32(1)
        self.scale = self.query_scale()

    def real(self, *shape: int) -> Array:
        return self.random.standard_normal(shape, np.float32)

    def normal(self, *shape: int) -> Complex:
        parts = self.real(*shape, 2)
        return np.asarray(parts[..., 0] + 1j * parts[..., 1], np.complex64)

    def mixed(self, base: Complex, share: float) -> Complex:
        """A map that has `share` of its energy from `base`."""
        own = self.normal(RANK, self.pairs) * self.energy
        return np.asarray(share**0.5 * base + (1 - share) ** 0.5 * own, np.complex64)

    def turned(self, values: Complex, positions: Ids) -> Array:
        """[rows, pairs] as complex numbers, by RoPE; the halves of a row are the parts."""
        frequencies = ROPE_BASE ** (-np.arange(self.pairs) / self.pairs)
        turned = values * np.exp(1j * positions[:, None] * frequencies)
        return np.concatenate([turned.real, turned.imag], axis=1).astype(np.float32)

    def latent(self, passages: Ids) -> Array:
        types = self.random.choice(NUM_TYPES, len(passages), p=self.type_shares)
        own = np.float32(0.5) * self.real(len(passages), RANK)
        latent: Array = self.types[types] + np.float32(0.7) * self.passages[passages] + own
        return latent

    def keys_and_values(self) -> tuple[NDArray[np.float16], NDArray[np.float16]]:
        k = np.empty((self.num_tokens, 2 * self.pairs), np.float16)
        v = np.empty_like(k)
        for begin in range(0, self.num_tokens, BLOCK):
            positions = np.arange(begin, min(begin + BLOCK, self.num_tokens))
            latent = self.latent(positions // PASSAGE)
            noise = np.float32(RANK**0.5 / 4) * self.normal(len(positions), self.pairs)
            k[positions] = self.turned(
                latent @ self.key_map + self.key_mean + noise * self.energy, positions
            )
            noise_of_v = np.float32(RANK**0.5 / 2) * self.real(len(positions), v.shape[1])
            v[positions] = latent @ self.value_map + noise_of_v
        return k, v

    def queries(self, positions: Ids) -> Array:
        """[positions, group, d]: what they look for lies in some passage before them."""
        back = self.random.random(len(positions)) ** 3
        wanted = ((1 - back) * (positions // PASSAGE + 1)).astype(np.int64)
        latent = self.latent(wanted)
        groups = [
            self.turned(self.scale * (latent @ own + self.query_mean), positions)
            for own in self.query_maps
        ]
        return np.stack(groups, axis=1)

    def query_scale(self) -> np.float32:
        positions = np.linspace(0, self.num_tokens - 1, 512).astype(np.int64)
        content = self.latent(positions // PASSAGE) @ self.key_map + self.key_mean
        scores = self.queries(positions).reshape(-1, 2 * self.pairs) @ self.turned(
            content, positions
        ).T
        return np.float32(5 * (2 * self.pairs) ** 0.5 / scores.std())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--tokens", type=int, default=1 << 20)
    parser.add_argument("--head-dim", type=int, default=128, choices=(64, 128))
    parser.add_argument("--kv-heads", type=int, default=2)
    parser.add_argument("--queries", type=int, default=1 << 15)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    last = np.arange(arguments.tokens - arguments.queries, arguments.tokens)
    parts = []
    for i in range(arguments.kv_heads):
        head = SyntheticHead(arguments.tokens, arguments.head_dim, 1000 * arguments.seed + i)
        parts.append((*head.keys_and_values(), head.queries(last)))
    k, v = (np.stack([part[i] for part in parts], axis=1) for i in range(2))
    q = np.concatenate([part[2] for part in parts], axis=1)
    spec = attndb.ModelSpec.uniform(
        1,
        num_q_heads=GROUP * arguments.kv_heads,
        num_kv_heads=arguments.kv_heads,
        head_dim=arguments.head_dim,
        fingerprint=f"synthetic {arguments.seed}".encode(),
    )
    tokens = np.arange(arguments.tokens, dtype=np.int32)
    notes = {"model": f"synthetic heads of rank {RANK}"}
    attndb.write_kv_file(
        arguments.file, spec, tokens, [(k, v, q)], query_dtype="float16", notes=notes
    )


if __name__ == "__main__":
    main()
