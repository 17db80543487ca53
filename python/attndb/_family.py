"""What ends with an open store: its handles and sessions, its thread that stores, and it itself
where the interpreter ends."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attndb._db import DB


def close_at_exit(db: DB) -> None:
    """Ends the store's threads, which call Python, before the interpreter ends."""
    reference = weakref.ref(db)

    def close() -> None:
        opened = reference()
        if opened is not None:
            opened.close()

    atexit.register(close)
    weakref.finalize(db, atexit.unregister, close).atexit = False


class Family:
    """What handles of one open store share: who must be closed with it, and who stores for it."""

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
