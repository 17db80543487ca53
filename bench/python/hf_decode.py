"""Is decoding through attndb as fast as transformers' own? SmolLM2, float32, sdpa, at 4K tokens.

Both sides hold the same text: a DynamicCache, and an AttndbCache with plan `full`. Rounds alternate
between them; a round runs a few one-token forwards and crops them off again, so that the length
stays. Prints one JSON object: tokens a second (median of all steps, with the MAD of their times),
and the difference of the last logits, which says that both do the same work.

    python bench/python/hf_decode.py [--tokens 4096] [--threads 2] [--rounds 12] [--models FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import pydoc_data.topics
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

import attndb
import attndb.hf

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
STEPS = 8  # One-token forwards a round.


def load(folder: Path) -> tuple[Any, Any]:
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=FILE)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=FILE, dtype=torch.float32)
    return model.eval(), tokenizer


def prompt_ids(tokenizer: Any, num_tokens: int) -> torch.Tensor:
    text = "\n".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))
    return tokenizer(text[: 8 * num_tokens], return_tensors="pt").input_ids[:, :num_tokens]


def prefill(model: Any, ids: torch.Tensor, cache: Any) -> float:
    """Runs `ids` in chunks; seconds."""
    start = time.perf_counter()
    for begin in range(cache.get_seq_length(), ids.shape[1], 512):
        model(ids[:, begin : begin + 512], past_key_values=cache, logits_to_keep=1)
    return time.perf_counter() - start


def decode_ms(model: Any, cache: Any, tokens: torch.Tensor) -> tuple[list[float], torch.Tensor]:
    times = []
    for i in range(STEPS):
        start = time.perf_counter()
        logits = model(tokens[:, i : i + 1], past_key_values=cache).logits
        times.append((time.perf_counter() - start) * 1e3)
    cache.crop(-STEPS)
    return times, logits


def measure(model: Any, caches: dict[str, Any], tokens: torch.Tensor, rounds: int) -> Any:
    times: dict[str, list[float]] = {side: [] for side in caches}
    logits = {}
    for number in range(rounds + 1):
        for side, cache in caches.items():
            new, logits[side] = decode_ms(model, cache, tokens)
            if number:  # The first round warms up.
                times[side] += new
    result = {side: summary(values) for side, values in times.items()}
    first, second = logits.values()
    return result, (first - second).abs().max().item()


def summary(times: list[float]) -> dict[str, float]:
    median = statistics.median(times)
    return {
        "tokens_per_s": round(1e3 / median, 2),
        "median_ms": round(median, 3),
        "mad_ms": round(statistics.median(abs(t - median) for t in times), 3),
        "fastest_ms": round(min(times), 3),
        "samples": len(times),
    }


def time_of(model: Any, function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(__file__).resolve().parents[2] / ".deps" / "models"
    parser.add_argument("--models", type=Path, default=default)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=12)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    model, tokenizer = load(arguments.models)
    ids = prompt_ids(tokenizer, arguments.tokens + STEPS)
    prompt, tokens = ids[:, : arguments.tokens], ids[:, arguments.tokens :]
    model.set_attn_implementation("sdpa")
    attndb.hf.use(model, plan="full", fingerprint=b"bench")
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        with attndb.open(folder, num_threads=arguments.threads) as db:
            ours, _ = attndb.hf.create_session(db, model, ids)
            caches = {"sdpa": DynamicCache(config=model.config), "attndb": ours}
            seconds = {side: prefill(model, prompt, cache) for side, cache in caches.items()}
            decode, difference = measure(model, caches, tokens, arguments.rounds)
    result = {
        "bench": "hf_decode",
        "machine": {"cpus": os.cpu_count(), "load": os.getloadavg()[0], "name": platform.machine()},
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "tokens": arguments.tokens,
        "threads": arguments.threads,
        "decode": decode,
        "speedup": round(decode["sdpa"]["median_ms"] / decode["attndb"]["median_ms"], 3),
        "prefill_s": {side: round(value, 2) for side, value in seconds.items()},
        "logit_difference": difference,
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
