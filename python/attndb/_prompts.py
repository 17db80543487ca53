"""Tells one prompt from a list of prompts, and reads the keys and values of a cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from attndb._arrays import Array
from attndb._checked import found
from attndb._errors import InvalidArgumentError

_SHOWN_TOKENS = 8  # Tokens of a prompt that a message shows.


def is_list_of_prompts(tokens: Any) -> bool:
    return isinstance(tokens, (list, tuple)) and bool(tokens) and hasattr(tokens[0], "__len__")


def one_a_prompt(what: str, items: Any, count: int) -> Sequence[Any]:
    """Returns `items`. Raises InvalidArgumentError unless there is one item per prompt."""
    if not isinstance(items, (list, tuple)):
        raise InvalidArgumentError(
            f"{what}: expected a list of one item a prompt, found {type(items).__name__}"
        )
    if len(items) != count:
        raise InvalidArgumentError(
            f"{what}: expected one item for each of {count} prompts, found {len(items)}"
        )
    return items


def failed_import(prompt: Any, error: Exception, imported: Sequence[int]) -> str:
    """Returns the message for a list of prompts one of which could not be imported."""
    first = ", ".join(map(str, np.asarray(prompt[:_SHOWN_TOKENS], object).tolist()))
    more = ", ..." if len(prompt) > _SHOWN_TOKENS else ""
    stay = ", ".join(f"#{context}" for context in imported) or "none"
    return f"prompt {len(imported)} [{first}{more}]: {error}; imported before it: {stay}"


def layer_pairs(layers: Any) -> list[tuple[Array, ...]]:
    """Returns (k, v) of each layer. A DynamicCache holds [1, num_kv_heads, num_tokens, dim].

    Raises InvalidArgumentError (not one pair per layer).
    """
    cached = getattr(layers, "layers", None)
    if cached is not None:
        return [(_rows(layer.keys), _rows(layer.values)) for layer in cached]
    if not isinstance(layers, Iterable):
        raise InvalidArgumentError(
            f"layers: expected a pair (k, v) of each layer, or a cache, found {found(layers)}"
        )
    pairs = [tuple(pair) if isinstance(pair, Iterable) else (pair,) for pair in layers]
    for number, pair in enumerate(pairs):
        if len(pair) != 2:
            raise InvalidArgumentError(
                f"layers: expected pairs (k, v), found {len(pair)} arrays for layer {number}"
            )
    return pairs


def _rows(states: Any) -> Array:
    if states.ndim != 4 or states.shape[0] != 1:
        raise InvalidArgumentError(
            "cache: expected keys of shape [1, num_kv_heads, num_tokens, head_dim], found "
            f"{list(states.shape)}; import one sequence at a time"
        )
    return states[0].detach().transpose(0, 1)
