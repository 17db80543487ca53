"""Draws a model's attention, from a file that `attndb capture` or attndb.write_kv_file wrote.

    python examples/plot_attention.py book.safetensors pictures

The program draws the same pictures as `attndb plot book.safetensors -o pictures`:
tokens_for_mass.png (the tokens that each head needs), attention.png (one head, with its critical
tokens marked) and plan_errors.png (the errors of plans and the bytes that they read). attndb.plot
also has a function for each picture.
"""

from __future__ import annotations

import sys

import attndb
from attndb import plot


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    drawn = plot.pictures(attndb.KvFile(sys.argv[1]), sys.argv[2], drawn=print)
    print(f"attention.png: layer {drawn.layer}, q head {drawn.head}")
    for point in drawn.points:
        share = point.bytes_per_token / point.full_bytes_per_token
        print(f"{point.plan:20} error {point.error:7.2%}  bytes {share:7.1%} of full's")


if __name__ == "__main__":
    main()
