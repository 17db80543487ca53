"""Switches a model's attention implementation to attndb during one forward.

Between forwards, and in forwards without an AttndbCache, the model's config names its former
implementation, so normal use does not change. Forwards of several threads may overlap: the config
names "attndb" until the last of them has ended. The functions of _attention.py pass calls that
belong to no step of attndb to the former implementation, which this module keeps.

Threads: safe.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from attndb._errors import FailedPreconditionError

NAME = "attndb"  # The name of _attention.py's functions in transformers.


@dataclass
class _Switched:
    config: Any  # Kept alive, so that no other object gets its id.
    previous: str | None
    num_forwards: int


_lock = threading.Lock()
_switched: dict[int, _Switched] = {}  # By id of the config. Guarded by _lock.
_local = threading.local()


def enter(configs: Sequence[Any]) -> None:
    """Makes `configs` name "attndb". Each enter needs one :func:`leave`."""
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
    """Returns the implementation that `config` named before the switch to attndb.

    Raises FailedPreconditionError if this module did not switch `config`: the name was set by hand.
    """
    with _lock:
        entry = _switched.get(id(config))
    if entry is None or entry.previous == NAME:
        raise FailedPreconditionError(
            f"attention implementation {NAME!r} was set by name; set back the former one and call "
            "attndb.hf.use(model), which turns it on where an AttndbCache is used"
        )
    return entry.previous or "eager"


# The consumer of this thread's forward: a step of a cache, or the observation of a model.


def active() -> Any:
    """Returns the consumer of this thread's innermost attndb forward; None outside of a forward."""
    stack = getattr(_local, "stack", None)
    return stack[-1] if stack else None


def push(consumer: Any) -> None:
    if not hasattr(_local, "stack"):
        _local.stack = []
    _local.stack.append(consumer)


def remove(consumer: Any) -> None:
    """Removes `consumer`, and the consumers that an interrupt left above it."""
    stack = getattr(_local, "stack", [])
    for depth, entry in enumerate(stack):
        if entry is consumer:
            del stack[depth:]
            return


@contextmanager
def reporting_to(consumer: Any, configs: Sequence[Any]) -> Iterator[None]:
    """Surrounds one forward whose attention `consumer` computes."""
    enter(configs)
    push(consumer)
    try:
        yield
    finally:
        remove(consumer)
        leave(configs)
