"""Is decoding through attndb as fast as transformers' own? SmolLM2, float32, sdpa, at 4K tokens.

Both sides hold the same text: a DynamicCache, and an AttndbCache with plan `full`. Rounds alternate
between them; a round runs a few one-token forwards and crops them off again, so that the length
stays. Prints one JSON object: tokens a second (of the median step, with the MAD; CPU time is moved
less by what else the machine does), and the difference of the last logits, which says that both do
the same work.

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
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

import attndb
import attndb.hf

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
STEPS = 8  # One-token forwards a round.
Time = tuple[float, float]  # Milliseconds: on the clock, and of all threads.


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


def decode(model: Any, cache: Any, tokens: torch.Tensor) -> tuple[list[Time], torch.Tensor]:
    times = []
    for i in range(STEPS):
        start, start_cpu = time.perf_counter(), time.process_time()
        logits = model(tokens[:, i : i + 1], past_key_values=cache).logits
        wall, cpu = time.perf_counter() - start, time.process_time() - start_cpu
        times.append((wall * 1e3, cpu * 1e3))
    cache.crop(-STEPS)
    return times, logits


def measure(model: Any, caches: dict[str, Any], tokens: torch.Tensor, rounds: int) -> Any:
    times: dict[str, list[Time]] = {side: [] for side in caches}
    logits = {}
    for number in range(rounds + 1):
        for side, cache in caches.items():
            new, logits[side] = decode(model, cache, tokens)
            if number:  # The first round warms up.
                times[side] += new
    result = {side: summary(values) for side, values in times.items()}
    first, second = logits.values()
    return result, (first - second).abs().max().item()


def summary(times: list[Time]) -> dict[str, float]:
    walls = [wall for wall, _ in times]
    median = statistics.median(walls)
    return {
        "tokens_per_s": round(1e3 / median, 2),
        "median_ms": round(median, 3),
        "mad_ms": round(statistics.median(abs(wall - median) for wall in walls), 3),
        "fastest_ms": round(min(walls), 3),
        "cpu_ms": round(statistics.median(cpu for _, cpu in times), 3),
        "samples": len(times),
    }


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
            times, difference = measure(model, caches, tokens, arguments.rounds)
    result = {
        "bench": "hf_decode",
        "machine": {"cpus": os.cpu_count(), "load": os.getloadavg()[0], "name": platform.machine()},
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "tokens": arguments.tokens,
        "threads": arguments.threads,
        "decode": times,
        "speedup": round(times["sdpa"]["median_ms"] / times["attndb"]["median_ms"], 3),
        "prefill_s": {side: round(value, 2) for side, value in seconds.items()},
        "logit_difference": difference,
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
