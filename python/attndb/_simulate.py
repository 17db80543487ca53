"""Simulates which conversations stay in memory and on disk (include/attndb/tiers.h)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from attndb import _core
from attndb._checked import U32, U64, Path, checked
from attndb._results import SimulatedModel, SimulatedRun, SimulateReport

_GB = 10**9


@checked
def simulate(
    *,
    model: str = "13b",
    kv_bytes_per_token: U64 = 0,
    window_tokens: U64 = 0,
    prefill_tokens_per_second: float = 0.0,
    decode_seconds: float = 0.0,
    num_gpus: U32 = 0,
    trace: Path = "",
    num_conversations: U64 = 9000,
    conversations_per_second: float = 1.0,
    think_seconds: float = 60.0,
    turn_tokens: float = 2600.0,
    new_token_share: float = 0.06,
    seed: U64 = 1,
    num_seeds: U32 = 1,
    warm_up_share: float = 0.316,
    recompute_overflow: bool = False,
    memory_bytes: U64 | Sequence[U64] = 128 * _GB,
    disk_bytes: U64 | Sequence[U64] = 10_000 * _GB,
    disk_bytes_per_second: float = 5e9,
    policies: str | Sequence[str] = ("lru", "fifo", "attention_store", "attndb"),
    bound: bool = False,
    gpu_dollars: float = 5.0,
    memory_gb_dollars: float = 0.0088,
    disk_gb_dollars: float = 0.000082,
    progress: Callable[[int, int], object] | None = None,
) -> SimulateReport:
    """Replays conversations with each size of memory and disk under each placement policy.

    ``model``: one of AttentionStore's models, "13b", "65b", "70b" or "falcon". A figure of the
    model that is given as another argument, and is not 0, replaces the model's own; "" = all
    figures are given. ``trace``: a file with one JSON object per turn (docs/tiers.md). Without a
    trace, conversations are synthetic, of ShareGPT's shape, and results are means of ``num_seeds``
    workloads. ``policies``: "none", "lru", "fifo", "attention_store", "attndb", "belady", with keys
    as in "attndb(bytes=1)". ``bound``: also run Belady's rule, which knows the time of each return.
    ``*_dollars``: price of an hour of a GPU, or of a GB.

    ``progress(turns_done, turns_total)`` is called now and then; False cancels and raises
    CancelledError. ``print(report)`` prints a table; ``attndb.plot.tiers`` draws the report.

    Raises InvalidArgumentError (an option, a line of the trace), NotFoundError, IoError.
    """
    fields = _core.simulate(
        {
            "model": model,
            "kv_bytes_per_token": kv_bytes_per_token,
            "window_tokens": window_tokens,
            "prefill_tokens_per_second": prefill_tokens_per_second,
            "decode_seconds": decode_seconds,
            "num_gpus": num_gpus,
            "trace": os.fsencode(trace),
            "num_conversations": num_conversations,
            "conversations_per_second": conversations_per_second,
            "think_seconds": think_seconds,
            "turn_tokens": turn_tokens,
            "new_token_share": new_token_share,
            "seed": seed,
            "num_seeds": num_seeds,
            "warm_up_share": warm_up_share,
            "recompute_overflow": recompute_overflow,
            "memory_bytes": _sizes(memory_bytes),
            "disk_bytes": _sizes(disk_bytes),
            "disk_bytes_per_second": disk_bytes_per_second,
            "policies": [policies] if isinstance(policies, str) else list(policies),
            "bound": bound,
            "gpu_dollars": gpu_dollars,
            "memory_gb_dollars": memory_gb_dollars,
            "disk_gb_dollars": disk_gb_dollars,
        },
        progress,
    )
    runs = tuple(SimulatedRun(**row) for row in fields.pop("runs"))
    return SimulateReport(model=SimulatedModel(**fields.pop("model")), runs=runs, **fields)


def _sizes(sizes: int | Sequence[int]) -> list[int]:
    return [sizes] if isinstance(sizes, int) else list(sizes)
