"""How much a test does: ATTNDB_TEST_SIZE, as testing/test_size.h reads it."""

from __future__ import annotations

import os
from typing import TypeVar

Size = TypeVar("Size")


def is_long() -> bool:
    size = os.environ.get("ATTNDB_TEST_SIZE", "")
    if size not in ("", "short", "long"):
        raise ValueError(f"ATTNDB_TEST_SIZE is {size!r}; expected short, long or nothing")
    return size == "long"


def sized(short: Size, long: Size) -> Size:
    return long if is_long() else short
