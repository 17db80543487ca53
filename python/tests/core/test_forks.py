"""Processes that Python forks off, as servers do with their workers, neither hang nor keep a store
locked, and are told to open it themselves."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import attndb
from core_steps import Steps

SECONDS_MAX = 30


def in_fork(sees: Callable[[], object]) -> int:
    """Runs `sees` in a fork; its exit code is 0 if that gave something true."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(SECONDS_MAX)
        code = 2
        try:
            code = 0 if sees() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_lets_go_of_a_store_and_opens_it_after_its_parent_has(
    tmp_path: Path, spec: attndb.ModelSpec, steps: Steps
) -> None:
    db = attndb.open(tmp_path / "store")
    session, _ = db.create_session(spec, steps.ids)
    steps.run(session, 0, 90)
    db.store(session, steps.ids, name="a")

    def is_refused() -> bool:
        for call in (db.list, db.stats, session.fork, lambda: attndb.open(tmp_path / "store")):
            try:
                call()
            except (attndb.FailedPreconditionError, attndb.BusyError):
                continue
            return False
        return True

    def closes() -> bool:
        session.close()
        db.close()
        return True

    assert in_fork(is_refused) == 0
    assert in_fork(closes) == 0
    assert [context.name for context in db.list()] == ["a"]
    session.close()
    db.close()

    def reads() -> bool:
        with attndb.open(tmp_path / "store", read_only=True) as own:
            return [context.name for context in own.list()] == ["a"]

    assert in_fork(reads) == 0
