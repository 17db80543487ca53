"""Makes attndb's layer specs of a transformers model, and refuses models by their config."""

from __future__ import annotations

import math
from typing import Any

import torch
from transformers import PreTrainedModel

from attndb._errors import UnsupportedError
from attndb._spec import DType, LayerSpec, Rope
from attndb.hf._observe import ObservedLayer, find_rotation

DTYPES: dict[torch.dtype, DType] = {
    torch.float32: "float32",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
}
_LAYER_TYPES = {"full_attention", "sliding_attention"}
# The types of RoPE whose angles do not depend on the length.
_ROPE_TYPES = {"default", "linear", "yarn", "llama3", "proportional"}
_NOT_SCALING = {"rope_type", "type", "rope_theta"}
_IN_ROPE_DIMS = {"partial_rotary_factor"}


def find_decoder(model: Any) -> Any:
    """Returns the module that runs the layers: the innermost transformers model inside `model`.

    Raises UnsupportedError if there is none or more than one, or if the model is an encoder-decoder
    model or reads more than text.
    """
    modules = getattr(model, "modules", None)
    models = [part for part in modules() if isinstance(part, PreTrainedModel)] if modules else []
    if not models:
        raise UnsupportedError(f"{type(model).__name__} is not a transformers model")
    if getattr(models[0].config, "is_encoder_decoder", False):
        raise UnsupportedError(f"{type(models[0]).__name__} is an encoder-decoder model")
    for outer, inner in zip(models, models[1:], strict=False):
        if not any(part is inner for part in outer.modules()):
            raise UnsupportedError(
                f"{type(model).__name__} has several models inside: {type(outer).__name__} and "
                f"{type(inner).__name__}; attndb serves models of text alone"
            )
    decoder = models[-1]
    if decoder.main_input_name != "input_ids":
        raise UnsupportedError(
            f"{type(model).__name__} has a model of {decoder.main_input_name} inside, "
            f"{type(decoder).__name__}; attndb serves models of text alone"
        )
    if _embeds_outside(models[0], decoder):
        raise UnsupportedError(
            f"{type(model).__name__} is a model of more than text around {type(decoder).__name__}, "
            "which is given embeddings instead of token ids; use its model of text alone"
        )
    return decoder


def _embeds_outside(outer: Any, decoder: Any) -> bool:
    """Whether `outer` turns ids into embeddings before `decoder` sees them."""
    config = outer.config
    return config is not decoder.config and config.get_text_config(decoder=True) is not config


def check_config(decoder: Any) -> None:
    """Raises UnsupportedError, with the reason, if the config alone rules the model out."""
    config = decoder.config
    name = type(decoder).__name__
    if getattr(config, "add_cross_attention", False) or getattr(
        config, "cross_attention_layers", None
    ):
        raise UnsupportedError(f"{name} has cross-attention")
    if getattr(config, "num_kv_shared_layers", None):
        raise UnsupportedError(f"{name}: {config.num_kv_shared_layers} layers share KV")
    # "vision" concerns tokens of one image, and a text has none.
    if getattr(config, "use_bidirectional_attention", None) not in (None, False, "vision"):
        raise UnsupportedError(f"{name}: attention is bidirectional, not causal")
    if getattr(config, "alibi", False):
        raise UnsupportedError(f"{name}: ALiBi")
    tables = getattr(decoder, "embed_tokens", None)
    if isinstance(tables, torch.nn.ModuleList) and len(tables) > 1:
        raise UnsupportedError(
            f"{name} reads {len(tables)} token ids at each position (codebooks); attndb finds "
            "contexts by one"
        )
    others = set(getattr(config, "layer_types", None) or []) - _LAYER_TYPES
    if others:
        raise UnsupportedError(f"{name}: layers of type {', '.join(sorted(others))}")
    for params in _all_rope_params(config):
        rope_type = params.get("rope_type", "default")
        if rope_type not in _ROPE_TYPES:
            raise UnsupportedError(
                f"{name}: RoPE of type {rope_type!r}; expected one whose angles do not depend on "
                f"the length: {', '.join(sorted(_ROPE_TYPES))}"
            )
        if "mrope_section" in params:
            raise UnsupportedError(f"{name}: RoPE over several axes (mrope)")
    for parameter in decoder.parameters():
        if parameter.device.type != "cpu":
            raise UnsupportedError(f"{name}: expected weights on the CPU, found {parameter.device}")


