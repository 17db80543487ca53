"""Fixtures of the tests of attndb.hf. Without torch and transformers they are left out."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # Busy machines: waiting must not cost.
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import attndb  # noqa: E402
from hf_models import fast_folder  # noqa: E402

torch.set_num_threads(1)  # Models are tiny: a second thread waits more than it works.


@pytest.fixture
def db() -> Iterator[attndb.DB]:
    with (
        tempfile.TemporaryDirectory(dir=fast_folder()) as folder,
        attndb.open(Path(folder) / "store") as opened,
    ):
        yield opened
