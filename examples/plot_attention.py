"""Draws what a model attends to, from a file that `attndb capture` or attndb.write_kv_file wrote.

    python examples/plot_attention.py book.safetensors pictures

The folder then has tokens_for_mass.png (how many tokens each head needs), attention.png (one head,
the critical tokens marked) and plan_errors.png (what plans lose, and what they read): what
`attndb plot book.safetensors -o pictures` draws. Each is a function of attndb.plot by itself, too.
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