def collect_configs(decoder: Any) -> list[Any]:
    """Returns the configs from which modules of the decoder read their attention implementation."""
    found: dict[int, Any] = {}
    for module in decoder.modules():
        config = getattr(module, "config", None)
        if hasattr(config, "_attn_implementation_internal"):
            found[id(config)] = config
    return list(found.values())


def default_kv_dtype(observed: list[ObservedLayer], name: str) -> DType:
    """Returns the dtype in which the model makes its keys."""
    dtype = observed[0].keys.dtype
    if dtype not in DTYPES:
        raise UnsupportedError(f"{name}: keys of {dtype}; expected {', '.join(DTYPES.values())}")
    return DTYPES[dtype]


def layer_specs(decoder: Any, observed: list[ObservedLayer]) -> list[LayerSpec]:
    """Returns the specs of the layers. Raises UnsupportedError if the keys depend on positions in a
    way that attndb does not understand."""
    return [_layer_spec(decoder, layer, seen) for layer, seen in enumerate(observed)]


def _layer_spec(decoder: Any, layer: int, seen: ObservedLayer) -> LayerSpec:
    scaling, _, soft_cap, logits = seen.arguments
    usual = 1.0 / math.sqrt(seen.head_dim)
    is_usual = scaling is None or math.isclose(scaling, usual, rel_tol=1e-7)
    try:
        rope = _rope(decoder.config, layer, seen)
    except UnsupportedError as error:
        raise UnsupportedError(f"{type(decoder).__name__}: layer {layer}: {error}") from error
    return LayerSpec(
        num_q_heads=seen.num_q_heads,
        num_kv_heads=seen.num_kv_heads,
        head_dim=seen.head_dim,
        v_head_dim=None if seen.v_head_dim == seen.head_dim else seen.v_head_dim,
        scale=None if is_usual else scaling,
        soft_cap=soft_cap,
        sliding_window=seen.sliding_window,
        rope=rope,
        denominator_logits=logits,
    )


def _rope(config: Any, layer: int, seen: ObservedLayer) -> Rope | None:
    """Returns the RoPE of a layer. None: the layer has no RoPE, or its keys depend on the position
    in another way (a learned table, a norm behind RoPE). Like all keys, such keys are reused at
    equal positions only."""
    params = _rope_params(config, layer)
    if params is None:
        return None
    factor = params.get("partial_rotary_factor", getattr(config, "partial_rotary_factor", None))
    if params.get("rope_type") == "proportional":  # Some channels have an angle of 0.
        factor = None
    dims = int(seen.head_dim * (1.0 if factor is None else factor)) & ~1
    rotation = find_rotation(seen, dims)
    if rotation is None:
        return None
    base = params.get("rope_theta")
    if base is None:
        raise UnsupportedError("RoPE without a base (rope_theta) in the config")
    whole = rotation.dims == seen.head_dim
    return Rope(float(base), rotation.layout, _scaling_text(params), 0 if whole else rotation.dims)


def _rope_params(config: Any, layer: int) -> dict[str, Any] | None:
    params = getattr(config, "rope_parameters", None)
    if not params:
        return None
    if not _is_by_layer_type(params):
        return dict(params)
    chosen = params.get(config.layer_types[layer])
    return dict(chosen) if chosen else None


def _all_rope_params(config: Any) -> list[dict[str, Any]]:
    params = getattr(config, "rope_parameters", None)
    if not params:
        return []
    return [p for p in params.values() if p] if _is_by_layer_type(params) else [params]


def _is_by_layer_type(params: dict[str, Any]) -> bool:
    return all(value is None or isinstance(value, dict) for value in params.values())


def _scaling_text(params: dict[str, Any]) -> str | None:
    """Returns the type and all its parameters, by name: "linear:factor=4". None = no scaling."""
    rope_type = params.get("rope_type", "default")
    if rope_type == "default":
        return None
    left_out = _NOT_SCALING if rope_type == "proportional" else _NOT_SCALING | _IN_ROPE_DIMS
    values = {key: value for key, value in params.items() if key not in left_out}
    texts = [f"{key}={_number(values[key])}" for key in sorted(values) if values[key] is not None]
    return f"{rope_type}:{','.join(texts)}"


def _number(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)
