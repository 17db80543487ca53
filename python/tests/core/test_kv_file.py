"""Safetensors files: written, read by the safetensors library, imported; hostile ones refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import attndb
from core_steps import NUM_LAYERS, Steps


@pytest.fixture
def book(tmp_path: Path, spec: attndb.ModelSpec, steps: Steps) -> Path:
    path = tmp_path / "book.safetensors"
    layers = [(steps.k[i], steps.v[i], steps.q[i, 70:]) for i in range(NUM_LAYERS)]
    attndb.write_kv_file(path, spec, steps.ids, layers, notes={"model": "random"})
    return path


def test_the_safetensors_library_reads_what_is_written(book: Path, steps: Steps) -> None:
    arrays = load_file(book)
    np.testing.assert_array_equal(arrays["tokens"], steps.ids)
    np.testing.assert_array_equal(arrays["layers.1.k"].transpose(1, 0, 2), steps.k[1])
    np.testing.assert_array_equal(arrays["layers.1.q"].transpose(1, 0, 2), steps.q[1, 70:])


def test_a_kv_file_gives_back_what_was_written(
    book: Path, spec: attndb.ModelSpec, steps: Steps
) -> None:
    file = attndb.KvFile(book)
    assert file.layers == (0, 1) and file.num_queries == 20 and file.num_tokens == 90
    assert file.notes == {"model": "random"} and "90 tokens" in repr(file)
    assert file.spec.fingerprint == b"tiny" and file.spec.kv_dtype == "float32"
    np.testing.assert_array_equal(file.tokens, steps.ids)
    np.testing.assert_array_equal(file.positions, np.arange(90))
    k, v = file.read_kv(1, 10, 20)
    np.testing.assert_array_equal(k, steps.k[1, 10:20])
    np.testing.assert_array_equal(v, steps.v[1, 10:20])
    np.testing.assert_array_equal(file.read_queries(0), steps.q[0, 70:])
    with pytest.raises(attndb.InvalidArgumentError, match="layer 7"):
        file.read_kv(7)
    with pytest.raises(attndb.InvalidArgumentError):
        file.read_queries(0, 10, 90)


def test_imports_and_exports(
    db: attndb.DB, book: Path, tmp_path: Path, spec: attndb.ModelSpec, steps: Steps
) -> None:
    db.import_file(book, name="book")
    session, _ = db.create_session(spec, steps.ids)
    assert session.num_reused == 89
    out = steps.run(session, 89, 90)
    np.testing.assert_allclose(out[1], steps.expected(1, 89, 90)[0], rtol=0, atol=1e-5)
    copy = tmp_path / "copy.safetensors"
    db.export_file("book", copy)
    np.testing.assert_array_equal(attndb.KvFile(copy).read_kv(1)[0], steps.k[1])
    with pytest.raises(attndb.AlreadyExistsError):
        db.export_file("book", copy)
    db.import_file(copy, name="other", fingerprint=b"other model")
    assert db.describe("other").fingerprint == b"other model"


def test_cuts_go_through_a_file(
    db: attndb.DB, tmp_path: Path, spec: attndb.ModelSpec, steps: Steps
) -> None:
    spec = replace(spec, layers=[replace(layer, rope=attndb.Rope()) for layer in spec.layers])
    session, _ = db.create_session(spec, steps.ids)
    steps.run(session, 0, 60)
    session.drop_oldest(30, keep_first=2)
    steps.run(session, 60, 90)
    cuts = session.cuts
    assert cuts == (attndb.Cut(60, ((2, 32),)),)
    db.store(session, steps.ids[:90], name="cut")
    info = db.describe("cut")
    assert (info.cuts, info.num_dropped) == (cuts, 30)
    path = tmp_path / "cut.safetensors"
    db.export_file("cut", path)
    file = attndb.KvFile(path)
    assert file.cuts == cuts
    copy = tmp_path / "copy.safetensors"
    layers = [file.read_kv(layer) for layer in range(NUM_LAYERS)]
    attndb.write_kv_file(copy, file.spec, file.tokens, layers, cuts=file.cuts)
    with attndb.open(tmp_path / "other") as other:
        other.import_file(copy, name="copy")
        assert other.describe("copy").cuts == cuts
        again, rest = other.create_session(spec, list(steps.ids) + [1])
        assert (again.cuts, len(rest)) == (cuts, 1)
        plain, _ = other.create_session(spec, list(steps.ids) + [1], truncated=False)
        assert plain.cuts == () and plain.num_reused < 60


def test_a_file_of_some_layers_is_read_and_not_imported(
    db: attndb.DB, tmp_path: Path, spec: attndb.ModelSpec, steps: Steps
) -> None:
    path = tmp_path / "part.safetensors"
    attndb.write_kv_file(path, spec, steps.ids, {1: (steps.k[1], steps.v[1])})
    assert attndb.KvFile(path).layers == (1,)
    with pytest.raises(attndb.InvalidArgumentError, match="layer"):
        db.import_file(path)
    assert db.list() == []


def test_refuses_what_is_no_such_file(db: attndb.DB, book: Path, tmp_path: Path) -> None:
    data = book.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["layers.0.k"]["shape"][1] += 1
    text = json.dumps(header).encode()
    hostile = {
        "empty": b"",
        "short": data[: len(data) // 2],
        "long": data + b"more",
        "huge header": (2**60).to_bytes(8, "little") + data[8:],
        "no json": data[:8] + b"x" * length + data[8 + length :],
        "another shape": len(text).to_bytes(8, "little") + text + data[8 + length :],
    }
    for name, content in hostile.items():
        path = tmp_path / f"{name}.safetensors"
        path.write_bytes(content)
        with pytest.raises(attndb.InvalidArgumentError) as error:
            db.import_file(path)
        assert path.name in str(error.value), name
    stranger = tmp_path / "stranger.safetensors"
    save_file({"weights": np.zeros(3, np.float32)}, stranger)
    with pytest.raises(attndb.InvalidArgumentError):
        attndb.KvFile(stranger)
    with pytest.raises(attndb.NotFoundError):
        attndb.KvFile(tmp_path / "none")
    assert db.list() == []


def test_a_failed_write_leaves_nothing(
    tmp_path: Path, spec: attndb.ModelSpec, steps: Steps
) -> None:
    path = tmp_path / "bad.safetensors"
    with pytest.raises(attndb.InvalidArgumentError):
        attndb.write_kv_file(path, spec, steps.ids, [(steps.k[0], steps.v[0][:5])] * NUM_LAYERS)
    with pytest.raises(attndb.InvalidArgumentError, match="unequal"):
        layers = [(steps.k[i], steps.v[i], steps.q[i, i:]) for i in range(NUM_LAYERS)]
        attndb.write_kv_file(path, spec, steps.ids, layers)
    assert list(tmp_path.iterdir()) == []
