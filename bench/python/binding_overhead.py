"""What one append and one attend cost in Python, where the arithmetic is nothing.

One token, one layer, one head of 8 channels: all but about a microsecond is the call's own. Prints
one JSON line: microseconds a call, the median of rounds, for numpy and torch.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import attndb

ROUNDS, STEPS = 15, 2000


def call_us(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    for _ in range(STEPS):
        call()
    return (time.perf_counter() - start) / STEPS * 1e6


def main() -> None:
    spec = attndb.ModelSpec.uniform(1, 1, 1, 8, kv_dtype="float32", fingerprint=b"tiny")
    rows = {
        "numpy": (np.zeros((1, 1, 8), np.float32), np.zeros((1, 1, 8), np.float32)),
        "torch": (torch.zeros(1, 1, 8), torch.zeros(1, 1, 8)),
    }
    results: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder, attndb.open(folder, query_sample=0) as db:
        for library, (row, out) in rows.items():
            append, attend = [], []
            session, _ = db.create_session(spec, [1])
            for _ in range(ROUNDS):
                session.reset()
                append.append(call_us(lambda: session.append(0, row, row)))
                session.crop(1)
                attend.append(call_us(lambda: session.attend(0, row, out=out)))
            results[f"{library}_append_us"] = round(statistics.median(append), 2)
            results[f"{library}_attend_us"] = round(statistics.median(attend), 2)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
