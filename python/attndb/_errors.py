"""Exceptions, one a status code of the C++ library (include/attndb/status.h).

Each is also the built-in exception that a Python program would expect, where there is one:
``except ValueError`` catches :class:`InvalidArgumentError`.
"""

from __future__ import annotations

from typing import ClassVar


class Error(Exception):
    """Whatever attndb raises for its own reasons.

    The message names the object, what was expected and what was found.
    """

    code: ClassVar[str] = "unknown"  # The name of the status code, as the command line has it.


class InvalidArgumentError(Error, ValueError, TypeError):
    """The caller's arguments are wrong, in value or in type, whatever the state of the store."""

    code = "invalid argument"


class NotFoundError(Error, LookupError):
    """No such context, for this tenant."""

    code = "not found"


class AlreadyExistsError(Error):
    """The name is taken."""

    code = "already exists"


class FailedPreconditionError(Error, RuntimeError):
    """Right call, wrong moment: layers of unequal length, a failed or a closed session."""

    code = "failed precondition"


class CorruptionError(Error):
    """Bytes on disk are not those that were stored. Never worth a retry."""

    code = "corruption"


class IoError(Error, OSError):
    """The operating system refused or failed a read or write."""

    code = "i/o error"


class ResourceExhaustedError(Error):
    """Disk full, quota or memory limit reached."""

    code = "resource exhausted"


class UnsupportedError(Error, NotImplementedError):
    """A feature, format version or model that this build can't honour."""

    code = "unsupported"


class BusyError(Error):
    """Another process writes to this store."""

    code = "busy"


class ReadOnlyError(Error):
    """A write on a store that was opened for reading."""

    code = "read-only"


class CancelledError(Error):
    """The caller asked to stop."""

    code = "cancelled"


class InternalError(Error):
    """A broken invariant inside attndb: please report."""

    code = "internal error"


class OtherModelError(Error):
    """The context was made by another model than the one that asks."""

    code = "other model"


# By the number of the status code; 0 is "ok".
BY_CODE: tuple[type[Error], ...] = (
    Error,
    InvalidArgumentError,
    NotFoundError,
    AlreadyExistsError,
    FailedPreconditionError,
    CorruptionError,
    IoError,
    ResourceExhaustedError,
    UnsupportedError,
    BusyError,
    ReadOnlyError,
    CancelledError,
    InternalError,
    OtherModelError,
)
