"""Writes q, k and v of a text, from every layer of a transformers model, to a file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import torch

import attndb
from attndb._checked import Path
from attndb._kv_file import write_kv_file
from attndb.hf._binding import binding_of, use
from attndb.hf._session import create_session

_EVERY_ROW = 2**32 - 1  # dense_query_tokens under which a plan also holds for the prefill.


def capture_model(
    model: Any,
    tokens: Sequence[int],
    path: Path,
    *,
    layers: Sequence[int],
    num_queries: int,
    plan: str | None,
    notes: dict[str, str],
    ubatch_tokens: int,
    progress: Callable[[int, int], object] | None,
) -> None:
    """Runs `tokens` through `model` and writes a KV file; see :func:`attndb.capture`."""
    if binding_of(model) is None:
        use(model)
    recorder = _Recorder(layers, first_token=len(tokens) - num_queries)
    with tempfile.TemporaryDirectory(prefix="attndb-capture-") as folder, attndb.open(
        folder, query_sample=0, dense_query_tokens=_EVERY_ROW if plan else 64
    ) as db:
        ids = torch.as_tensor(tokens, dtype=torch.int64)[None]
        cache, _ = create_session(db, model, ids, reuse=False, plan=plan)
        with cache, torch.inference_mode():
            cache.on_queries = recorder
            for begin in range(0, ids.shape[1], ubatch_tokens):
                end = min(begin + ubatch_tokens, ids.shape[1])
                recorder.begin_token = begin
                model(input_ids=ids[:, begin:end], past_key_values=cache, use_cache=True)
                if progress is not None:
                    progress(end, ids.shape[1])
            rows = {
                layer: (*cache.session.read_kv(layer), recorder.queries(layer)) for layer in layers
            }
            write_kv_file(path, cache.spec, ids[0], rows, notes=notes)


class _Recorder:
    """Keeps q of the tokens from `first_token` on, for the chosen layers."""

    def __init__(self, layers: Sequence[int], first_token: int) -> None:
        self.begin_token = 0  # First token of the running forward.
        self._first_token = first_token
        self._parts: dict[int, list[torch.Tensor]] = {layer: [] for layer in layers}

    def __call__(self, layer: int, queries: torch.Tensor) -> None:
        """`queries` [1, n, num_q_heads, head_dim]."""
        skipped = max(self._first_token - self.begin_token, 0)
        if layer in self._parts and skipped < queries.shape[1]:
            self._parts[layer].append(queries[0, skipped:].float().clone())

    def queries(self, layer: int) -> torch.Tensor:
        return torch.cat(self._parts[layer])
