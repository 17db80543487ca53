"""Makes the heads that ``index_peers.py`` and ``attndb bench index`` measure indexes on.

    python bench/python/index_heads.py FOLDER --capture FILE [--label stretched] [--heads L3H0,...]
    python bench/python/index_heads.py FOLDER --synthetic 1048576 [--head-dim 128] [--num-heads 2]

FOLDER gets, for each head: ``<head>.keys.npy`` [n, d] and ``<head>.train.npy`` [m, d], queries to
learn from, ``<head>.test.npy`` [t * g, d], where the g q heads of one token lie together, all of
float32; ``<head>.truth.npy`` [t * g, 100] int32, the keys with the largest inner products, exact;
and ``heads.json``, the list of them with their sizes and a label that says where they come from.

Captured: keys are the tokens that an index holds, all but 16 sinks and the last 2,048 + 128.
Training queries are those of all q heads of the group at tokens spread evenly over all but the last
4,096, 40 % as many as keys. Test queries are those of 256 tokens spread over the last 2,048: they
come after whatever trained the index, as they do in decoding.

Synthetic (a stand-in where no capture is long enough; say so beside each figure): keys and queries
are low-rank vectors plus noise, turned by RoPE (base 500,000) with their positions.
  latent   rank 16. A token is one of 8,192 types, drawn by Zipf's law, and stands in a passage of
           some 2,000 tokens with a latent of its own: z = type + 0.7 passage + 0.5 own.
  keys     A z + a mean as long as A z + noise, 0.25 of each channel's deviation. A's channels carry
           energy that falls by e^5 from the pairs that RoPE turns slowest to the fastest.
  queries  out of distribution: another mean, and a map B that shares half of its energy with A,
           applied to the latent of a type and of a passage some way back: the cube of a uniform
           number, of the tokens before. A q head has a map of its own that shares 0.8 of its energy
           with the group's. Test queries stand at the last tokens; training queries all over, as in
           a capture. They are scaled so that q.k / sqrt(d) has a deviation of 5 over the keys.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Complex = NDArray[np.complex64]
Ids = NDArray[np.int64]

HEADS = "L3H0,L6H1,L9H2,L12H1,L15H0,L18H2,L21H1,L24H2,L27H0"
NUM_TRUE = 100
NUM_SINKS, WINDOW, TEST_TOKENS, TRAIN_END = 16, 128, 2048, 4096
NUM_TESTS = 256  # Groups.
TRAIN_SHARE = 0.4  # Of the number of keys.
ROPE_BASE = 500_000.0
RANK, NUM_TYPES, PASSAGE = 16, 8192, 2000
BLOCK = 1 << 16


class Capture:
    """A safetensors file with layers.<i>.k [kv heads, tokens, d] and layers.<i>.q likewise."""

    DTYPES = {"F16": np.float16, "F32": np.float32}

    def __init__(self, path: Path) -> None:
        self.bytes = np.memmap(path, np.uint8, "r")
        size = int(self.bytes[:8].view("<u8")[0])
        self.tensors = json.loads(self.bytes[8 : 8 + size].tobytes())
        self.begin = 8 + size

    def tensor(self, name: str) -> NDArray[np.floating]:
        entry = self.tensors[name]
        if entry["dtype"] not in self.DTYPES:
            raise SystemExit(f"{name}: expected F16 or F32, found {entry['dtype']}")
        begin, end = (self.begin + offset for offset in entry["data_offsets"])
        values = np.frombuffer(self.bytes[begin:end], self.DTYPES[entry["dtype"]])
        return values.reshape(entry["shape"])


def spread(begin: int, end: int, count: int) -> Ids:
    return np.linspace(begin, end - 1, count).astype(np.int64)


def largest(scores: Array, count: int) -> Ids:
    """[rows, count]: columns of the largest, best first, equal ones by column."""
    columns = np.argpartition(-scores, count - 1, axis=1)[:, :count]
    columns.sort(axis=1)
    order = np.argsort(-np.take_along_axis(scores, columns, 1), axis=1, kind="stable")
    return np.take_along_axis(columns, order, 1).astype(np.int64)


def truth(queries: Array, keys: Array) -> NDArray[np.int32]:
    """The exact answers; in blocks of keys and queries, so that 1M keys fit."""
    result = np.empty((len(queries), NUM_TRUE), np.int32)
    for row in range(0, len(queries), 256):
        block = queries[row : row + 256]
        ids = np.empty((len(block), 0), np.int64)
        scores = np.empty((len(block), 0), np.float32)
        for begin in range(0, len(keys), BLOCK):
            part = block @ keys[begin : begin + BLOCK].T
            best = largest(part, min(NUM_TRUE, part.shape[1]))
            ids = np.concatenate([ids, best + begin], axis=1)
            scores = np.concatenate([scores, np.take_along_axis(part, best, 1)], axis=1)
        best = largest(scores, NUM_TRUE)
        result[row : row + 256] = np.take_along_axis(ids, best, 1)
    return result


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.heads: list[dict[str, object]] = []
        path.mkdir(parents=True, exist_ok=True)

    def add(self, name: str, label: str, keys: Array, train: Array, test: Array) -> None:
        """`test` [groups, group size, d]."""
        group = test.shape[1]
        rows = test.reshape(-1, test.shape[2])
        arrays = {"keys": keys, "train": train, "test": rows, "truth": truth(rows, keys)}
        for kind, array in arrays.items():
            np.save(self.path / f"{name}.{kind}.npy", np.ascontiguousarray(array))
        self.heads.append({
            "name": name, "label": label, "n": len(keys), "d": keys.shape[1],
            "group_size": group, "num_train": len(train), "num_test_groups": len(test),
        })
        (self.path / "heads.json").write_text(json.dumps({"heads": self.heads}, indent=1) + "\n")
        print(f"{name}: {len(keys):,} keys, {len(train):,} training, {len(rows):,} test queries")


def add_captured(folder: Folder, file: Path, label: str, names: list[str]) -> None:
    capture = Capture(file)
    for name in names:
        layer, head = (int(number) for number in name[1:].split("H"))
        k, q = capture.tensor(f"layers.{layer}.k"), capture.tensor(f"layers.{layer}.q")
        num_tokens, group = k.shape[1], q.shape[0] // k.shape[0]
        keys = k[head, NUM_SINKS : num_tokens - TEST_TOKENS - WINDOW].astype(np.float32)
        of_group = q[head * group : (head + 1) * group].transpose(1, 0, 2)
        train = spread(0, num_tokens - TRAIN_END, int(TRAIN_SHARE * len(keys)) // group)
        test = spread(num_tokens - TEST_TOKENS, num_tokens, NUM_TESTS)
        folder.add(
            name, label, keys, of_group[train].astype(np.float32).reshape(-1, keys.shape[1]),
            of_group[test].astype(np.float32),
        )


class SyntheticHead:
    """The recipe above; `turned` multiplies [rows, pairs] as complex numbers with RoPE's turns."""

    def __init__(self, num_keys: int, head_dim: int, group: int, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.num_keys, self.pairs = num_keys, head_dim // 2
        energy = np.exp(-2.5 * (1 - np.arange(self.pairs) / self.pairs))
        self.energy = (energy / np.sqrt((energy**2).mean())).astype(np.float32)
        self.key_map = self.normal(RANK, self.pairs) * self.energy
        shared = self.mixed(self.key_map, 0.5)
        self.query_maps = [self.mixed(shared, 0.8) for _ in range(group)]
        self.key_mean = self.normal(1, self.pairs) * self.energy * np.float32(RANK**0.5)
        self.query_mean = self.normal(1, self.pairs) * self.energy * np.float32(RANK**0.5)
        self.types = self.real(NUM_TYPES, RANK)
        self.passages = self.real(num_keys // PASSAGE + 2, RANK)
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
        frequencies = ROPE_BASE ** (-np.arange(self.pairs) / self.pairs)
        turned = values * np.exp(1j * positions[:, None] * frequencies)
        return np.concatenate([turned.real, turned.imag], axis=1).astype(np.float32)

    def latent(self, passages: Ids) -> Array:
        types = self.random.choice(NUM_TYPES, len(passages), p=self.type_shares)
        own = np.float32(0.5) * self.real(len(passages), RANK)
        latent: Array = self.types[types] + np.float32(0.7) * self.passages[passages] + own
        return latent

    def keys(self) -> Array:
        rows = np.empty((self.num_keys, 2 * self.pairs), np.float32)
        for begin in range(0, self.num_keys, BLOCK):
            positions = np.arange(begin, min(begin + BLOCK, self.num_keys))
            content = self.latent(positions // PASSAGE) @ self.key_map + self.key_mean
            noise = self.normal(len(positions), self.pairs) * self.energy
            rows[positions] = self.turned(content + np.float32(RANK**0.5 / 4) * noise, positions)
        return rows

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
        positions = spread(0, self.num_keys, 512)
        content = self.latent(positions // PASSAGE) @ self.key_map + self.key_mean
        scores = self.queries(positions).reshape(-1, 2 * self.pairs) @ self.turned(
            content, positions
        ).T
        return np.float32(5 * (2 * self.pairs) ** 0.5 / scores.std())


def add_synthetic(folder: Folder, num_keys: int, head_dim: int, names: list[str]) -> None:
    group = 4
    for seed, name in enumerate(names):
        head = SyntheticHead(num_keys, head_dim, group, seed)
        num_train = int(TRAIN_SHARE * num_keys) // group
        train = head.queries(spread(0, num_keys - TEST_TOKENS, num_train))
        test = head.queries(spread(num_keys, num_keys + TEST_TOKENS, NUM_TESTS) - WINDOW)
        folder.add(name, "synthetic", head.keys(), train.reshape(-1, head_dim), test)


def synthetic_names(count: int) -> Iterator[str]:
    return (f"S{number}" for number in range(count))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--capture", type=Path)
    source.add_argument("--synthetic", type=int, metavar="KEYS")
    parser.add_argument("--label", default="captured")
    parser.add_argument("--heads", default=HEADS)
    parser.add_argument("--head-dim", type=int, default=128, choices=(64, 128))
    parser.add_argument("--num-heads", type=int, default=2)
    arguments = parser.parse_args()
    folder = Folder(arguments.folder)
    if arguments.capture:
        add_captured(folder, arguments.capture, arguments.label, arguments.heads.split(","))
    else:
        names = list(synthetic_names(arguments.num_heads))
        add_synthetic(folder, arguments.synthetic, arguments.head_dim, names)


if __name__ == "__main__":
    main()
