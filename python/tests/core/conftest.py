"""Fixtures of the core's tests: a store, a spec, one sequence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import attndb
from core_steps import HEAD_DIM, NUM_KV_HEADS, NUM_LAYERS, NUM_Q_HEADS, Steps


@pytest.fixture
def spec() -> attndb.ModelSpec:
    return attndb.ModelSpec.uniform(
        NUM_LAYERS, NUM_Q_HEADS, NUM_KV_HEADS, HEAD_DIM, kv_dtype="float32", fingerprint=b"tiny"
    )


@pytest.fixture
def db(tmp_path: Path) -> Iterator[attndb.DB]:
    with attndb.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def steps() -> Steps:
    return Steps(90)
