"""Makes output arrays in the library of the caller's arrays, and rows of int32 of token ids."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from attndb._checked import ANYTHING, Expected, found
from attndb._errors import InvalidArgumentError

# numpy.ndarray, torch.Tensor, or any object with __dlpack__ and a shape. Checked at run time.
Array = Annotated[
    Any,
    Expected("an array on the CPU (numpy, torch or DLPack)", lambda value: hasattr(value, "shape")),
]
Tokens = Annotated[Any, ANYTHING]  # Token ids in any form that token_ids accepts.


def empty(like: Array | None, shape: tuple[int, ...], *, float32: bool = False) -> Array:
    """Returns an uninitialised array of `like`'s library and dtype. If attndb does not know the
    library, returns a numpy array of float32."""
    if isinstance(like, np.ndarray):
        return np.empty(shape, np.float32 if float32 else like.dtype)
    torch = sys.modules.get("torch")  # A caller that has a tensor has imported torch.
    if torch is not None and isinstance(like, torch.Tensor):
        return torch.empty(shape, dtype=torch.float32 if float32 else like.dtype)
    return np.empty(shape, np.float32)


def token_ids(tokens: Tokens, what: str = "tokens") -> NDArray[np.int32]:
    """Returns `tokens` as one row of int32.

    Raises InvalidArgumentError (not integers, not one-dimensional, out of int32's range).
    """
    try:
        ids = np.asarray(tokens)
    except (TypeError, ValueError):  # Lists of unequal length, a tensor of another device.
        ids = np.empty((), object)
    if ids.ndim == 0:
        raise InvalidArgumentError(f"{what}: expected a list of integers, found {found(tokens)}")
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
