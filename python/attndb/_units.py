"""Durations and sizes as people write them, in the words of the command line."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

from attndb._checked import ANYTHING, found
from attndb._errors import InvalidArgumentError

Ttl = Annotated[timedelta | float | str | None, ANYTHING]  # What seconds_of takes.
Size = Annotated[int | str, ANYTHING]  # What bytes_of takes.

_SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_TTL = re.compile(r"(\d+)\s*(s|m|min|h|d|w)?")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(?:i?b)?|b)?", re.IGNORECASE)


def seconds_of(ttl: Ttl) -> int | None:
    """A time to live: seconds, a timedelta, ``"90s"``, ``"15m"``, ``"1h"``, ``"7d"``, ``"2w"``;
    None or ``"never"``: for ever."""
    if ttl is None or ttl == "never":
        return None
    seconds: object = ttl
    if isinstance(ttl, timedelta):
        seconds = ttl.total_seconds()
    elif isinstance(ttl, str):
        match = _TTL.fullmatch(ttl.strip())
        seconds = int(match[1]) * _SECONDS[match[2] or ""] if match else None
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds < 2**53:  # type: ignore[operator]
        raise InvalidArgumentError(
            "ttl: expected seconds, a timedelta, '90s', '15m', '1h', '7d' or None, "
            f"found {found(ttl)}"
        )
    return int(seconds)  # type: ignore[call-overload, no-any-return]


def bytes_of(name: str, size: Size) -> int:
    """A number of bytes, or ``"512M"``, ``"1.5GiB"``, ``"10 GB"``: units are powers of 1024."""
    if isinstance(size, str):
        match = _SIZE.fullmatch(size.strip())
        if match:
            return int(float(match[1]) * 1024 ** _POWERS[(match[2] or "").lower()])
    elif isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 2**63:
        return size
    raise InvalidArgumentError(f"{name}: expected bytes, '512M' or '1.5GiB', found {found(size)}")
