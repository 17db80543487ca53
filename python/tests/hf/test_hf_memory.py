"""Goal:   K and V are in memory once while a model reads and generates.
Method: a model with wide KV and little else reads a long prompt in pieces and generates; in a new
        process, the peak of resident memory above what was there before is held against the KV's
        bytes. transformers' own cache, which copies all of a layer to append a token, is the
        control: it must exceed the bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from hf_models import in_new_process

MEBIBYTE = 1 << 20


@pytest.mark.parametrize("kind", ["attndb", "built-in"])
def test_generation_holds_the_kv_once(kind: str, tmp_path: Path) -> None:
    saved = in_new_process("peak_memory.py", kind, str(tmp_path / "store"), folder=tmp_path)
    kv_bytes, grown = int(saved["kv_bytes"]), int(saved["peak_bytes"] - saved["start_bytes"])
    assert kv_bytes >= 256 * MEBIBYTE
    bound = 1.3 * kv_bytes
    assert (grown <= bound) == (kind == "attndb"), f"{grown / MEBIBYTE:.0f} MiB"
