"""Observes a model's attention layers in a forward, instead of guessing them from its classes.

The decoder runs one token twice in a forward, at position 0 and far behind it. Every layer shows
the shapes of q, k and v, and its scale, window and soft cap. The layer also shows whether it keeps
its keys in the cache and attends to just these keys. v is the same for both tokens, so the result
of attention is v, and all layers get the same inputs as in normal use. The two keys of a layer then
differ by RoPE alone, which shows RoPE's layout.

Then the decoder runs the token once more, as the next token of a long cache and without positions.
The keys must be those of the position that follows from the cache's length.

Cost: two forwards, of two tokens and of one, under no_grad and in evaluation mode.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache

from attndb._errors import Error, UnsupportedError
from attndb._spec import RopeLayout
from attndb.hf import _switch
from attndb.hf._attention import Arguments, Consumer, tag
from attndb.hf._masks import MaskProbe, MaskRequest, MasksSeen

_POSITION_MAX = 4095  # Far enough to rotate many channels, near enough for angles in float32.
# Entries of a table of positions that a model may lose to an offset: RoBERTa begins at 2.
_TABLE_END = 4
# Relative to the largest key: above the rounding of a deep model, far below the changes by RoPE.
_TOLERANCE = {torch.bfloat16: 0.05}
_TOLERANCE_ELSE = 0.01


@dataclass(frozen=True)
class Rotation:
    """The rotation of a layer's keys by RoPE."""

    layout: RopeLayout
    dims: int


@dataclass(frozen=True)
class ObservedLayer:
    num_q_heads: int
    num_kv_heads: int
    head_dim: int
    v_head_dim: int
    arguments: Arguments
    sliding_window: int | None  # The window of the mask that the layer attends with.
    keys: torch.Tensor  # [num_kv_heads, 2, head_dim], at position 0 and at `position`.


class TaggingLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """One layer of a cache without tensors: it tags new keys and passes them through.

    ``owner.on_update(layer, key, value)`` returns the consumer for the tag, and
    ``owner.layer_length(layer)`` returns the number of the layer's columns.
    """

    is_compileable = False
    is_croppable = True
    is_sliding = False  # Layers with a window hold all tokens, too.
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


def observe(decoder: Any, configs: list[Any]) -> tuple[list[ObservedLayer], MasksSeen]:
    """Returns the decoder's attention layers, by index, and the masks that it asks for.

    Raises UnsupportedError, which names the model, if attndb can't compute its attention.
    """
    name = type(decoder).__name__
    position = probe_position(decoder.config)
    probe = _run(decoder, configs, position_ids=torch.tensor([[0, position]]))
    layers = [probe.layers[layer] for layer in range(len(probe.layers))]
    _check_windows(name, decoder.config, layers)
    _check_positions(name, layers, _run(decoder, configs, num_held=position))
    return layers, probe.masks.seen()


def _run(
    decoder: Any,
    configs: list[Any],
    num_held: int = 0,
    position_ids: torch.Tensor | None = None,
) -> _Probe:
    """Runs a forward of one token, or of one token per position in `position_ids`, and returns the
    observations of each layer. The cache claims that it holds `num_held` tokens."""
    name = type(decoder).__name__
    probe = _Probe(configs)
    cache = _ProbeCache(probe, decoder.config.num_hidden_layers, num_held)
    num_new = 1 if position_ids is None else position_ids.shape[1]
    given = {} if position_ids is None else {"position_ids": position_ids}
    try:
        with (
            _in_evaluation(decoder),
            torch.no_grad(),
            _switch.reporting_to(probe, configs),
        ):
            decoder(
                input_ids=torch.full((1, num_new), _probe_token(decoder.config)),
                past_key_values=cache,
                use_cache=True,
                **given,
            )
    except Error as error:
        raise UnsupportedError(f"{name}: {error}") from error
    except Exception as error:
        text = f"a forward with attndb's cache failed: {type(error).__name__}: {error}"
        raise UnsupportedError(f"{name}: {text}") from error
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
    return probe


def _check_windows(name: str, config: Any, layers: list[ObservedLayer]) -> None:
    """Checks that transformers' own cache for `config` holds all tokens that the layers attend to.
    Without them, results depend on how the tokens are cut into forwards."""
    for i, held in enumerate(DynamicCache(config=config).layers[: len(layers)]):
        slides = getattr(held, "is_sliding", False)
        window = getattr(held, "sliding_window", None) if slides else None
        attended = layers[i].sliding_window
        if window is not None and (attended is None or attended > window):
            raise UnsupportedError(
                f"{name}: layer {i}: transformers' own cache holds the last {window} tokens, and "
                f"attention is not limited to them (its window: {attended}), so prefill and "
                "decoding differ"
            )


