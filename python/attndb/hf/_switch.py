"""Turns a model's attention implementation to attndb for the length of one forward.

Only then: between forwards, and in forwards without an AttndbCache, the model's config says what it
said before, so that nothing of normal use changes. Forwards of several threads may overlap: the
name stays "attndb" until the last has ended, and the functions of _attention.py pass on whatever
does not belong to a step of attndb to the implementation noted here.

Threads: safe.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from attndb._errors import FailedPreconditionError

NAME = "attndb"  # Under which transformers knows the functions of _attention.py.


@dataclass
class _Switched:
    config: Any  # Held, so that its id stays its own.
    previous: str | None
    num_forwards: int


_lock = threading.Lock()
_switched: dict[int, _Switched] = {}  # By id of the config. Guarded by _lock.
_local = threading.local()


def enter(configs: Sequence[Any]) -> None:
    """Makes `configs` say "attndb"; each enter needs one :func:`leave`."""
    with _lock:
        for config in configs:
            entry = _switched.get(id(config))
            if entry is None:
                previous = config._attn_implementation
                entry = _switched[id(config)] = _Switched(config, previous, 0)
                config._attn_implementation_internal = NAME
            entry.num_forwards += 1


def leave(configs: Sequence[Any]) -> None:
    with _lock:
        for config in configs:
            entry = _switched.get(id(config))
            if entry is None:
                continue  # An interrupt came between the two.
            entry.num_forwards -= 1
            if entry.num_forwards == 0:
                del _switched[id(config)]
                config._attn_implementation_internal = entry.previous


def previous(config: Any) -> str:
    """The implementation that `config` named before it was turned to attndb.

    Raises FailedPreconditionError: it was not turned here, so somebody set the name by hand.
    """
    with _lock:
        entry = _switched.get(id(config))
    if entry is None or entry.previous == NAME:
        raise FailedPreconditionError(
            f"attention implementation {NAME!r} was set by name; set back the former one and call "
            "attndb.hf.use(model), which turns it on where an AttndbCache is used"
        )
    return entry.previous or "eager"


# What this thread's forward reports to: a step of a cache, or the observation of a model.


def active() -> Any:
    """What this thread's innermost attndb forward reports to; None outside of one."""
    stack = getattr(_local, "stack", None)
    return stack[-1] if stack else None


def push(consumer: Any) -> None:
    if not hasattr(_local, "stack"):
        _local.stack = []
    _local.stack.append(consumer)


def remove(consumer: Any) -> None:
    """Ends `consumer`, and what an interrupt left above it."""
    stack = getattr(_local, "stack", [])
    for depth, entry in enumerate(stack):
        if entry is consumer:
            del stack[depth:]
            return


@contextmanager
def reporting_to(consumer: Any, configs: Sequence[Any]) -> Iterator[None]:
    """One forward whose attention is attndb's and reports to `consumer`."""
    enter(configs)
    push(consumer)
    try:
        yield
    finally:
        remove(consumer)
        leave(configs)
