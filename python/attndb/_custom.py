"""A program's own types of queries and indexes (docs/plan.md, "Types of your own")."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attndb._errors import InvalidArgumentError

Floats = NDArray[np.float32]

_NO_RANGES = np.zeros((0, 3), np.int64)


@dataclass(frozen=True)
class CustomKey:
    """A key of a custom index. Plans may give it a number from `min` to `max`."""

    min: float
    max: float
    default: float
    whole: bool = False


@dataclass(frozen=True, eq=False)
class CustomRows:
    """One kv head's rows of one run of tokens, of which an index makes its object. Arrays are
    read-only float32, and an index may keep them. Keys are after RoPE, in layout "half"."""

    layer: int
    kv_head: int
    keys: Floats  # [num_rows, head_dim]
    values: Floats  # [num_rows, v_head_dim]
    queries: Floats  # [num_queries, head_dim]: a sample of q of the group's heads.
    query_rows: NDArray[np.uint32]  # [num_queries]: the row that each of `queries` belongs to.
    first_position: int  # Position of row 0 under RoPE.
    scale: float  # logit = scale * (q . k)


@dataclass(frozen=True, eq=False)
class CustomPart:
    """A run of tokens that a query sees, or a part of it: rows [begin, end) may be selected."""

    object: Any  # The object that build or extend made.
    num_rows: int
    begin: int
    end: int


@dataclass(frozen=True, eq=False)
class CustomQuery:
    """The q of one token, for the heads that share a kv head."""

    layer: int
    kv_head: int
    q: Floats  # [group_size, head_dim], read-only.
    parts: list[CustomPart]  # In the order of their tokens.
    v_head_dim: int
    scale: float  # logit = x = scale * (q . k), or soft_cap * tanh(x / soft_cap).
    soft_cap: float
    # True: all selected rows are attended to. False: another query chooses among these rows.
    is_query: bool
    k: int  # k of that other query, if it is topk; else 0.


@dataclass(frozen=True, eq=False)
class CustomSelection:
    """The rows that a q head attends to: ``ranges`` [n, 3] of (part, begin, end), ascending, not
    empty, not overlapping. ``rest_lse`` and ``rest_value`` [v_head_dim] estimate the visible rows
    that are not selected: the natural log of the sum of exp(logit), and the mean of v by these
    weights.
    """

    ranges: ArrayLike = field(default_factory=lambda: _NO_RANGES)
    rest_lse: float = -np.inf
    rest_value: ArrayLike = ()


class CustomIndex:
    """The base class of a program's own index or query.

    Pass an object of a derived class to :func:`attndb.open` as ``custom_indexes={"name":
    MyIndex()}``. Plans then name it: ``"name(key=1)"`` or ``"topk(k=64,index=name,key=1)"``.

    attndb's threads call the methods, several at once as far as the interpreter lock permits. The
    methods must not call the store or a session. If a method raises an exception, the call that
    needed the method raises an InvalidArgumentError, which names the type. Python is slow compared
    with C++: this class is for research.
    """

    #: Keys that plans may give, by name. `select` gets each as a keyword argument. At most 4.
    keys: Mapping[str, CustomKey] = {}

    def build(self, rows: CustomRows) -> Any:
        """Makes the object of a stored segment's rows."""
        raise NotImplementedError

    def extend(self, rows: CustomRows) -> Any:
        """Makes the object of 4,096 tokens that a session appended."""
        return self.build(rows)

    def select(
        self, query: CustomQuery, **values: float
    ) -> CustomSelection | Sequence[CustomSelection]:
        """Selects rows: returns one selection for all q heads of the group, or one for each."""
        raise NotImplementedError

    def memory_bytes(self, made: Any) -> int:
        """Returns the bytes of an object that `build` made: of its arrays, also of arrays in its
        lists, tuples and dicts."""
        if isinstance(made, np.ndarray):
            return int(made.nbytes)
        if isinstance(made, Mapping):
            return sum(self.memory_bytes(item) for item in made.values())
        if isinstance(made, list | tuple):
            return sum(self.memory_bytes(item) for item in made)
        return sys.getsizeof(made)


