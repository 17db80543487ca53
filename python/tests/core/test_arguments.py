"""Goal:   a wrong argument of any public call is refused in one line: argument, expected, found.
Method: a table of mistakes, and nonsense for every argument of every call that there is."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attndb
from attndb import measure
from attndb._checked import ANYTHING, Expected, _Arguments
from core_steps import HEAD_DIM, NUM_KV_HEADS, NUM_Q_HEADS, Steps

KV = np.zeros((1, NUM_KV_HEADS, HEAD_DIM), np.float32)
Q = np.zeros((1, NUM_Q_HEADS, HEAD_DIM), np.float32)
NAME = "expected a name, '#id' or an id"
U32 = r"expected an integer from 0 to 2\*\*32 - 1"
SERVER = attndb.connect("http://127.0.0.1:1")  # Nothing is asked of it.

OF_STORES: list[tuple[Callable[[Any, Any], object], str]] = [
    (lambda db, spec: db.describe(1.5), f"context: {NAME}, found 1.5"),
    (lambda db, spec: db.describe(True), f"context: {NAME}, found True"),
    (lambda db, spec: db.describe("\ud800"), f"context: {NAME}, found '"),
    (lambda db, spec: db.tokens(None), f"context: {NAME}, found None"),
    (lambda db, spec: db.drop(["a", "b"]), f"context: {NAME}, found "),
    (lambda db, spec: db.pin("a", 2), "pinned: expected True or False, found 2"),
    (lambda db, spec: db.declare_equal("a", "b"), "fingerprint_a: expected bytes, found 'a'"),
    (lambda db, spec: db.revoke_equal(b"a", None), "fingerprint_b: expected bytes, found None"),
    (lambda db, spec: db.find(5), "spec: expected a ModelSpec, found 5"),
    (lambda db, spec: db.find(spec, 5, []), r"heads: expected a list, each a pair \(layer, q head"),
    (lambda db, spec: db.find(spec, [(0, -1)], [Q]), "heads: expected a list, each a pair"),
    (lambda db, spec: db.find(spec, [(0, 0)], [[1.0]]), "q: expected a list, each an array"),
    (lambda db, spec: db.find(spec, [(0, 0)], [Q], limit=-1), f"limit: {U32}, found -1"),
    (lambda db, spec: db.create_session(None, [1]), "spec: expected a ModelSpec, found None"),
    (lambda db, spec: db.create_session(spec, None), "tokens: expected a list of integers, f"),
    (lambda db, spec: db.create_session(spec, "text"), "tokens: expected a list of integers, f"),
    (lambda db, spec: db.create_session(spec, [1], plan=5), "plan: expected text, found 5"),
    (lambda db, spec: db.create_session(spec, [1], reuse=1), "reuse: expected True or False"),
    (lambda db, spec: db.create_session(spec, [1], first_position=2**63), "first_position: exp"),
    (lambda db, spec: db.create_session_over(spec, 7), "contexts: expected a list, each a name, "),
    (lambda db, spec: db.create_session_over(spec, ["a", 1.5]), r"contexts: .* \['a', 1.5\]"),
    (lambda db, spec: db.explain_prefix(spec, [1], context=[]), f"context: {NAME}, found "),
    (lambda db, spec: db.store("session", [1]), "session: expected a Session, found 'session'"),
    (lambda db, spec: db.import_context(spec, [1], 5), r"layers: expected a pair \(k, v\) of each"),
    (lambda db, spec: db.import_context(spec, [1], [5]), r"layers: expected pairs \(k, v\), found"),
    (lambda db, spec: db.import_context(spec, [1], [(KV,)]), "found 1 arrays for layer 0"),
    (lambda db, spec: db.import_context(spec, [1], [], queries=5), "queries: expected a list"),
    (lambda db, spec: db.import_context(spec, [1], [(KV, KV)] * 2, name=5), "name: expected text"),
    (lambda db, spec: db.import_context(spec, [[1]], [[(5, KV)] * 2]), "prompt 0 .1.: k: expected"),
    (lambda db, spec: db.import_file(5), "path: expected text, bytes or a path, found 5"),
    (lambda db, spec: db.export_file("a", None), "path: expected text, bytes or a path, found N"),
    (lambda db, spec: db.verify(progress=5), "progress: expected a function, found 5"),
    (lambda db, spec: db.compact(segment_tokens=-1), "segment_tokens: expected an integer from 0"),
    (lambda db, spec: db.build("a", 5), "index: expected text, found 5"),
    (lambda db, spec: db.build("a", "pq", m="4"), "m: expected an integer, found '4'"),
    (lambda db, spec: db.machine("now"), "measure: expected True or False, found 'now'"),
    (lambda db, spec: db.set_ttl("a", [7]), "ttl: expected seconds, .* found "),
    (lambda db, spec: db.set_quota(1.5), "num_bytes: expected bytes, .* found 1.5"),
    (lambda db, spec: db.for_tenant(5), "name: expected text, found 5"),
]

OF_SESSIONS: list[tuple[Callable[[Any], object], str]] = [
    (lambda session: session.append("0", KV, KV), f"layer: {U32}, found '0'"),
    (lambda session: session.append(0, 5, KV), "k: expected an array on the CPU"),
    (lambda session: session.attend(-1, Q), f"layer: {U32}, found -1"),
    (lambda session: session.attend(0, [1.0]), r"q: expected an array on the CPU .*found \[1.0\]"),
    (lambda session: session.attend(0, Q, out=5), "out: expected a writable array"),
    (lambda session: session.attend_part(0, Q, Q, None, 0, 1.5), f"num_parts: {U32}, found 1.5"),
    (lambda session: session.update(1, KV, KV, 0), "q: expected an array"),
    (lambda session: session.search(0, None), "q: expected an array"),
    (lambda session: session.read_kv(0, -1), "begin: expected an integer from 0"),
    (lambda session: session.crop("all"), "num_tokens: expected an integer from 0 .*'all'"),
    (lambda session: session.set_filter(5), r"ranges: expected a list, each a pair \(begin, end\)"),
    (lambda session: session.set_filter([(1,)]), r"ranges: expected a list, each a pair"),
    (lambda session: session.drop_oldest(None), "n: expected an integer from 0"),
    (lambda session: session.heaviest_tokens(1.5), "num_tokens: expected an integer from 0"),
    (lambda session: session.rebase("x"), "position: expected an integer from "),
    (lambda session: session.set_plan(None), "plan: expected text, found None"),
    (lambda session: session.explain("x"), f"layer: {U32}, found 'x'"),
    (lambda session: session.await_derived(None), f"layer: {U32}, found None"),
    (lambda session: attndb.attend_batch(5, [1], 0, Q), "sessions: expected a list, each a Sess"),
    (lambda session: attndb.attend_batch([5], [1], 0, Q), r"sessions: .* found \[5\]"),
    (lambda session: attndb.attend_batch([], [], 0, Q), "sessions: expected one or more"),
]

OF_THE_MODULE: list[tuple[Callable[[str], object], str]] = [
    (lambda path: attndb.open("\ud800"), "path: expected text, bytes or a path, found "),
    (lambda path: attndb.open(None), "path: expected text, bytes or a path, found None"),
    (lambda path: attndb.open(path, num_threads="all"), f"num_threads: {U32}, found 'all'"),
    (lambda path: attndb.open(path, num_threads=-1), f"num_threads: {U32}, found -1"),
    (lambda path: attndb.open(path, query_sample="x"), "query_sample: expected a number"),
    (lambda path: attndb.open(path, read_only=1), "read_only: expected True or False, found 1"),
    (lambda path: attndb.open(path, custom_indexes=5), "custom_indexes: expected a mapping"),
    (lambda path: attndb.open(path, host_memory_bytes=[]), "host_memory_bytes: expected bytes"),
    (lambda path: attndb.capture(5, "text", path), "model: expected a transformers model or the p"),
    (lambda path: attndb.capture("m", "text", 5), "path: expected text, bytes or a path, found 5"),
    (lambda path: attndb.simulate(num_gpus=-1), f"num_gpus: {U32}, found -1"),
    (lambda path: attndb.simulate(memory_bytes="1GB"), "memory_bytes: expected an integer .* or a"),
    (lambda path: attndb.KvFile(5), "path: expected text, bytes or a path, found 5"),
    (lambda path: attndb.ModelSpec(5), "layers: expected a list, each a LayerSpec, found 5"),
    (lambda path: attndb.ModelSpec([]), "layers: expected one LayerSpec or more, found none"),
    (lambda path: attndb.ModelSpec.uniform("x", 1, 1, 8, fingerprint=b"x"), f"num_layers: {U32}"),
    (lambda path: attndb.LayerSpec(9, 2, 64), "num_q_heads: expected a multiple of num_kv_heads"),
    (lambda path: attndb.LayerSpec(1, 1, "8"), "head_dim: expected an integer, found '8'"),
    (lambda path: attndb.LayerSpec(1, 1, 8, rope=5), "rope: expected a Rope, found 5"),
    (lambda path: attndb.connect(5), "url: expected text, found 5"),
    (lambda path: attndb.connect("http://h", timeout="1s"), "timeout: expected a number"),
    (lambda path: attndb.connect("http://h", timeout=-1), "timeout: expected more than 0"),
    (lambda path: attndb.connect("http://h", key="a\n"), "key: expected ASCII"),
    (lambda path: SERVER.describe(1.5), f"context: {NAME}, found 1.5"),
    (lambda path: SERVER.ask([5]), r"messages: expected text or a list, each a mapping, found \[5"),
    (lambda path: SERVER.ask("?", seed={1}), "fields: expected what JSON can hold"),
    (lambda path: SERVER.import_text(5, "text"), "name: expected text, found 5"),
    (lambda path: measure.tokens_for_mass(path), "file: expected a KvFile"),
]


@pytest.mark.parametrize(("call", "says"), OF_STORES)
def test_mistakes_of_stores_say_what_was_expected(
    db: attndb.DB, spec: attndb.ModelSpec, call: Callable[[Any, Any], object], says: str
) -> None:
    _refused_in_one_line(lambda: call(db, spec), says)
    assert db.list() == []


@pytest.mark.parametrize(("call", "says"), OF_SESSIONS)
def test_mistakes_of_sessions_say_what_was_expected(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps, call: Callable[[Any], object], says: str
) -> None:
    session, _ = db.create_session(spec, steps.ids)
    steps.run(session, 0, 3)
    _refused_in_one_line(lambda: call(session), says)
    steps.run(session, 3, 4)  # Nothing was changed.


@pytest.mark.parametrize(("call", "says"), OF_THE_MODULE)
def test_mistakes_of_the_module_say_what_was_expected(
    tmp_path: Path, call: Callable[[str], object], says: str
) -> None:
    _refused_in_one_line(lambda: call(str(tmp_path / "new")), says)
    assert not (tmp_path / "new").exists()


def test_nonsense_is_refused_by_every_call_that_takes_something(
    db: attndb.DB, spec: attndb.ModelSpec, tmp_path: Path
) -> None:
    session, _ = db.create_session(spec, [1, 2])
    attndb.write_kv_file(tmp_path / "file", spec, [1], [(KV, KV)] * 2)
    objects = [db, session, SERVER, attndb.KvFile(tmp_path / "file"), attndb]
    num_calls = 0
    for owner in objects:
        for name, call in _public_calls(owner):
            arguments = [
                object()
                for parameter in inspect.signature(call).parameters.values()
                if parameter.default is parameter.empty
                and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
            ]
            if not arguments:
                continue
            num_calls += 1
            with pytest.raises(attndb.InvalidArgumentError) as caught:
                call(*arguments)
            assert "\n" not in str(caught.value), name
    assert num_calls > 40


def test_what_every_argument_must_be_is_known() -> None:
    owners = [attndb.DB, attndb.Session, attndb.Server, attndb.KvFile, attndb, measure]
    for owner in owners:
        for name, call in _public_calls(owner):
            expected = _Arguments(inspect.unwrap(call))._expected
            parameters = set(inspect.signature(call).parameters) - {"self", "options", "fields"}
            assert parameters <= set(expected), name
            assert all(isinstance(each, Expected) for each in expected.values())
    assert _Arguments(inspect.unwrap(attndb.open))._expected["num_threads"] is not ANYTHING


def test_a_callback_keeps_its_own_errors(db: attndb.DB, spec: attndb.ModelSpec) -> None:
    db.import_context(spec, [1], [(KV, KV)] * 2)

    def fails(done: int, total: int) -> None:
        raise TypeError("my own")

    with pytest.raises(TypeError, match="^my own$"):
        db.verify(progress=fails)


def test_numbers_of_numpy_are_numbers(db: attndb.DB, spec: attndb.ModelSpec) -> None:
    context = db.import_context(spec, [1], [(KV, KV)] * 2)
    assert db.describe(np.int64(context)).id == context and np.int64(context) in db
    assert 1.5 not in db and "#x" not in db
    db.create_session(spec, [1, 2]).session.crop(np.int64(1))


def test_help_shows_what_a_call_takes() -> None:
    assert "num_threads" in inspect.signature(attndb.open).parameters
    assert (attndb.DB.describe.__doc__ or "").startswith("One context")


def _refused_in_one_line(call: Callable[[], object], says: str) -> None:
    with pytest.raises(attndb.InvalidArgumentError, match=says) as caught:
        call()
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 240


def _public_calls(owner: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in getattr(owner, "__all__", None) or dir(owner):
        if name.startswith("_") or isinstance(inspect.getattr_static(owner, name), property):
            continue
        member = getattr(owner, name)
        if inspect.isroutine(member):
            yield name, member
