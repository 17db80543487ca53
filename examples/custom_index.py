"""A research method of your own as a plan: pages of 16 tokens, represented by their mean keys.

Each q head attends to the pages whose mean keys score best. The head treats every other page as if
all tokens of the page had its mean key and mean value. The program compares the method with exact
top-k and with StreamingLLM (`window`), on random keys in bunches, which resemble the keys of a
text. With a file of `attndb capture` as the argument, the program uses the model's keys instead.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import attndb
from attndb import measure

PAGE = 16


class Pages(attndb.CustomIndex):
    keys = {"best": attndb.CustomKey(1, 1024, default=8, whole=True)}

    def build(self, rows: attndb.CustomRows) -> Any:
        pages = np.arange(0, len(rows.keys), PAGE)
        sizes = np.diff(np.append(pages, len(rows.keys)))[:, None]
        return [np.add.reduceat(of, pages) / sizes for of in (rows.keys, rows.values)]

    def select(self, query: attndb.CustomQuery, best: int) -> list[attndb.CustomSelection]:
        ranges, keys, values = [], [], []
        for number, part in enumerate(query.parts):
            first, last = part.begin // PAGE, (part.end - 1) // PAGE + 1  # Visible pages.
            keys.append(part.object[0][first:last])
            values.append(part.object[1][first:last])
            begin = np.arange(first, last) * PAGE
            end = np.minimum(begin + PAGE, part.num_rows)
            seen = np.minimum(end, part.end) - np.maximum(begin, part.begin)
            ranges.append(np.stack([np.full_like(begin, number), begin, end, seen], axis=1))
        pages, values = np.concatenate(ranges), np.concatenate(values)
        logits = query.scale * query.q @ np.concatenate(keys).T + np.log(pages[:, 3])
        return [self._of_head(pages, values, of_head, best) for of_head in logits]

    def _of_head(self, pages: Any, values: Any, logits: Any, best: int) -> attndb.CustomSelection:
        order = np.argsort(-logits, kind="stable")
        chosen, rest = np.sort(order[:best]), order[best:]
        if len(rest) == 0:
            return attndb.CustomSelection(pages[chosen, :3])
        lse = np.logaddexp.reduce(logits[rest])
        mean = np.exp(logits[rest] - lse) @ values[rest]
        return attndb.CustomSelection(pages[chosen, :3], lse, mean)


def write_bunches(path: Path) -> None:
    """Writes a file of one layer: 2,000 tokens with similar neighbours, and q of the last 4."""
    random = np.random.default_rng(0)
    spec = attndb.ModelSpec.uniform(1, 4, 2, 32, kv_dtype="float32", fingerprint=b"bunches")

    def rows(tokens: int, heads: int, scale: float) -> np.ndarray:
        bunches = random.standard_normal((-(-tokens // 40), heads, 32)).repeat(40, axis=0)[:tokens]
        own = 0.5 * random.standard_normal((tokens, heads, 32))
        return (scale * (bunches + own)).astype(np.float32)

    layer = rows(2000, 2, 1.0), rows(2000, 2, 1.0), rows(4, 4, 1.5)
    attndb.write_kv_file(path, spec, np.arange(2000), [layer])


def main() -> None:
    plans = ["pages(best=8,await=1)", "topk(k=128)", "topk(k=128,index=pages,best=16,await=1)",
             "window"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "bunches.safetensors"
        if len(sys.argv) == 1:
            write_bunches(path)
        found = measure.plan_errors(
            attndb.KvFile(path), plans, queries=4, custom_indexes={"pages": Pages()}
        )
    for plan in found:
        print(f"{plan.plan:40} error {plan.error:7.2%}  selected {plan.selected:6.0f}")
    by_plan = {plan.plan: plan.error for plan in found}
    if len(sys.argv) == 1:
        assert by_plan[plans[0]] < 0.5 * by_plan[plans[1]], "no estimate was merged"


if __name__ == "__main__":
    main()
