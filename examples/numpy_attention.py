"""attndb under your own model: here a "model" of random numbers, in numpy.

The program shows the steps of an engine: it makes a spec, runs the new tokens and stores them. A
second session starts from the stored prefix. The program compares attention with numpy's.
"""

from __future__ import annotations

import tempfile

import numpy as np

import attndb

NUM_LAYERS, NUM_Q_HEADS, NUM_KV_HEADS, HEAD_DIM = 4, 8, 2, 64


def project(layer: int, ids: np.ndarray, heads: int, seed: int) -> np.ndarray:
    """Replaces a layer's projection: equal ids give equal rows."""
    rows = [np.random.default_rng((seed, layer, int(i))).standard_normal((heads, HEAD_DIM))
            for i in ids]
    return np.array(rows, np.float32)


def run(session: attndb.Session, ids: np.ndarray) -> list[np.ndarray]:
    """Runs one step over the new tokens `ids`: for each layer append, then attend."""
    outputs = []
    for layer in range(NUM_LAYERS):
        k, v = project(layer, ids, NUM_KV_HEADS, 1), project(layer, ids, NUM_KV_HEADS, 2)
        session.append(layer, k, v)
        outputs.append(session.attend(layer, project(layer, ids, NUM_Q_HEADS, 3)))
    return outputs


def numpy_attention(layer: int, ids: np.ndarray) -> np.ndarray:
    """Computes the same attention of the last token in float64."""
    group = NUM_Q_HEADS // NUM_KV_HEADS
    q = project(layer, ids[-1:], NUM_Q_HEADS, 3)[0].astype(np.float64)
    k = np.repeat(project(layer, ids, NUM_KV_HEADS, 1), group, axis=1)
    v = np.repeat(project(layer, ids, NUM_KV_HEADS, 2), group, axis=1)
    logits = np.einsum("hd,thd->ht", q, k) / np.sqrt(HEAD_DIM)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return np.einsum("ht,thd->hd", weights, v)


def main() -> None:
    spec = attndb.ModelSpec.uniform(
        NUM_LAYERS, NUM_Q_HEADS, NUM_KV_HEADS, HEAD_DIM,
        kv_dtype="float32", fingerprint=b"random numbers, version 1",
    )
    book = np.random.default_rng(0).integers(0, 1000, 500).astype(np.int32)

    with tempfile.TemporaryDirectory() as folder, attndb.open(folder) as db:
        session, rest = db.create_session(spec, book)
        print(f"first time:  {session.num_reused} tokens reused, {len(rest)} to run")
        run(session, rest)
        db.store(session, book, name="book")

        question = np.append(book, [7, 8, 9]).astype(np.int32)
        session, rest = db.create_session(spec, question)
        print(f"second time: {session.num_reused} tokens reused, {len(rest)} to run")
        out = run(session, rest)[-1][-1]
        error = np.abs(out - numpy_attention(NUM_LAYERS - 1, question)).max()
        print(f"largest difference from numpy in float64: {error:.1e}")

        print(db.describe("book"))
        assert session.num_reused == 500 and error < 1e-5


if __name__ == "__main__":
    main()
