"""Run by test_hf_memory.py: `RESULT KIND STORE`. Saves the bytes of the KV, and resident memory
before the prompt and at its peak."""

from __future__ import annotations

import ctypes
import sys
import threading
from pathlib import Path
from typing import Any

import torch
from transformers import DynamicCache

import attndb
import attndb.hf
from hf_models import make_model, make_prompt, save_result

NUM_TOKENS = 4096
PIECE = 128
WIDE = {
    "num_hidden_layers": 1,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "head_dim": 256,
}


def keep_no_reserves() -> None:
    """What is freed goes back at once, and pages stay small: else peaks differ by 20 % from run to
    run, with what the system keeps or rounds up."""
    libc = ctypes.CDLL(None)
    m_mmap_threshold, pr_set_thp_disable = -3, 41
    libc.mallopt(m_mmap_threshold, 64 << 10)
    libc.prctl(pr_set_thp_disable, 1, 0, 0, 0)


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


class Peak:
    """The largest resident memory while it is open, seen every millisecond."""

    def __enter__(self) -> Peak:
        self.bytes = resident_bytes()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._end.wait(0.001):
            self.bytes = max(self.bytes, resident_bytes())

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


@torch.inference_mode()
def run(model: Any, cache: Any, ids: torch.Tensor) -> None:
    for begin in range(0, ids.shape[1], PIECE):
        model(ids[:, begin : begin + PIECE], past_key_values=cache, logits_to_keep=1)
    model.generate(
        torch.cat([ids, ids[:, :1]], dim=1),
        past_key_values=cache,
        max_new_tokens=8,
        do_sample=False,
    )


def main(result: str, kind: str, store: str) -> None:
    keep_no_reserves()
    torch.set_num_threads(1)
    limit = NUM_TOKENS + 64
    model = make_model("llama", **WIDE, max_position_embeddings=limit)
    model.set_attn_implementation("sdpa")
    ids = make_prompt(NUM_TOKENS)
    with attndb.open(store) as db:
        if kind == "attndb":
            attndb.hf.use(model)
            cache, _ = attndb.hf.create_session(db, model, ids)
        else:
            cache = DynamicCache(config=model.config)
        run(model, DynamicCache(config=model.config), ids[:, : 2 * PIECE])  # Warm up.
        start = resident_bytes()
        with Peak() as peak:
            run(model, cache, ids)
        cell = WIDE["num_hidden_layers"] * WIDE["num_key_value_heads"] * WIDE["head_dim"] * 2 * 4
        save_result(
            result,
            kv_bytes=NUM_TOKENS * cell,
            start_bytes=start,
            peak_bytes=peak.bytes,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
