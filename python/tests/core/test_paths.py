"""Paths are bytes of the system: as bytes and as text with surrogates they name the same files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import attndb
from core_steps import NUM_LAYERS, Steps

NAME = b"caf\xe9 \xff"  # Latin-1, and no UTF-8.


def forms(path: Path) -> list[str | bytes | Path]:
    raw = os.fsencode(path)
    return [raw, os.fsdecode(raw), Path(os.fsdecode(raw))]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / os.fsdecode(NAME)


def test_a_store_is_named_by_bytes_and_by_surrogates(
    path: Path, spec: attndb.ModelSpec, steps: Steps
) -> None:
    with attndb.open(os.fsencode(path)) as db:
        session, _ = db.create_session(spec, steps.ids)
        steps.run(session, 0, 50)
        db.store(session, steps.ids[:50], name="a")
    for form in forms(path):
        with attndb.open(form, create_if_missing=False) as db:
            assert db.list()[0].name == "a"
            assert os.fsencode(db.stats().path) == os.fsencode(path)
            assert "a" in db and repr(db).startswith("<attndb.DB ")
    assert os.listdir(os.fsencode(path.parent)) == [NAME]


def test_a_store_that_was_moved_away_is_told(path: Path) -> None:
    with attndb.open(path) as db:
        db.check_place()
        os.rename(path, path.parent / "away")
        with pytest.raises(attndb.IoError, match="was moved, replaced or removed"):
            db.check_place()
        os.rename(path.parent / "away", path)
        db.check_place()


def test_an_error_names_such_a_path(path: Path) -> None:
    for form in forms(path):
        with pytest.raises(attndb.NotFoundError) as refused:
            attndb.open(form, create_if_missing=False)
        said = os.fsencode(str(refused.value))
        assert said == b"there is no store at '" + os.fsencode(path) + b"'"
        with pytest.raises(attndb.NotFoundError):
            attndb.simulate(trace=form)


def test_kv_files_are_named_so_too(
    db: attndb.DB, path: Path, spec: attndb.ModelSpec, steps: Steps
) -> None:
    layers = [(steps.k[i], steps.v[i]) for i in range(NUM_LAYERS)]
    for i, form in enumerate(forms(path)):
        attndb.write_kv_file(form, spec, steps.ids, layers)
        file = attndb.KvFile(form)
        assert os.fsencode(file.path) == os.fsencode(path)
        np.testing.assert_array_equal(file.tokens, steps.ids)
        db.import_file(form, name=f"b{i}", replace=True)
        os.remove(path)
        db.export_file(f"b{i}", form)
        assert os.listdir(os.fsencode(path.parent)).count(NAME) == 1
        os.remove(path)
