"""Checks the arguments of public calls by their annotations.

The error of a wrong argument is one line that names the argument, what was expected and what was
found. Without this check numpy would fail on it, or the native half with a list of C++ types.
"""

from __future__ import annotations

import functools
import inspect
import os
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from numbers import Integral, Real
from os import PathLike
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from attndb._errors import Error, InvalidArgumentError

Call = TypeVar("Call", bound=Callable[..., Any])

_RAW = "incompatible function arguments"  # Text in nanobind's errors.

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 60


@dataclass(frozen=True)
class Expected:
    """A condition on an argument, in words and as a test. Annotations name it, for example
    ``Annotated[int, Expected("an even number", lambda value: value % 2 == 0)]``."""

    words: str
    test: Callable[[Any], bool]


# Accepts any value; the call may check the value itself, with a better message.
ANYTHING = Expected("", lambda value: True)


def _integer(low: str, high: str, least: int, end: int) -> Expected:
    """Expects an integer in [least, end). Messages write the bounds as `low` and `high`."""
    return Expected(
        f"an integer from {low} to {high}",
        lambda value: is_integer(value) and least <= value < end,
    )


def _pair(names: str, kind: Expected) -> Expected:
    def test(value: Any) -> bool:
        is_row = isinstance(value, Sized) and isinstance(value, Iterable)
        return is_row and len(value) == 2 and all(map(kind.test, value))

    return Expected(f"a pair {names} of integers from 0 on", test)


