"""Closes an open store: its handles, its sessions and its storing thread. A store with custom
indexes is also closed when the interpreter ends."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attndb._db import DB


def close_at_exit(db: DB) -> None:
    """Closes the store before the interpreter ends, because the store's threads call Python."""
    reference = weakref.ref(db)

    def close() -> None:
        opened = reference()
        if opened is not None:
            opened.close()

    atexit.register(close)
    weakref.finalize(db, atexit.unregister, close).atexit = False


class Family:
    """The state that handles of one open store share: its members, which close with the store, and
    the thread that waits for background stores."""

    def __init__(self) -> None:
        self.members: weakref.WeakSet[Any] = weakref.WeakSet()
        self.writer: ThreadPoolExecutor | None = None

    def submit(self, call: Callable[[], int]) -> Future[int]:
        if self.writer is None:
            self.writer = ThreadPoolExecutor(1, thread_name_prefix="attndb-store")
        return self.writer.submit(call)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.shutdown(wait=True)
            self.writer = None
        for member in list(self.members):
            member.close()
