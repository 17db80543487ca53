"""What a model's attention layers are: observed in one forward, not guessed from its classes.

The decoder runs one token twice, at position 0 and far behind it. Every layer shows the shapes of
q, k and v, its scale, window and soft cap, and whether it keeps its keys in the cache and attends
to just them. As v is the same for both tokens, attention is v, so all layers see what they see in
real life, and their two keys differ by RoPE alone: that gives its layout.

Cost: one forward of two tokens, under no_grad and in evaluation mode.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from attndb._errors import Error, UnsupportedError
from attndb._spec import RopeLayout
from attndb.hf import _switch
from attndb.hf._attention import Arguments, Consumer, tag

_POSITION_MAX = 4095  # Far enough that many channels turn, near enough for angles in float32.
# Relative to the largest key: above the rounding of a deep model, far below what RoPE changes.
_TOLERANCE = {torch.bfloat16: 0.05}
_TOLERANCE_ELSE = 0.01


@dataclass(frozen=True)
class Rotation:
    """How RoPE turns the keys of a layer."""

    layout: RopeLayout
    dims: int


@dataclass(frozen=True)
class ObservedLayer:
    num_q_heads: int
    num_kv_heads: int
    head_dim: int
    v_head_dim: int
    arguments: Arguments
    keys: torch.Tensor  # [num_kv_heads, 2, head_dim], at position 0 and at `position`.


class TaggingLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """One layer of a cache that holds nothing of torch: it tags new keys and passes them through.

    The owner answers: ``owner.on_update(layer, key, value)`` gives the consumer to tag with,
    ``owner.layer_length(layer)`` the columns that the layer has.
    """

    is_compileable = False
    is_croppable = True
    is_sliding = False  # All tokens are held, of layers with a window too.
    supports_early_init = False

    def __init__(self, owner: Any, layer: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.is_initialized = True
        self._owner = weakref.ref(owner)
        self._layer = layer

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        pass

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        consumer = self._cache().on_update(self._layer, key_states, value_states)
        tag(key_states, consumer, self._layer)
        return key_states, value_states

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.get_seq_length() + query_length, 0

    def get_seq_length(self) -> int:
        return int(self._cache().layer_length(self._layer))

    def get_max_length(self) -> int:  # transformers 5.23
        return -1

    def get_max_cache_shape(self) -> int:  # transformers 5.12
        return -1

    def offload(self) -> None:
        pass

    def prefetch(self) -> None:
        pass

    def _cache(self) -> Any:
        cache = self._owner()
        if cache is None:
            raise ReferenceError("the cache of this layer is gone")
        return cache


def observe(decoder: Any, configs: list[Any]) -> list[ObservedLayer]:
    """The decoder's attention layers, in the order of their indices.

    Raises UnsupportedError, naming the model, where its attention is not what attndb computes.
    """
    name = type(decoder).__name__
    probe = _Probe(configs)
    cache = _ProbeCache(probe, decoder.config.num_hidden_layers)
    token = _probe_token(decoder.config)
    positions = torch.tensor([[0, probe_position(decoder.config)]])
    try:
        with (
            _in_evaluation(decoder),
            torch.no_grad(),
            _switch.reporting_to(probe, configs),
        ):
            decoder(
                input_ids=torch.full((1, 2), token),
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
            )
    except Error as error:
        raise UnsupportedError(f"{name}: {error}") from error
    except Exception as error:
        raise UnsupportedError(
            f"{name}: a forward with attndb's cache failed: {type(error).__name__}: {error}"
        ) from error
    if not probe.layers:
        raise UnsupportedError(
            f"{name} does not call its attention through transformers' AttentionInterface"
        )
    missing = sorted(set(range(len(cache.layers))) - set(probe.layers))
    if missing:
        raise UnsupportedError(
            f"{name}: layers {missing} attend to no keys of their own in the cache (linear "
            "attention, recurrence, convolution or shared KV)"
        )
    probe.check_masks(name)
    return [probe.layers[layer] for layer in range(len(cache.layers))]


def probe_position(config: Any) -> int:
    """The second token's position: within what the model's tables allow."""
    limit = getattr(config, "max_position_embeddings", None) or _POSITION_MAX + 1
    return max(1, min(int(limit) - 1, _POSITION_MAX))


def find_rotation(layer: ObservedLayer, dims: int) -> Rotation | None:
    """How RoPE over the leading `dims` channels turned the observed keys; None = they are equal.

    A rotation keeps the length of each pair of channels that it turns, and no other pairing does.
    Raises UnsupportedError if no layout explains the keys.
    """
    near, far = layer.keys[:, 0].double(), layer.keys[:, 1].double()
    size = near.abs().max().item()
    tolerance = size * _TOLERANCE.get(layer.keys.dtype, _TOLERANCE_ELSE)
    if size == 0.0 or not (near - far).abs().max().item() > tolerance:
        return None
    still = (near[:, dims:] - far[:, dims:]).abs().max().item() if dims < layer.head_dim else 0.0
    if still <= tolerance:
        for layout in ("half", "interleaved"):
            lengths = [_pair_lengths(keys[:, :dims], layout) for keys in (near, far)]
            if (lengths[0] - lengths[1]).abs().max().item() <= 2 * tolerance:
                return Rotation(layout, dims)
    raise UnsupportedError(
        f"keys depend on the position, but not by RoPE over {dims} of {layer.head_dim} channels in "
        "layout half or interleaved"
    )


def _pair_lengths(keys: torch.Tensor, layout: RopeLayout) -> torch.Tensor:
    heads, dims = keys.shape
    half = layout == "half"
    pairs = keys.reshape((heads, 2, dims // 2) if half else (heads, dims // 2, 2))
    return pairs.square().sum(dim=1 if half else 2).sqrt()


def check_mask(mask_function: Callable[..., Any], windows: set[int | None]) -> int | None:
    """The window of `mask_function`, which must be causal with one of `windows` (None: without).

    Raises UnsupportedError for every other rule.
    """
    position = 1 << 20  # Beyond any window, so that a rule shows its far side.
    zero = torch.tensor(0)
    query = torch.tensor(position)

    def allows(key: int) -> bool:
        return bool(mask_function(zero, zero, query, torch.tensor(key)))

    if allows(position) and not allows(position + 1):
        if None in windows and allows(0):
            return None
        for window in sorted(window for window in windows if window is not None):
            if allows(position - window + 1) and not allows(position - window):
                return window
    raise UnsupportedError(
        "the model asks for a mask that is neither causal nor causal with the sliding window of "
        "one of its layers (chunked or bidirectional attention)"
    )


class _Probe(Consumer):
    def __init__(self, configs: list[Any]) -> None:
        self.configs = configs
        self.layers: dict[int, ObservedLayer] = {}
        self._mask_functions: list[Callable[..., Any]] = []

    def on_mask(self, mask_function: Callable[..., Any]) -> None:
        self._mask_functions.append(mask_function)

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        arguments: Arguments,
    ) -> torch.Tensor:
        if layer in self.layers:
            raise UnsupportedError(f"the keys of layer {layer} are attended to twice (shared KV)")
        num_q_heads, num_kv_heads = query.shape[1], key.shape[1]
        if num_q_heads % num_kv_heads:
            raise UnsupportedError(f"layer {layer}: {num_q_heads} q heads, {num_kv_heads} kv heads")
        self.layers[layer] = ObservedLayer(
            num_q_heads, num_kv_heads, key.shape[3], value.shape[3], arguments, key[0].clone()
        )
        out = value.repeat_interleave(num_q_heads // num_kv_heads, dim=1)
        return out.transpose(1, 2).to(query.dtype).contiguous()

    def check_masks(self, name: str) -> None:
        windows = {layer.arguments.sliding_window for layer in self.layers.values()}
        try:
            asked = {check_mask(function, windows) for function in self._mask_functions}
        except UnsupportedError as error:
            raise UnsupportedError(f"{name}: {error}") from error
        if asked != windows:
            raise UnsupportedError(
                f"{name}: masks have windows {_sorted(asked)}, attention has {_sorted(windows)}"
            )


class _ProbeCache(Cache):
    def __init__(self, probe: _Probe, num_layers: int) -> None:
        super().__init__(layers=[TaggingLayer(self, layer) for layer in range(num_layers)])
        self._probe = probe

    def on_update(self, layer: int, key: torch.Tensor, value: torch.Tensor) -> Consumer:
        return self._probe

    def layer_length(self, layer: int) -> int:
        return 0


def _probe_token(config: Any) -> int:
    """An id whose embedding is not that of padding, which may be zero."""
    vocabulary = int(getattr(config, "vocab_size", 2))
    token = vocabulary // 2
    return token - 1 if token == getattr(config, "pad_token_id", None) else token


@contextmanager
def _in_evaluation(decoder: Any) -> Iterator[None]:
    training = [module for module in decoder.modules() if module.training]
    decoder.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _sorted(windows: set[int | None]) -> list[int | None]:
    return sorted(windows, key=lambda window: window or 0)
