"""Fixtures of the tests of attndb.measure and attndb.plot: what SmolLM2 attends to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("gguf")

import attndb  # noqa: E402

if TYPE_CHECKING:
    from smollm2_capture import Capture


@pytest.fixture(scope="session")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    import smollm2_capture

    if not smollm2_capture.MODEL.exists():
        pytest.skip(f"no {smollm2_capture.MODEL.name}: make setup")
    return smollm2_capture.capture(tmp_path_factory.mktemp("capture") / "topics.safetensors")


@pytest.fixture(scope="session")
def file(captured: Capture) -> attndb.KvFile:
    return attndb.KvFile(captured.path)
