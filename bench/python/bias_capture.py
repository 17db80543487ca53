"""Adds a key bias of Qwen's kind to a capture: what a model with biased keys asks of key planes.

    python bench/python/bias_capture.py CAPTURE BIASED [--strength 4]

Method: Qwen2 adds a vector to each key before RoPE, so that it turns with the position after it. A
bias b of each layer and kv head is added so: k + R(position) b. It is ``strength`` times as long as
a key of the head is from the mean of its keys before RoPE, in the root mean square (4: with that,
plain rotated 4-bit codes of SmolLM2's keys err as much as was measured on a Qwen2.5 model). Of its
length each pair of channels has a share that falls with the square of the queries' energy there,
because a trained bias does not drown what the queries look for; directions in the pairs are random,
seeded. q and V stay. The result is synthetic: label figures on it so.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import attndb

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


def turns(rope: attndb.Rope, num_dims: int, positions: NDArray[np.int64]) -> Complex:
    """[positions, pairs]: RoPE as a factor of each pair as a complex number."""
    frequencies = rope.base ** (-2.0 * np.arange(num_dims // 2) / num_dims)
    return np.asarray(np.exp(1j * positions[:, None] * frequencies), np.complex128)


def pairs(rows: Array, layout: str) -> Complex:
    """[..., dim] to [..., dim / 2]."""
    if layout == "interleaved":
        return rows[..., 0::2] + 1j * rows[..., 1::2]
    half = rows.shape[-1] // 2
    return rows[..., :half] + 1j * rows[..., half:]


def channels(values: Complex, layout: str) -> Array:
    if layout == "interleaved":
        return np.stack([values.real, values.imag], axis=-1).reshape(*values.shape[:-1], -1)
    return np.concatenate([values.real, values.imag], axis=-1)


def biased(
    keys: Array, queries: Array, rope: attndb.Rope, positions: NDArray[np.int64], strength: float,
    random: np.random.Generator,
) -> Array:
    """Keys [tokens, dim] of one kv head, and the queries [rows, dim] of its group."""
    layout = rope.layout
    turn = turns(rope, keys.shape[-1], positions)
    unturned = pairs(keys, layout) * turn.conj()
    centred = unturned - unturned.mean(axis=0)
    length = np.sqrt((np.abs(centred) ** 2).sum(axis=1).mean())
    energy = (np.abs(pairs(queries, layout)) ** 2).mean(axis=0)
    share = 1.0 / np.maximum(energy, 1e-3 * energy.mean())
    bias = share * np.exp(2j * np.pi * random.random(len(share)))
    bias *= strength * length / np.linalg.norm(bias)
    return keys + channels(turn * bias, layout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("capture", type=Path)
    parser.add_argument("biased", type=Path)
    parser.add_argument("--strength", type=float, default=4.0)
    arguments = parser.parse_args()
    file = attndb.KvFile(arguments.capture)
    random = np.random.default_rng(17)
    layers = {}
    for layer in file.layers:
        shape = file.spec.layers[layer]
        rope = shape.rope
        if rope is None or rope.scaling or rope.rope_dims not in (0, None, shape.head_dim):
            sys.exit(f"layer {layer}: expected RoPE of all channels without scaling, found {rope}")
        group = shape.num_q_heads // shape.num_kv_heads
        k, v = file.read_kv(layer)
        q = file.read_queries(layer)
        for head in range(shape.num_kv_heads):
            of_group = q[:, head * group : (head + 1) * group].reshape(-1, shape.head_dim)
            k[:, head] = biased(
                k[:, head].astype(np.float64), of_group.astype(np.float64), rope, file.positions,
                arguments.strength, random,
            )
        layers[layer] = (k, v, q)
    notes = {**file.notes, "model": file.notes.get("model", "a model") + " with synthetic key bias"}
    attndb.write_kv_file(
        arguments.biased, file.spec, file.tokens, layers,
        first_position=file.first_position, notes=notes,
    )


if __name__ == "__main__":
    main()
