"""The attention and mask functions that transformers calls under the name "attndb".

A model's layer calls ``cache.update(k, v, layer)``, which gets no q, and then the attention
function, which gets no cache. Therefore the cache's layers tag the key tensor (:func:`tag`) and
return it, and the attention function reads the tag. The cache keeps no tensor.

The mask function makes no mask: attndb knows causal masks, with or without a sliding window, and
refuses others (_masks.py). A step takes left padding from the forward's own arguments (_step.py).

A call without a tag that belongs to no step runs on the implementation that the model had before.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple, Protocol

import torch
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, AttentionInterface

from attndb._errors import UnsupportedError
from attndb.hf import _switch
from attndb.hf._masks import MaskRequest

# Arguments that do not change the result of attention here. Positions are checked before the
# forward; the other arguments ask for other outputs.
_HARMLESS = frozenset(
    {
        "position_ids",
        "use_cache",
        "output_hidden_states",
        "output_router_logits",
        "return_dict",
        "num_items_in_batch",
    }
)
_MEANING = {
    "sinks": "attention sinks that the tokens make",
    "head_mask": "masked heads",
    "position_bias": "a bias on the logits",
    "alibi": "a bias on the logits",
    "cu_seq_lens_q": "packed sequences",
    "cu_seq_lens_k": "packed sequences",
    "seq_idx": "packed sequences",
    "block_table": "paged attention",
}


class Arguments(NamedTuple):
    """The options that a layer passes to attention, the same in every call of the layer."""

    scaling: float | None  # None = 1 / sqrt(head_dim).
    sliding_window: int | None
    soft_cap: float | None
    # ``s_aux`` as float32: copied values, because the model's weights may change later.
    denominator_logits: tuple[float, ...] | None


class Consumer(Protocol):
    """The receiver of a forward's calls of attention and of masks."""

    configs: list[Any]

    def on_mask(self, request: MaskRequest) -> torch.Tensor | None:
        """Returns the mask for a model's request."""

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: Any,
        arguments: Arguments,
    ) -> torch.Tensor:
        """Computes attention of the new tokens: query [B, Hq, n, D], key [B, Hkv, n, D], value [B,
        Hkv, n, Dv]. `mask`: the mask that the model passes to attention. Returns [B, n, Hq, Dv]."""


def register() -> None:
    """Registers both functions with transformers, for the whole process. May be called again."""
    AttentionInterface.register(_switch.NAME, attention)
    AttentionMaskInterface.register(_switch.NAME, mask)


def tag(key: torch.Tensor, consumer: Consumer, layer: int) -> None:
    """Marks `key` as the new keys of `layer`, whose attention `consumer` computes."""
    key._attndb = (consumer, layer)  # type: ignore[attr-defined]


def attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any,
    scaling: float | None = None,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[torch.Tensor, Any]:
    """Implements transformers' attention function: returns out [B, n, Hq, Dv], and no weights.

    Raises UnsupportedError, which names the argument that attndb does not support.
    """
    tagged = getattr(key, "_attndb", None)
    if tagged is None:
        return _attend_elsewhere(
            module, query, key, value, attention_mask, scaling, dropout, kwargs
        )
    consumer, layer = tagged
    if dropout:
        raise UnsupportedError(f"layer {layer}: attention dropout {dropout}; call model.eval()")
    arguments = _read_arguments(layer, scaling, query.shape[1], kwargs)
    return consumer.attend(layer, query, key, value, attention_mask, arguments), None


def _read_arguments(
    layer: int, scaling: float | None, num_q_heads: int, kwargs: dict[str, Any]
) -> Arguments:
    window = soft_cap = logits = None
    for name, value in kwargs.items():
        if value is None or name in _HARMLESS:
            continue
        if name == "sliding_window":
            window = value
        elif name == "softcap":
            soft_cap = value
        elif name == "s_aux":
            logits = _read_denominators(layer, num_q_heads, value)
        elif name == "is_causal" and value is True:
            continue
        elif name == "output_attentions" and not value:
            continue
        else:
            meaning = f" ({_MEANING[name]})" if name in _MEANING else ""
            raise UnsupportedError(f"layer {layer}: attention argument {name!r}{meaning}")
    return Arguments(scaling, window, soft_cap, logits)


def _read_denominators(layer: int, num_q_heads: int, s_aux: torch.Tensor) -> tuple[float, ...]:
    """Reads learned sinks: one logit per q head, independent of the tokens."""
    if tuple(s_aux.shape) != (num_q_heads,):
        raise UnsupportedError(
            f"layer {layer}: expected attention sinks 's_aux' of shape [{num_q_heads}], one for "
            f"each q head, found {list(s_aux.shape)}"
        )
    logits = s_aux.detach().float()
    if not bool(torch.isfinite(logits).all()):
        raise UnsupportedError(f"layer {layer}: attention sinks 's_aux' that are not finite")
    return tuple(logits.tolist())


def mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int = 0,
    kv_offset: int = 0,
    mask_function: Any = None,
    attention_mask: Any = None,
    **kwargs: Any,
) -> Any:
    """Implements transformers' mask function. Usually returns None, because attndb is causal and
    knows windows and padding.

    Raises UnsupportedError if the model asks for another mask.
    """
    config = kwargs.get("config")
    consumer = _switch.active()
    if consumer is None or not _is_any(config, consumer.configs):
        return ALL_MASK_ATTENTION_FUNCTIONS[_switch.previous(config)](
            batch_size=batch_size,
            q_length=q_length,
            kv_length=kv_length,
            q_offset=q_offset,
            kv_offset=kv_offset,
            mask_function=mask_function,
            attention_mask=attention_mask,
            **kwargs,
        )
    # transformers says so when it joins other rules to a causal mask (image blocks, packing, ...).
    is_plain = not kwargs.get("use_vmap") and kwargs.get("allow_is_causal_skip", True)
    shape = (batch_size, 1, q_length, kv_length)
    dtype = kwargs.get("dtype", torch.float32)
    return consumer.on_mask(MaskRequest(mask_function, is_plain, shape, dtype))


def _attend_elsewhere(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any,
    scaling: float | None,
    dropout: float,
    kwargs: dict[str, Any],
) -> tuple[torch.Tensor, Any]:
    """Runs a forward of another thread with the implementation that the model had before."""
    consumer = _switch.active()
    if consumer is not None and _is_any(module.config, consumer.configs):
        raise UnsupportedError(
            f"{type(module).__name__} attends to keys that are not what cache.update returned "
            "(cross-attention, or keys changed on the way)"
        )
    name = _switch.previous(module.config)
    eager = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
    function = ALL_ATTENTION_FUNCTIONS.get_interface(name, eager)  # type: ignore[arg-type]
    if function is None:
        raise UnsupportedError(f"{type(module).__module__} has no eager attention to go on with")
    return function(  # type: ignore[no-any-return]
        module, query, key, value, attention_mask, scaling=scaling, dropout=dropout, **kwargs
    )


def _is_any(thing: Any, things: list[Any]) -> bool:
    return any(thing is other for other in things)
