"""attndb.simulate: options arrive, results are those of the table, mistakes are named."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

import attndb

GB = 10**9
SMALL: dict[str, Any] = {"num_conversations": 300, "memory_bytes": 20 * GB,
                         "disk_bytes": 100 * GB}


def test_each_size_and_policy_is_a_run() -> None:
    report = attndb.simulate(**SMALL | {"disk_bytes": [0, 100 * GB]}, policies=["lru", "attndb"])
    assert [run.policy for run in report.runs] == ["lru", "attndb"] * 2
    assert [run.disk_bytes for run in report.runs] == [0, 0, 100 * GB, 100 * GB]
    assert report.runs[3].hit_rate > report.runs[1].hit_rate > 0
    assert report.model.kv_bytes_per_token == 819_200
    assert str(report).count("attndb") == 2


def test_options_change_what_they_name() -> None:
    plain = attndb.simulate(**SMALL, policies="lru").runs[0]
    for change in (
        {"model": "65b"}, {"kv_bytes_per_token": 10_000_000}, {"window_tokens": 100_000},
        {"prefill_tokens_per_second": 10.0}, {"decode_seconds": 0.1}, {"num_gpus": 7},
        {"num_conversations": 400}, {"conversations_per_second": 0.01}, {"think_seconds": 9999.0},
        {"turn_tokens": 100.0}, {"new_token_share": 0.5}, {"seed": 5}, {"num_seeds": 2},
        {"warm_up_share": 0.0}, {"recompute_overflow": True}, {"memory_bytes": 50 * GB},
        {"disk_bytes": 10 * GB}, {"disk_bytes_per_second": 1e8}, {"policies": "fifo"},
        {"bound": True}, {"gpu_dollars": 9.0}, {"memory_gb_dollars": 9.0},
        {"disk_gb_dollars": 9.0},
    ):
        changed = attndb.simulate(**{"policies": "lru"} | SMALL | change).runs[0]
        assert changed != plain, change


def test_a_model_of_ones_own_and_a_trace(tmp_path: Path) -> None:
    trace = tmp_path / "turns.jsonl"
    turn = {"conversation": 1, "new_tokens": 10, "answer_tokens": 20}
    trace.write_text("\n".join(json.dumps(turn | {"time": time}) for time in (0, 100)))
    mine: dict[str, Any] = {"model": "", "kv_bytes_per_token": 1000, "window_tokens": 4096,
                            "prefill_tokens_per_second": 1000.0, "decode_seconds": 1.0,
                            "num_gpus": 1}
    report = attndb.simulate(**mine, trace=trace, warm_up_share=0.0, policies="lru")
    assert report.num_turns == 2
    assert report.runs[0].memory_hit_rate == 0.5
    trace.write_text(trace.read_text() + "\n{}")
    with pytest.raises(attndb.InvalidArgumentError, match="turns.jsonl line 3: expected a time"):
        attndb.simulate(**mine, trace=trace)


def test_progress_cancels_and_raises() -> None:
    seen: list[tuple[int, int]] = []
    attndb.simulate(**SMALL, policies="lru", progress=lambda *done: seen.append(done))
    assert seen[-1][0] == seen[-1][1] > 900
    with pytest.raises(attndb.CancelledError):
        attndb.simulate(**SMALL, progress=lambda *_: False)

    def fails(*_: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        attndb.simulate(**SMALL, progress=fails)


def test_mistakes_are_named() -> None:
    with pytest.raises(attndb.InvalidArgumentError, match="'lfu'"):
        attndb.simulate(policies="lfu")
    with pytest.raises(attndb.InvalidArgumentError, match="think_seconds"):
        attndb.simulate(think_seconds=-1.0)
    with pytest.raises(attndb.NotFoundError, match="nowhere"):
        attndb.simulate(trace="/nowhere")


def test_results_are_values() -> None:
    report = attndb.simulate(**SMALL, policies="lru")
    assert report == attndb.simulate(**SMALL, policies="lru")
    assert dataclasses.asdict(report)["runs"][0]["policy"] == "lru"
