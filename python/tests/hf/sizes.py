"""How much a test does, and what it has done by which seed: what testing/test_size.h and
testing/seed.h are in C++. scripts/long_runs.py reads by it what all tests print."""

from __future__ import annotations

import os
import re
from typing import TypeVar

Size = TypeVar("Size")

_COUNT = re.compile(r"ATTNDB_COUNT (\d+) (.*\S)")
_SEED = re.compile(r"ATTNDB_SEED=(\d+)")


def is_long() -> bool:
    size = os.environ.get("ATTNDB_TEST_SIZE", "")
    if size not in ("", "short", "long"):
        raise ValueError(f"ATTNDB_TEST_SIZE is {size!r}; expected short, long or nothing")
    return size == "long"


def sized(short: Size, long: Size) -> Size:
    return long if is_long() else short


def print_count(count: int, what: str) -> None:
    """What a test has done, as a line of its own, whatever pytest has printed before."""
    print(f"\nATTNDB_COUNT {count} {what}", flush=True)


def counts_in(log: str) -> list[tuple[int, str]]:
    return [(int(count), what) for count, what in _COUNT.findall(log)]


def seeds_in(log: str) -> list[int]:
    return [int(seed) for seed in _SEED.findall(log)]
