"""Every exception: raised for its reason, with a message that names object, expected and found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import attndb
from attndb._errors import BY_CODE
from attndb._server import _error
from core_steps import HEAD_DIM, NUM_KV_HEADS, NUM_Q_HEADS, Steps


def zeros(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


KV = (4, NUM_KV_HEADS, HEAD_DIM)

# As StatusCodeName has them (src/common/status.cc), from number 1 on.
STATUS_CODES = [
    "invalid argument",
    "not found",
    "already exists",
    "failed precondition",
    "corruption",
    "i/o error",
    "resource exhausted",
    "unsupported",
    "busy",
    "read-only",
    "cancelled",
    "internal error",
    "other model",
]


@pytest.mark.parametrize(
    ("k", "message"),
    [
        ([[1.0]], "k: expected an array on the CPU.*found list"),
        (None, "k: expected an array on the CPU.*found NoneType"),
        (zeros(*KV, dtype=np.float64), "k: expected float32, float16 or bfloat16"),
        (zeros(*KV, dtype=np.int32), "k: expected float32, float16 or bfloat16"),
        (zeros(4, HEAD_DIM), r"k: expected shape \[rows, heads, dim\], found \[4, 32\]"),
        (zeros(4, NUM_KV_HEADS + 1, HEAD_DIM), "k"),
        (zeros(4, NUM_KV_HEADS, HEAD_DIM - 1), "k"),
        (zeros(5, NUM_KV_HEADS, HEAD_DIM), "k|v"),
        (torch.zeros(KV, device="meta"), "k: expected an array on the CPU"),
    ],
)
def test_bad_arrays(db: attndb.DB, spec: attndb.ModelSpec, k: Any, message: str) -> None:
    session, _ = db.create_session(spec, [1, 2, 3, 4])
    with pytest.raises(attndb.InvalidArgumentError, match=message):
        session.append(0, k, zeros(*KV))
    session.append(0, zeros(*KV), zeros(*KV))  # Nothing was changed.


def test_bad_outputs(db: attndb.DB, spec: attndb.ModelSpec) -> None:
    session, _ = db.create_session(spec, [1, 2, 3, 4])
    session.append(0, zeros(*KV), zeros(*KV))
    q = zeros(4, NUM_Q_HEADS, HEAD_DIM)
    frozen = q.copy()
    frozen.flags.writeable = False
    with pytest.raises(attndb.InvalidArgumentError, match="out: expected a writable array"):
        session.attend(0, q, out=frozen)
    with pytest.raises(attndb.InvalidArgumentError, match="out"):
        session.attend(0, q, out=zeros(4, NUM_Q_HEADS, HEAD_DIM + 1))
    with pytest.raises(attndb.InvalidArgumentError, match=r"lse: expected shape \[4, 6\]"):
        session.attend_part(0, q, q.copy(), zeros(4, 5), 0, 1)
    with pytest.raises(attndb.InvalidArgumentError, match="lse: expected a C-contiguous"):
        session.attend_part(0, q, q.copy(), zeros(4, 12)[:, ::2], 0, 1)
    with pytest.raises(attndb.InvalidArgumentError, match="layer 9"):
        session.attend(9, q)
    session.attend(0, frozen)  # Inputs may be read-only.


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([], "empty"),
        ([[]], "empty"),
        ([1.5, 2.5], "integers"),
        (np.zeros((2, 2), np.int32), "one dimension"),
        ([1, 2**40], "beyond"),
        ([1, -2], "-2"),
        ("text", "integers|dimension"),
    ],
)
def test_bad_tokens(db: attndb.DB, spec: attndb.ModelSpec, tokens: Any, message: str) -> None:
    with pytest.raises(attndb.InvalidArgumentError, match=message):
        db.create_session(spec, tokens)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_q_heads", 7),
        ("num_q_heads", -1),
        ("num_q_heads", "six"),
        ("head_dim", 2**33),
        ("scale", float("nan")),
        ("scale", "big"),
        ("rope", attndb.Rope(layout="diagonal")),  # type: ignore[arg-type]
        ("rope", attndb.Rope(rope_dims=31)),
        ("denominator_logits", [0.5] * 5),
        ("denominator_logits", [0.5] * 5 + [float("inf")]),
        ("denominator_logits", [0.5] * 5 + ["high"]),
        ("denominator_logits", 0.5),
    ],
)
def test_bad_specs(db: attndb.DB, field: str, value: Any) -> None:
    fields = {"num_q_heads": 6, "num_kv_heads": 2, "head_dim": 32, field: value}
    with pytest.raises(attndb.InvalidArgumentError):  # Where it is made, or where it is used.
        spec = attndb.ModelSpec([attndb.LayerSpec(**fields)], fingerprint=b"x")
        db.create_session(spec, [1])
    with pytest.raises(attndb.InvalidArgumentError, match="ModelSpec"):
        db.create_session("spec", [1])  # type: ignore[call-overload]
    with pytest.raises(attndb.InvalidArgumentError, match="kv_dtype"):
        db.create_session(attndb.ModelSpec([], "int8", b"x"), [1])  # type: ignore[arg-type]


def test_not_found_already_exists_and_failed_precondition(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    with pytest.raises(attndb.NotFoundError, match="nothing"):
        db.describe("nothing")
    with pytest.raises(LookupError):
        db.drop(77)
    session, _ = db.create_session(spec, steps.ids)
    steps.run(session, 0, 10)
    db.store(session, steps.ids[:10], name="a")
    steps.run(session, 10, 12)
    with pytest.raises(attndb.AlreadyExistsError, match="'?a'?"):
        db.store(session, steps.ids[:12], name="a")
    db.store(session, steps.ids[:12], name="a", replace=True)
    session.append(0, steps.k[0, 12:13], steps.v[0, 12:13])
    with pytest.raises(attndb.FailedPreconditionError):
        db.store(session, steps.ids[:13])
    with pytest.raises(ValueError, match="ttl"):
        db.set_ttl("a", -1)


def test_a_value_that_overflows_names_layer_head_and_token(db: attndb.DB) -> None:
    spec = attndb.ModelSpec.uniform(1, 1, 1, 8, kv_dtype="float16", fingerprint=b"x")
    k = zeros(3, 1, 8)
    k[2, 0, 5] = 1e6
    session, _ = db.create_session(spec, [1, 2, 3])
    with pytest.raises(attndb.InvalidArgumentError, match="layer 0.*head 0.*token 2"):
        session.append(0, k, k)


def test_busy_read_only_and_io(tmp_path: Path, spec: attndb.ModelSpec, steps: Steps) -> None:
    path = tmp_path / "store"
    with attndb.open(path) as db:
        session, _ = db.create_session(spec, steps.ids)
        steps.run(session, 0, 10)
        db.store(session, steps.ids[:10], name="a")
        code = (
            f"import attndb\ntry: attndb.open({str(path)!r})\n"
            "except attndb.BusyError: print('busy')"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.stdout == "busy\n", done.stderr
    with attndb.open(path, read_only=True) as db, pytest.raises(attndb.ReadOnlyError):
        db.drop("a")
    with pytest.raises(attndb.NotFoundError):
        attndb.open(tmp_path / "none", create_if_missing=False)
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(attndb.InvalidArgumentError, match="file' is a file, expected a folder"):
        attndb.open(tmp_path / "file" / "store")
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(attndb.InvalidArgumentError, match="link to 'nowhere', which does not"):
        attndb.open(tmp_path / "link")


def test_resource_exhausted(db: attndb.DB, spec: attndb.ModelSpec, steps: Steps) -> None:
    db.set_quota(1000)
    session, _ = db.create_session(spec, steps.ids)
    steps.run(session, 0, 60)
    with pytest.raises(attndb.ResourceExhaustedError, match="quota"):
        db.store(session, steps.ids[:60])
    assert session.num_tokens == 60 and db.list() == []


def test_a_newer_store_and_a_broken_catalog(
    tmp_path: Path, spec: attndb.ModelSpec, steps: Steps
) -> None:
    path = tmp_path / "store"
    with attndb.open(path) as db:
        session, _ = db.create_session(spec, steps.ids)
        steps.run(session, 0, 10)
        db.store(session, steps.ids[:10], name="a")
    import sqlite3

    catalog = path / "catalog.db"
    connection = sqlite3.connect(catalog)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.execute(f"PRAGMA user_version = {version + 1000}")
    connection.commit()
    connection.close()
    with pytest.raises(attndb.UnsupportedError, match=str(version + 1000)):
        attndb.open(path)
    with catalog.open("r+b") as file:
        file.write(os.urandom(4096))
    with pytest.raises(attndb.CorruptionError):
        attndb.open(path)


@pytest.mark.parametrize(("number", "name"), list(enumerate(STATUS_CODES, start=1)))
def test_what_a_server_names_is_raised_by_that_name(number: int, name: str) -> None:
    body = json.dumps({"error": {"message": "why", "status": name}}).encode()
    error = _error(500, body)
    assert type(error) is BY_CODE[number]
    assert str(error) == "why"


def test_each_status_code_has_its_exception() -> None:
    assert [error.code for error in BY_CODE[1:]] == STATUS_CODES
    assert BY_CODE[0] is attndb.Error
    assert all(issubclass(error, attndb.Error) for error in BY_CODE)
    assert issubclass(attndb.InvalidArgumentError, ValueError)
    assert issubclass(attndb.NotFoundError, LookupError)
    assert issubclass(attndb.UnsupportedError, NotImplementedError)