def is_integer(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_path(value: object) -> bool:
    if not isinstance(value, str | bytes | PathLike):
        return False
    try:
        os.fsencode(value)
    except UnicodeEncodeError:  # Half of a surrogate pair that stands for no byte.
        return False
    return True


# A file or a folder. The system's paths are bytes: text may have surrogates for other bytes than
# UTF-8.
Path = Annotated[
    str | bytes | PathLike[str] | PathLike[bytes], Expected("text, bytes or a path", _is_path)
]


def is_text(value: object) -> bool:
    """Whether `value` is text that has an encoding: without half of a surrogate pair."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


# Integers as the native half holds them.
_U32 = _integer("0", "2**32 - 1", 0, 2**32)
_U64 = _integer("0", "2**64 - 1", 0, 2**64)
U32 = Annotated[int, _U32]
U64 = Annotated[int, _U64]
I64 = Annotated[int, _integer("-2**63", "2**63 - 1", -(2**63), 2**63)]
Head = Annotated[tuple[int, int], _pair("(layer, q head)", _U32)]
Range = Annotated[tuple[int, int], _pair("(begin, end)", _U64)]

_SIMPLE: dict[Any, Expected] = {
    Any: ANYTHING,
    object: ANYTHING,
    NoneType: Expected("", lambda value: value is None),
    bool: Expected("True or False", lambda value: isinstance(value, bool)),
    int: Expected("an integer", is_integer),
    float: Expected("a number", lambda v: isinstance(v, Real) and not isinstance(v, bool)),
    str: Expected("text", is_text),
    bytes: Expected("bytes", lambda value: isinstance(value, bytes)),
    PathLike: Expected("a path", lambda value: isinstance(value, PathLike)),
    Callable: Expected("a function", callable),
    Mapping: Expected("a mapping", lambda value: isinstance(value, Mapping)),
}


def checked(call: Call) -> Call:
    """Makes a function check its arguments first; for a class, all of its public methods."""
    return _wrap(call, _check_first, ("__init__",))


def checked_late(call: Call) -> Call:
    """Does the same for calls that take microseconds, but checks only after a call has failed."""
    return _wrap(call, _check_late, ())


def found(value: object) -> str:
    """Returns `value` as messages show it: short, and in one line."""
    text = _short.repr(value)
    return text if text.isprintable() else type(value).__name__


def _wrap(call: Call, wrap: Callable[[Any], Any], also: Sequence[str]) -> Call:
    if not inspect.isclass(call):
        return wrap(call)  # type: ignore[no-any-return]
    for name, member in list(vars(call).items()):
        if name.startswith("_") and name not in also:
            continue
        if inspect.isfunction(member):
            setattr(call, name, wrap(member))
        elif isinstance(member, staticmethod):
            setattr(call, name, staticmethod(wrap(member.__func__)))
    return call


def _check_first(call: Any) -> Any:
    arguments = _Arguments(call)

    @functools.wraps(call)
    def checked_call(*args: Any, **kwargs: Any) -> Any:
        arguments.check(args, kwargs)
        try:
            return call(*args, **kwargs)
        except TypeError as error:
            arguments.refuse_raw(error, args, kwargs)
            raise

    return checked_call


def _check_late(call: Any) -> Any:
    arguments = _Arguments(call)

    @functools.wraps(call)
    def checked_call(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except Error:
            raise
        except Exception as error:
            arguments.check(args, kwargs)
            arguments.refuse_raw(error, args, kwargs)
            raise

    return checked_call


class _Arguments:
    """The expectations of a call. Annotations are read at the first use, because they may name
    objects that the module defines further down."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self._names = tuple(inspect.signature(call).parameters)

    @functools.cached_property
    def _expected(self) -> dict[str, Expected]:
        hints = get_type_hints(self._call, include_extras=True)
        parameters = inspect.signature(self._call).parameters.values()
        return {
            parameter.name: _expected(hints[parameter.name])
            for parameter in parameters
            if parameter.name in hints
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        }

    def check(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raises InvalidArgumentError for the first argument that is not as expected."""
        for name, value in [*zip(self._names, args, strict=False), *kwargs.items()]:
            expected = self._expected.get(name, ANYTHING)
            if not expected.test(value):
                raise InvalidArgumentError(
                    f"{name}: expected {expected.words}, found {found(value)}"
                ) from None

    def refuse_raw(
        self, error: Exception, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Raises the one-line error in place of nanobind's error of many lines."""
        if isinstance(error, Error) or _RAW not in str(error):
            return
        given = [*zip(self._names, args, strict=False), *kwargs.items()]
        texts = [f"{name}={found(value)}" for name, value in given if name != "self"]
        raise InvalidArgumentError(
            f"{self._call.__name__}: expected other types of arguments, or numbers in their range, "
            f"found {', '.join(texts)}"
        ) from None


def _expected(hint: Any) -> Expected:
    """Returns the condition that an annotation states; ANYTHING if a value can't be tested."""
    origin, parts = get_origin(hint) or hint, get_args(hint)
    if origin is Annotated:
        said = [part for part in hint.__metadata__ if isinstance(part, Expected)]
        return said[0] if said else _expected(parts[0])
    if origin in (Union, UnionType):
        return _one_of([_expected(part) for part in parts])
    if origin is Literal:
        return Expected(
            _either([repr(part) for part in parts]),
            lambda value: isinstance(value, str | int) and value in parts,
        )
    if origin in (list, Sequence, Iterable):
        return _list_of(origin, _expected(parts[0]))
    if origin in _SIMPLE:
        return _SIMPLE[origin]
    if isinstance(origin, type):
        article = "an" if origin.__name__[0] in "AEIOU" else "a"
        return Expected(
            f"{article} {origin.__name__}", lambda value: isinstance(value, origin)
        )
    return ANYTHING


def _either(words: Iterable[str]) -> str:
    several = list(dict.fromkeys(filter(None, words)))
    return ", ".join(several[:-1]) + (" or " if several[1:] else "") + "".join(several[-1:])


def _one_of(kinds: Sequence[Expected]) -> Expected:
    if ANYTHING in kinds:
        return ANYTHING
    return Expected(
        _either(kind.words for kind in kinds),
        lambda value: any(kind.test(value) for kind in kinds),
    )


def _list_of(container: Any, kind: Expected) -> Expected:
    def test(value: Any) -> bool:
        # Arrays count as sequences, too, although they do not derive from Sequence.
        is_sequence = container is not Sequence or isinstance(value, Sized)
        needed = Iterable if container is Sequence else container
        if not (isinstance(value, needed) and is_sequence) or isinstance(value, str | bytes):
            return False
        # An iterator can't be read twice, and all rows of an array are of one kind.
        is_read = kind is not ANYTHING and isinstance(value, list | tuple)
        return not is_read or all(kind.test(item) for item in value)

    return Expected("a list" + (f", each {kind.words}" if kind.words else ""), test)