def _check_positions(name: str, layers: list[ObservedLayer], later: _Probe) -> None:
    """Checks that a token without a given position gets the position of its place."""
    for i, layer in enumerate(layers):
        near, far = layer.keys[:, 0].double(), layer.keys[:, 1].double()
        if _is_equal(near, far, layer.keys.dtype):
            continue  # Here keys do not depend on the position.
        if not _is_equal(far, later.layers[i].keys[:, 0].double(), layer.keys.dtype):
            raise UnsupportedError(
                f"{name} does not honour position_ids: a token given position p has other keys "
                "than the one behind p held tokens (ignored, or counted from another number)"
            )
        return  # In later layers, a rounding may choose other experts.


def probe_position(config: Any) -> int:
    """Returns the second token's position, within the limits of the model's tables."""
    limits = (getattr(config, f"max_{of}_positions", None) for of in ("target", "source"))
    limit = getattr(config, "max_position_embeddings", None) or next(filter(None, limits), None)
    return max(1, min(int(limit or _POSITION_MAX + 1 + _TABLE_END) - 1 - _TABLE_END, _POSITION_MAX))


def _is_equal(near: torch.Tensor, far: torch.Tensor, dtype: torch.dtype) -> bool:
    tolerance = near.abs().max().item() * _TOLERANCE.get(dtype, _TOLERANCE_ELSE)
    return not (near - far).abs().max().item() > tolerance


def find_rotation(layer: ObservedLayer, dims: int) -> Rotation | None:
    """Returns how RoPE over the leading `dims` channels rotated the observed keys. None: the keys
    are equal, or depend on the position in another way.

    A rotation keeps the length of each pair of channels that it rotates; for other pairs the length
    changes.
    """
    near, far = layer.keys[:, 0].double(), layer.keys[:, 1].double()
    size = near.abs().max().item()
    tolerance = size * _TOLERANCE.get(layer.keys.dtype, _TOLERANCE_ELSE)
    if size == 0.0 or _is_equal(near, far, layer.keys.dtype):
        return None
    still = (near[:, dims:] - far[:, dims:]).abs().max().item() if dims < layer.head_dim else 0.0
    if still <= tolerance:
        for layout in ("half", "interleaved"):
            lengths = [_pair_lengths(keys[:, :dims], layout) for keys in (near, far)]
            if (lengths[0] - lengths[1]).abs().max().item() <= 2 * tolerance:
                return Rotation(layout, dims)
    return None


def _pair_lengths(keys: torch.Tensor, layout: RopeLayout) -> torch.Tensor:
    heads, dims = keys.shape
    half = layout == "half"
    pairs = keys.reshape((heads, 2, dims // 2) if half else (heads, dims // 2, 2))
    return pairs.square().sum(dim=1 if half else 2).sqrt()


class _Probe(Consumer):
    def __init__(self, configs: list[Any]) -> None:
        self.configs = configs
        self.layers: dict[int, ObservedLayer] = {}
        self.masks = MaskProbe()

    def on_mask(self, request: MaskRequest) -> torch.Tensor:
        return self.masks.give(request)

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: Any,
        arguments: Arguments,
    ) -> torch.Tensor:
        if layer in self.layers:
            raise UnsupportedError(f"the keys of layer {layer} are attended to twice (shared KV)")
        num_q_heads, num_kv_heads = query.shape[1], key.shape[1]
        if num_q_heads % num_kv_heads:
            raise UnsupportedError(f"layer {layer}: {num_q_heads} q heads, {num_kv_heads} kv heads")
        window = self.masks.use(layer, mask).window
        if arguments.sliding_window not in (None, window):
            raise UnsupportedError(
                f"layer {layer}: its mask has window {window}, its attention "
                f"{arguments.sliding_window}"
            )
        self.layers[layer] = ObservedLayer(
            num_q_heads,
            num_kv_heads,
            key.shape[3],
            value.shape[3],
            arguments,
            window,
            key[0].clone(),
        )
        out = value.repeat_interleave(num_q_heads // num_kv_heads, dim=1)
        return out.transpose(1, 2).to(query.dtype).contiguous()


class _ProbeCache(Cache):
    def __init__(self, probe: _Probe, num_layers: int, num_held: int) -> None:
        super().__init__(layers=[TaggingLayer(self, layer) for layer in range(num_layers)])
        self._probe = probe
        self._num_held = num_held

    def on_update(self, layer: int, key: torch.Tensor, value: torch.Tensor) -> Consumer:
        return self._probe

    def layer_length(self, layer: int) -> int:
        return self._num_held


def _probe_token(config: Any) -> int:
    """Returns an id other than the padding id, whose embedding may be zero."""
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
