"""Draws what a model attends to, from a file that `attndb capture` or attndb.write_kv_file wrote.

    python examples/plot_attention.py book.safetensors pictures

The folder then has tokens_for_mass.png (how many tokens each head needs), attention.png (one head,
the critical tokens marked) and plan_errors.png (what plans lose, and what they read).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import attndb
from attndb import measure, plot

PLANS = [
    *(f"topk(k={k})" for k in (16, 64, 256)),
    *(f"dipr(alpha={alpha})" for alpha in (0.1, 0.012, 0.001)),
    "window",
]


def find_example(file: attndb.KvFile, plan: str) -> tuple[int, int]:
    """The layer and q head that attends most to each of its critical tokens."""
    best = (-1.0, 0, 0)
    for layer in file.layers:
        weights = measure.attention_weights(file, layer)
        critical = measure.critical_tokens(file, layer, plan).critical
        shares = np.where(critical, weights, 0).sum(axis=1) / (1 + critical.sum(axis=1))
        best = max(best, (float(shares.max()), layer, int(shares.argmax())))
    return best[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws what a model attends to.")
    parser.add_argument("file", help="captured K, V and q")
    parser.add_argument("folder", type=Path, help="of the pictures; made if it is not there")
    parser.add_argument("--layer", type=int, help="of attention.png")
    parser.add_argument("--head", type=int, default=0, help="q head of attention.png")
    parser.add_argument("--plan", default="dipr(alpha=0.012)", help="of attention.png")
    options = parser.parse_args()

    file = attndb.KvFile(options.file)
    options.folder.mkdir(parents=True, exist_ok=True)
    queries = min(16, file.num_queries)
    plot.tokens_for_mass(
        file, queries=queries, alpha=0.012, path=options.folder / "tokens_for_mass.png"
    )
    chosen = (options.layer, options.head)
    layer, head = find_example(file, options.plan) if options.layer is None else chosen
    plot.attention(file, layer, head, options.plan, path=options.folder / "attention.png")
    points = measure.plan_errors(file, PLANS, queries)
    notes = f"{file.notes.get('model', options.file)}, {file.num_tokens:,} tokens"
    plot.plan_errors(points, notes=notes, path=options.folder / "plan_errors.png")
    for point in points:
        share = point.bytes_per_token / point.full_bytes_per_token
        print(f"{point.plan:20} error {point.error:7.2%}  bytes {share:7.1%} of full's")


if __name__ == "__main__":
    main()
