"""New arrays of the library that the caller's arrays come from, and token ids from whatever."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attndb._errors import InvalidArgumentError

# numpy.ndarray, torch.Tensor, or anything with __dlpack__ and a shape. Checked at run time.
Array = Any
Tokens = Sequence[int] | NDArray[np.integer[Any]] | Any


def empty(like: Array | None, shape: tuple[int, ...], *, float32: bool = False) -> Array:
    """An uninitialised array of `like`'s library and dtype; numpy float32 for libraries unknown."""
    if isinstance(like, np.ndarray):
        return np.empty(shape, np.float32 if float32 else like.dtype)
    torch = sys.modules.get("torch")  # Whoever has a tensor has imported it.
    if torch is not None and isinstance(like, torch.Tensor):
        return torch.empty(shape, dtype=torch.float32 if float32 else like.dtype)
    return np.empty(shape, np.float32)


def token_ids(tokens: Tokens, what: str = "tokens") -> NDArray[np.int32]:
    """`tokens` as one row of int32.

    Raises InvalidArgumentError: not integers, not one-dimensional, out of int32's range.
    """
    ids = np.asarray(tokens)
    if ids.size == 0:
        return np.empty(0, np.int32)
    if ids.ndim != 1:
        raise InvalidArgumentError(f"{what}: expected one dimension, found shape {ids.shape}")
    if ids.dtype.kind not in "iu":
        raise InvalidArgumentError(f"{what}: expected integers, found {ids.dtype}")
    limits = np.iinfo(np.int32)
    if int(ids.min()) < limits.min or int(ids.max()) > limits.max:
        raise InvalidArgumentError(f"{what}: an id is beyond {limits.max}")
    return np.ascontiguousarray(ids, np.int32)
