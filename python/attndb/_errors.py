"""Exceptions, one per status code of the C++ library (include/attndb/status.h).

Most exceptions also derive from the built-in exception that a Python program would expect: ``except
ValueError`` catches :class:`InvalidArgumentError`.
"""

from __future__ import annotations

from typing import ClassVar


class Error(Exception):
    """The base class of all exceptions of attndb.

    The message names the object, what was expected and what was found.
    """

    code: ClassVar[str] = "unknown"  # The name of the status code, as on the command line.


class InvalidArgumentError(Error, ValueError, TypeError):
    """The caller's arguments are wrong, in value or in type, in any state of the store."""

    code = "invalid argument"


class NotFoundError(Error, LookupError):
    """There is no such context, store or file."""

    code = "not found"


class AlreadyExistsError(Error):
    """The name is taken."""

    code = "already exists"


class FailedPreconditionError(Error, RuntimeError):
    """The call is right, but the state is not: unequal layers, a failed or a closed session."""

    code = "failed precondition"


class CorruptionError(Error):
    """Bytes on disk differ from the stored bytes. A retry does not help."""

    code = "corruption"


class IoError(Error, OSError):
    """The operating system refused or failed a read or write."""

    code = "i/o error"


class ResourceExhaustedError(Error):
    """The disk is full, or a quota or the memory limit is reached."""

    code = "resource exhausted"


class UnsupportedError(Error, NotImplementedError):
    """This build does not support the feature, the format version or the model."""

    code = "unsupported"


class BusyError(Error):
    """Another process writes to this store."""

    code = "busy"


class ReadOnlyError(Error):
    """The call writes, but the store was opened for reading."""

    code = "read-only"


class CancelledError(Error):
    """The caller asked to stop."""

    code = "cancelled"


class InternalError(Error):
    """An invariant inside attndb is broken: please report this bug."""

    code = "internal error"


class OtherModelError(Error):
    """The context was made by another model than the caller's."""

    code = "other model"


# The exceptions by the number of the status code; 0 is "ok".
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
