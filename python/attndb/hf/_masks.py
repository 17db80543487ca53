"""Finds out which masks a model asks for, and which of these masks its layers use.

transformers calls the mask function with a rule, `rule(batch, head, q_idx, kv_idx)`. During the
observation of a model (_observe.py) the mask function returns a different mask at each call. Each
layer passes one of these masks to the attention function, which shows the rule of the layer. A rule
that no layer uses does no harm: Gemma 3 asks for a full mask although all its layers slide,
and decoders of encoder-decoder models ask for a mask of cross-attention. In a step, a rule that
layers use gives no mask, because attndb knows the rule. A rule that no layer uses gives a mask that
attention refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from transformers.masking_utils import causal_mask_function

from attndb._errors import UnsupportedError

_FAR = 1 << 17  # A query's position, beyond any window, so that a rule shows its far side.
# Queries at several distances from the start, so that a chunk is not taken for a window.
_POSITIONS = (_FAR, _FAR + 1, _FAR + 12_345)


class MaskRequest(NamedTuple):
    """The arguments with which transformers asks for a mask."""

    rule: Callable[..., Any]
    is_plain: bool  # False: transformers joined other rules to this one (image blocks, packing).
    shape: tuple[int, int, int, int]  # [batch, 1, queries, keys]
    dtype: torch.dtype


class Rule(NamedTuple):
    """A rule that was understood."""

    is_causal: bool  # False: any other rule; `window` has no meaning then.
    window: int | None = None  # Number of tokens that a token sees, itself included; None = all.


OTHER = Rule(is_causal=False)


def read_rule(request: MaskRequest) -> Rule:
    """Recognizes the rule of a mask from whole rows of the mask."""
    if not request.is_plain and request.rule is not causal_mask_function:
        return OTHER
    windows = {_row_window(request.rule, position) for position in _POSITIONS}
    window = windows.pop()
    if windows or window is not None and window < 1:
        return OTHER
    return Rule(is_causal=True, window=window)


def _row_window(rule: Callable[..., Any], position: int) -> int | None:
    """Returns how many keys the query at `position` attends to, its own the last; None = all keys
    up to its own; 0 = other keys than these."""
    allowed = _allows(rule, position, torch.arange(position + 2))
    window = int(allowed.sum())
    if window == 0 or bool(allowed[-1]) or not bool(allowed[position + 1 - window : -1].all()):
        return 0
    return None if window == position + 1 else window


def _allows(rule: Callable[..., Any], position: int, keys: torch.Tensor) -> torch.Tensor:
    zero = torch.tensor(0)
    return torch.as_tensor(rule(zero, zero, torch.tensor(position), keys)).expand(keys.shape)


def _is(rule: Callable[..., Any], known: Rule) -> bool:
    """Whether `rule` is `known`, by the keys at its edges: cheap enough for every forward."""
    edge = _FAR if known.window is None else known.window
    keys = torch.tensor([_FAR + 1, _FAR, _FAR + 1 - edge, _FAR - edge])
    expected = [False, True, True, known.window is None]
    return bool(_allows(rule, _FAR, keys).tolist() == expected)


@dataclass
class MasksSeen:
    """The rules of the masks that a model asks for: rules that layers use, and rules that none
    uses."""

    used: set[Rule] = field(default_factory=set)
    unused: set[Rule] = field(default_factory=set)

    def mask_of_step(self, request: MaskRequest) -> torch.Tensor | None:
        """Returns the mask of a step: None if layers use the rule, else a mask of zeros.

        Raises UnsupportedError if the model did not ask for such a mask during `use`.
        """
        if request.is_plain or request.rule is causal_mask_function:
            if any(_is(request.rule, rule) for rule in self.used):
                return None
            if any(rule.is_causal and _is(request.rule, rule) for rule in self.unused):
                return _empty(request)
        if OTHER in self.unused and read_rule(request) == OTHER:
            return _empty(request)
        raise not_causal()


@dataclass
class MaskProbe:
    """Gives a mask for each rule, and recognizes the mask that a layer uses."""

    _given: list[tuple[torch.Tensor, Rule]] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)  # Indices in _given of masks that layers used.

    def give(self, request: MaskRequest) -> torch.Tensor:
        mask = _empty(request)
        self._given.append((mask, read_rule(request)))
        return mask

    def use(self, layer: int, mask: Any) -> Rule:
        """Returns the rule of the mask that `layer` was given.

        Raises UnsupportedError if there is no mask, if the model made the mask itself, or if the
        rule is not causal.
        """
        if not isinstance(mask, torch.Tensor):
            raise UnsupportedError(f"layer {layer} attends without a causal mask")
        for index, (given, rule) in enumerate(self._given):
            if mask.untyped_storage().data_ptr() == given.untyped_storage().data_ptr():
                if bool(mask.any()):
                    raise made_itself(layer, mask)
                self._seen.add(index)
                if rule == OTHER:
                    raise not_causal(layer)
                return rule
        raise made_itself(layer, mask)

    def seen(self) -> MasksSeen:
        used = {self._given[index][1] for index in self._seen}
        return MasksSeen(used, {rule for _, rule in self._given} - used)


def _empty(request: MaskRequest) -> torch.Tensor:
    """Returns a mask of zeros, so that values that a model writes into it show."""
    return torch.zeros(request.shape, dtype=request.dtype)


def not_causal(layer: int | None = None) -> UnsupportedError:
    where = "" if layer is None else f", in layer {layer}"
    return UnsupportedError(
        "the model asks for a mask other than causal with a sliding window or none (chunked or "
        f"bidirectional attention, blocks, packing){where}"
    )


def made_itself(layer: int, mask: Any) -> UnsupportedError:
    return UnsupportedError(
        f"layer {layer}: expected no mask beyond causality and left padding, found one of shape "
        f"{list(getattr(mask, 'shape', []))} that the model made itself"
    )
