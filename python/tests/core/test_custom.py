"""Types of queries and indexes in Python: what they select and estimate is what is attended to,
their mistakes are errors that name them, and no lock is held while they wait for the interpreter.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attndb
from core_steps import NUM_KV_HEADS, NUM_LAYERS, Steps

STORED, ALL = 600, 620


class EveryThird(attndb.CustomIndex):
    """Attends to rows 0, 3, 6, ... and estimates the others by what they are."""

    keys = {"share": attndb.CustomKey(0, 1, default=0.5)}

    def __init__(self) -> None:
        self.given: list[float] = []
        self.rows: attndb.CustomRows | None = None
        self.hook: Callable[[attndb.CustomQuery], Any] | None = None

    def build(self, rows: attndb.CustomRows) -> Any:
        self.rows = rows
        return rows.keys, rows.values

    def select(self, query: attndb.CustomQuery, share: float) -> Any:
        self.given.append(share)
        if self.hook is not None:
            return self.hook(query)
        ranges, logits, values = [], [], []
        for number, part in enumerate(query.parts):
            rows = np.arange(part.num_rows)
            chosen = rows[rows % 3 == 0]
            ranges.append(np.stack([np.full_like(chosen, number), chosen, chosen + 1], axis=1))
            rest = rows[(rows % 3 != 0) & (rows >= part.begin) & (rows < part.end)]
            logits.append(query.scale * query.q.astype(float) @ part.object[0][rest].T)
            values.append(part.object[1][rest])
        mean = np.concatenate(values)
        selections = []
        for of_head in np.concatenate(logits, axis=1):
            lse = float(np.logaddexp.reduce(of_head))
            rest_value = np.exp(of_head - lse) @ mean
            selections.append(attndb.CustomSelection(np.concatenate(ranges), lse, rest_value))
        return selections


@pytest.fixture
def index() -> EveryThird:
    return EveryThird()


def opened(tmp_path: Path, index: Any, **options: Any) -> attndb.DB:
    return attndb.open(tmp_path / "store", custom_indexes={"third": index}, **options)


def session_of(db: attndb.DB, spec: attndb.ModelSpec, steps: Steps, plan: str) -> attndb.Session:
    """Holds STORED stored tokens, and appended ones up to the last but one."""
    if not db.list():
        first, _ = db.create_session(spec, steps.ids[:STORED])
        steps.run(first, 0, STORED)
        db.store(first, steps.ids[:STORED])
    session, rest = db.create_session(spec, steps.ids[:ALL])
    assert len(rest) == ALL - STORED
    steps.run(session, STORED, ALL)
    session.set_plan(plan)
    return session


def last_rows(session: attndb.Session, steps: Steps) -> np.ndarray:
    rows = []
    for layer in range(NUM_LAYERS):
        session.await_derived(layer)
        rows.append(session.attend(layer, steps.q[layer, ALL - 1 : ALL])[0])
    return np.stack(rows)


def test_an_exact_estimate_gives_full_attention(
    tmp_path: Path, spec: attndb.ModelSpec, index: EveryThird
) -> None:
    steps = Steps(ALL)
    with opened(tmp_path, index) as db:
        session = session_of(db, spec, steps, "third(share=0.25)")
        found = last_rows(session, steps)
        expected = [steps.expected(layer, ALL - 1, ALL)[0][0] for layer in range(NUM_LAYERS)]
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert index.given and set(index.given) == {0.25}
        head = session.explain().layers[0].heads[0]
        assert head.plan == "third(share=0.25,sink=16,window=128)"
        assert 100 < head.selected_mean < 200
        index.hook = lambda query: attndb.CustomSelection()  # Sinks and the window are left.
        dropped = last_rows(session, steps)
        assert np.abs(dropped - np.stack(expected)).max() > 1e-3
    assert index.rows is not None and not index.rows.keys.flags.writeable
    assert index.rows.keys.shape == (STORED, 32) and len(index.rows.queries) > 0


def test_what_a_session_appends_is_extended_by_4096_tokens(
    tmp_path: Path, spec: attndb.ModelSpec
) -> None:
    class Extending(EveryThird):
        def build(self, rows: attndb.CustomRows) -> Any:
            raise AssertionError("nothing is stored")

        def extend(self, rows: attndb.CustomRows) -> Any:
            extended.append(rows)
            return rows.keys, rows.values

    extended: list[attndb.CustomRows] = []
    steps = Steps(4300)
    with opened(tmp_path, Extending()) as db:
        session, _ = db.create_session(spec, steps.ids, plan="third")
        steps.run(session, 0, 4299)
        for layer in range(NUM_LAYERS):  # Else the mean has tokens that came before the block.
            session.await_derived(layer)
        outputs = steps.run(session, 4299, 4300)
        for layer, out in enumerate(outputs):
            np.testing.assert_allclose(out, steps.expected(layer, 4299, 4300)[0], atol=1e-5)
            head = session.explain().layers[layer].heads[0]
            # A third of the block between sink and window, and what follows it.
            assert (4096 - 16) / 3 - 1 < head.selected_mean < 4096 / 3 + 4300 - 4096
    keys = {rows.keys[0].tobytes(): rows for rows in extended}
    assert len(extended) == len(keys) == NUM_LAYERS * NUM_KV_HEADS
    for layer in range(NUM_LAYERS):
        for head in range(NUM_KV_HEADS):
            rows = keys[steps.k[layer, 0, head].tobytes()]
            np.testing.assert_array_equal(rows.keys, steps.k[layer, :4096, head])
            np.testing.assert_array_equal(rows.values, steps.v[layer, :4096, head])


def test_it_is_an_index_of_topk(tmp_path: Path, spec: attndb.ModelSpec, index: EveryThird) -> None:
    steps = Steps(ALL)
    with opened(tmp_path, index) as db:
        session = session_of(db, spec, steps, "topk(k=20,index=third)")
        last_rows(session, steps)
        for found in session.search(0, steps.q[0, ALL - 1 : ALL]):
            assert len(found.tokens) == 20
            assert all(token % 3 == 0 or token >= STORED for token in found.tokens)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (7, "expected a CustomSelection, or one for each of 3 q heads, found int"),
        ([attndb.CustomSelection()], "found 1"),
        (attndb.CustomSelection([[0, 1]]), r"\[n, 3\]"),
        (attndb.CustomSelection([[0.5, 1, 2]]), "whole numbers"),
        (attndb.CustomSelection([[0, -1, 2]]), "from 0 to 2"),
        (attndb.CustomSelection([[0, 5, 601]]), r"expected rows in \[0, 600\)"),
        (attndb.CustomSelection([[3, 5, 6]]), "expected a part below 1"),
        (attndb.CustomSelection([[0, 9, 20], [0, 5, 8]]), "expected a range after"),
        (attndb.CustomSelection(rest_lse=float("nan")), "expected rest_lse finite"),
        (attndb.CustomSelection(rest_lse=0.0, rest_value=[1.0]), "32 elements, found 1"),
        (attndb.CustomSelection(rest_lse=0.0, rest_value=[np.nan] * 32), "finite rest_value"),
    ],
)
def test_wrong_answers_fail_the_call(
    tmp_path: Path, spec: attndb.ModelSpec, index: EveryThird, answer: Any, text: str
) -> None:
    steps = Steps(ALL)
    index.hook = lambda query: answer
    with opened(tmp_path, index) as db:
        session = session_of(db, spec, steps, "third")
        with pytest.raises(attndb.InvalidArgumentError, match=text) as raised:
            last_rows(session, steps)
        assert "custom index 'third', layer 0, kv head 0" in str(raised.value)
        session.crop(ALL)
        index.hook = None
        last_rows(session, steps)


def test_arrays_of_a_part_that_failed_stay_for_the_others(
    tmp_path: Path, spec: attndb.ModelSpec, index: EveryThird
) -> None:
    steps = Steps(ALL)
    given: list[np.ndarray] = []

    def fail_once(query: attndb.CustomQuery) -> Any:
        given.append(query.q.copy())
        if len(given) == 1:
            raise KeyError("no such page")
        return attndb.CustomSelection()

    with opened(tmp_path, index) as db:
        session = session_of(db, spec, steps, "third")
        session.await_derived(0)
        index.hook = fail_once
        q = steps.q[0, ALL - 1 : ALL].copy()
        out = np.empty_like(q)
        refs = [weakref.ref(q)]
        with pytest.raises(attndb.InvalidArgumentError, match="no such page") as raised:
            session.attend_part(0, q, out, None, 0, 2)
        del q, raised
        gc.collect()
        assert refs[0]() is not None
        for _ in range(20):  # Refused again and again: the arrays that are kept are limited.
            q = steps.q[0, ALL - 1 : ALL].copy()
            refs.append(weakref.ref(q))
            with pytest.raises(attndb.FailedPreconditionError, match="twice|reset"):
                session.attend_part(0, q, out, None, 0, 2)
            del q
        gc.collect()
        assert refs[0]() is not None and sum(ref() is not None for ref in refs) == 16
        try:
            session.attend_part(0, steps.q[0, ALL - 1 : ALL], out, None, 1, 2)
        except attndb.Error:
            pass  # It may find the call to have failed.
        session.crop(ALL)
        gc.collect()
        assert all(ref() is None for ref in refs)


def test_exceptions_keep_their_last_line(
    tmp_path: Path, spec: attndb.ModelSpec, index: EveryThird
) -> None:
    steps = Steps(ALL)

    def fail(query: attndb.CustomQuery) -> Any:
        raise KeyError("no such page")

    index.hook = fail
    with opened(tmp_path, index) as db:
        session = session_of(db, spec, steps, "third")
        line = "kv head 0: KeyError: 'no such page'"
        with pytest.raises(attndb.InvalidArgumentError, match=line):
            last_rows(session, steps)


def test_a_build_that_fails_leaves_exact_attention(tmp_path: Path, spec: attndb.ModelSpec) -> None:
    class Failing(EveryThird):
        def build(self, rows: attndb.CustomRows) -> Any:
            raise ValueError("too short")

    steps = Steps(ALL)
    with opened(tmp_path, Failing()) as db:
        session = session_of(db, spec, steps, "third")
        with pytest.raises(attndb.InvalidArgumentError, match="600 rows .* ValueError: too short"):
            session.await_derived(0)
        out = session.attend(0, steps.q[0, ALL - 1 : ALL])
        np.testing.assert_allclose(out, steps.expected(0, ALL - 1, ALL)[0], atol=1e-5)


def test_types_are_checked_at_open(tmp_path: Path) -> None:
    with pytest.raises(attndb.InvalidArgumentError, match="expected a CustomIndex, found int"):
        opened(tmp_path, 3)
    with pytest.raises(attndb.InvalidArgumentError, match="the name is one of attndb's"):
        attndb.open(tmp_path / "store", custom_indexes={"topk": EveryThird()})


def test_several_threads_and_the_background_do_not_wait_for_each_other(
    tmp_path: Path, spec: attndb.ModelSpec, index: EveryThird
) -> None:
    """Sessions attend on threads of attndb's and of Python's; builds run meanwhile, too."""
    steps = Steps(ALL)
    with opened(tmp_path, index, num_threads=3) as db:
        sessions = [session_of(db, spec, steps, "third") for _ in range(3)]
        expected = last_rows(sessions[0], steps)
        found: list[np.ndarray] = []

        def attend(session: attndb.Session) -> None:
            for _ in range(5):
                found.append(last_rows(session, steps))
                session.explain()

        threads = [threading.Thread(target=attend, args=(one,), daemon=True) for one in sessions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
            assert not thread.is_alive(), "deadlock"
        for rows in found:
            np.testing.assert_allclose(rows, expected, atol=1e-6)


_LEAVES_IT_OPEN = """
import sys, time, numpy as np, attndb
class Slow(attndb.CustomIndex):
    def build(self, rows):
        for _ in range(50): time.sleep(0.01)
        return rows.keys
    def select(self, query):
        return attndb.CustomSelection()
spec = attndb.ModelSpec.uniform(1, 2, 2, 32, kv_dtype="float32", fingerprint=b"x")
db = attndb.open(sys.argv[1], custom_indexes={"slow": Slow()})
rows = np.ones((600, 2, 32), np.float32)
ids = np.arange(600)
db.import_context(spec, ids, [(rows, rows)])
session, rest = db.create_session(spec, np.append(ids, 7), plan="slow")
session.append(0, rows[:1], rows[:1]); session.attend(0, rows[:1])
time.sleep(0.05)  # The build is under way.
if sys.argv[2] == "drop": del session, rest, db
print("done")
"""


@pytest.mark.parametrize("how", ["leave", "drop"])
def test_a_program_ends_while_something_is_built(tmp_path: Path, how: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _LEAVES_IT_OPEN, str(tmp_path / "store"), how],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "done\n", "")
