"""Reads durations and sizes as people write them, in the units of the command line."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Annotated

from attndb._checked import ANYTHING, found
from attndb._errors import InvalidArgumentError

Ttl = Annotated[timedelta | float | str | None, ANYTHING]  # An argument of seconds_of.
Size = Annotated[int | str, ANYTHING]  # An argument of bytes_of.

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_MOST_SECONDS = 2**53
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
# Units stand in falling order, each at most once: "1h30m".
_TTL = re.compile(
    r"\s*".join(
        rf"(?:(?P<{unit[0]}>\d+(?:\.\d+)?)\s*{unit})?" for unit in ("w", "d", "h", "m(?:in)?", "s")
    )
)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(?:i?b)?|b)?", re.IGNORECASE)


def seconds_of(ttl: Ttl) -> int | None:
    """Reads a time to live: seconds, a timedelta, ``"90s"``, ``"15m"``, ``"1.5h"``, ``"1h30m"``,
    ``"7d"``, ``"2w"``. None or ``"never"`` means for ever."""
    if ttl is None or ttl == "never":
        return None
    seconds: object = ttl
    if isinstance(ttl, timedelta):
        seconds = ttl.total_seconds()
    elif isinstance(ttl, str):
        seconds = _seconds_in(ttl.strip())
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds < _MOST_SECONDS:  # type: ignore[operator]
        raise InvalidArgumentError(
            "ttl: expected seconds, a timedelta, '90s', '15m', '1.5h', '1h30m', '7d' or None, "
            f"found {found(ttl)}"
        )
    return int(seconds)  # type: ignore[call-overload, no-any-return]


def _seconds_in(text: str) -> int | None:
    """Returns the seconds of ``"90"``, ``"1.5h"`` or ``"1h30m"``; None if the text is no time."""
    if text.isascii() and text.isdigit():
        return int(text)
    match = _TTL.fullmatch(text)
    if match is None or not text:
        return None
    counts = {unit: float(count) for unit, count in match.groupdict().items() if count}
    seconds = sum(count * _SECONDS[unit] for unit, count in counts.items())
    return math.floor(seconds + 0.5) if seconds < _MOST_SECONDS else None


def bytes_of(name: str, size: Size) -> int:
    """A number of bytes, or ``"512M"``, ``"1.5GiB"``, ``"10 GB"``: units are powers of 1024."""
    if isinstance(size, str):
        match = _SIZE.fullmatch(size.strip())
        if match:
            return int(float(match[1]) * 1024 ** _POWERS[(match[2] or "").lower()])
    elif isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 2**63:
        return size
    raise InvalidArgumentError(f"{name}: expected bytes, '512M' or '1.5GiB', found {found(size)}")