class Adapter:
    """The object that the native half calls. It makes arrays of bytes, and bytes of arrays."""

    def __init__(self, index: CustomIndex) -> None:
        self._index = index
        self._keys = list(index.keys.items())

    def build(self, *rows: Any) -> tuple[Any, int]:
        return self._with_bytes(self._index.build(_rows(*rows)))

    def extend(self, *rows: Any) -> tuple[Any, int]:
        return self._with_bytes(self._index.extend(_rows(*rows)))

    def _with_bytes(self, made: Any) -> tuple[Any, int]:
        num_bytes = int(self._index.memory_bytes(made))
        if num_bytes < 0:
            raise InvalidArgumentError(f"memory_bytes: expected 0 or more, found {num_bytes}")
        return made, num_bytes

    def select(
        self,
        layer: int,
        kv_head: int,
        group_size: int,
        head_dim: int,
        v_head_dim: int,
        scale: float,
        soft_cap: float,
        q: bytes,
        parts: list[tuple[Any, int, int, int]],
        values: list[float],
        is_query: bool,
        k: int,
    ) -> list[tuple[bytes, float, bytes]]:
        query = CustomQuery(
            layer=layer,
            kv_head=kv_head,
            q=np.frombuffer(q, np.float32).reshape(group_size, head_dim),
            parts=[CustomPart(*part) for part in parts],
            v_head_dim=v_head_dim,
            scale=scale,
            soft_cap=soft_cap,
            is_query=is_query,
            k=k,
        )
        given = {
            name: int(value) if key.whole else value
            for (name, key), value in zip(self._keys, values, strict=True)
        }
        answer = self._index.select(query, **given)
        if isinstance(answer, CustomSelection):
            return [_selection_bytes(answer)] * group_size
        if not isinstance(answer, Sequence) or len(answer) != group_size:
            found = f"{len(answer)}" if isinstance(answer, Sequence) else type(answer).__name__
            raise InvalidArgumentError(
                f"select: expected a CustomSelection, or one for each of {group_size} q heads, "
                f"found {found}"
            )
        return [_selection_bytes(selection) for selection in answer]


def custom_types(indexes: Mapping[str, CustomIndex]) -> list[tuple[str, list[Any], Any]]:
    """Returns the name, the keys and the adapter of each index, as the native half takes them."""
    types: list[tuple[str, list[Any], Any]] = []
    for name, index in indexes.items():
        if not isinstance(index, CustomIndex):
            raise InvalidArgumentError(
                f"custom index '{name}': expected a CustomIndex, found {type(index).__name__}"
            )
        keys = [
            (key, float(of.min), float(of.max), of.whole, float(of.default))
            for key, of in index.keys.items()
        ]
        types.append((name, keys, Adapter(index)))
    return types


def _rows(
    layer: int,
    kv_head: int,
    num_rows: int,
    head_dim: int,
    v_head_dim: int,
    keys: bytes,
    values: bytes,
    queries: bytes,
    query_rows: bytes,
    first_position: int,
    scale: float,
) -> CustomRows:
    return CustomRows(
        layer=layer,
        kv_head=kv_head,
        keys=np.frombuffer(keys, np.float32).reshape(num_rows, head_dim),
        values=np.frombuffer(values, np.float32).reshape(num_rows, v_head_dim),
        queries=np.frombuffer(queries, np.float32).reshape(-1, head_dim),
        query_rows=np.frombuffer(query_rows, np.uint32),
        first_position=first_position,
        scale=scale,
    )


def _selection_bytes(selection: Any) -> tuple[bytes, float, bytes]:
    if not isinstance(selection, CustomSelection):
        raise InvalidArgumentError(
            f"select: expected a CustomSelection, found {type(selection).__name__}"
        )
    ranges = np.asarray(selection.ranges)
    if ranges.size == 0:
        ranges = _NO_RANGES
    if ranges.ndim != 2 or ranges.shape[1] != 3 or ranges.dtype.kind not in "iu":
        raise InvalidArgumentError(
            "ranges: expected whole numbers [n, 3] of (part, begin, end), found "
            f"{ranges.dtype} {list(ranges.shape)}"
        )
    if ranges.size and (ranges.min() < 0 or ranges.max() > 0x7FFFFFFF):
        raise InvalidArgumentError(
            f"ranges: expected numbers from 0 to 2^31 - 1, found {ranges.min()} to {ranges.max()}"
        )
    value = np.asarray(selection.rest_value, np.float32)
    if value.ndim != 1:
        raise InvalidArgumentError(
            f"rest_value: expected [v_head_dim], found {list(value.shape)}"
        )
    return ranges.astype(np.int64).tobytes(), float(selection.rest_lse), value.tobytes()
