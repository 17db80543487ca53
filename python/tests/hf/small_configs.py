"""Small configs of every causal language model that transformers lists, and models made of them.

A config class tells by the names of its fields which sizes it has. Each known name gets a small
value, in sub-configs too; what a class needs beyond that stands in DIFFERENT, by model type.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import transformers
from transformers import PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from hf_models import VOCABULARY

_LAYERS, _HIDDEN, _HEADS, _KV_HEADS, _HEAD_DIM, _WINDOW = 4, 64, 4, 2, 16, 8
_NAMES: dict[str, tuple[Any, str]] = {
    "vocabularies": (
        VOCABULARY,
        "vocab_size decoder_vocab_size vocab_size_per_layer_input audio_vocab_size "
        "encoder_hash_byte_group_vocab pronunciation_vocab_size shape_vocab_size",
    ),
    "widths": (
        _HIDDEN,
        "hidden_size d_model n_embd emb_dim embedding_size word_embed_proj_dim lru_width "
        "embedding_dim input_embedding_size output_embedding_size backbone_hidden_size "
        "out_hidden_size output_dim projection_dim adapter_in_dim adapter_out_dim "
        "adapter_input_size",
    ),
    "layers": (
        _LAYERS,
        "num_hidden_layers n_layer n_layers num_layers decoder_layers encoder_layers "
        "num_decoder_layers num_encoder_layers num_blocks",
    ),
    "q heads": (
        _HEADS,
        "num_attention_heads n_head n_heads num_heads attention_heads decoder_attention_heads "
        "encoder_attention_heads num_decoder_attention_heads num_encoder_attention_heads "
        "swa_num_attention_heads linear_num_value_heads index_n_heads",
    ),
    "kv heads": (
        _KV_HEADS,
        "num_key_value_heads swa_num_key_value_heads num_kv_heads linear_num_key_heads "
        "indexer_n_heads",
    ),
    "head dims": (
        _HEAD_DIM,
        "head_dim swa_head_dim qk_nope_head_dim qk_rope_head_dim v_head_dim swa_v_head_dim "
        "dim_head d_head attention_head_size kv_channels linear_key_head_dim linear_value_head_dim "
        "linear_head_dim index_head_dim indexer_head_dim mamba_d_head mamba_head_dim "
        "mamba_d_state state_size ssm_state_size mamba_chunk_size chunk_size "
        "pronunciation_embed_dim shape_embed_dim",
    ),
    "query and key of latent attention": (2 * _HEAD_DIM, "qk_head_dim"),
    "ranks": (24, "kv_lora_rank q_lora_rank o_lora_rank"),
    "feed-forward": (
        96,
        "intermediate_size ffn_dim decoder_ffn_dim encoder_ffn_dim dim_ff dff ffn_hidden_size "
        "d_inner n_inner feed_forward_size intermediate_size_mlp dense_intermediate_size "
        "shared_intermediate_size",
    ),
    "of an expert": (
        32,
        "moe_intermediate_size shared_expert_intermediate_size expert_ffn_hidden_size "
        "shared_experts_intermediate_size moe_shared_expert_intermediate_size",
    ),
    "experts": (4, "num_experts n_routed_experts num_local_experts moe_num_experts"),
    "experts of a token": (2, "num_experts_per_tok num_experts_per_token moe_topk moe_k"),
    "one": (
        1,
        "n_group topk_group num_expert_group n_shared_experts moe_num_shared_experts "
        "num_shared_experts",
    ),
    "windows": (
        _WINDOW,
        "sliding_window sliding_window_size window_size local_attention attention_window_size "
        "attention_chunk_size local_attention_window_len index_topk indexer_budget hc_lowrank "
        "rotary_dim hidden_size_per_layer_input mamba_n_heads mamba_num_heads",
    ),
    "positions": (
        512,
        "max_position_embeddings n_positions n_ctx max_seq_len max_target_positions",
    ),
    "two": (2, "max_window_layers num_kv_shared_layers depth"),
    "of images": (28, "image_size"),
    "of their parts": (14, "patch_size"),
    "inner width of Mamba": (2 * _HIDDEN, "mamba_d_ssm"),
    "on": (True, "is_decoder use_sliding_window"),
    "ids": (1, "bos_token_id"),
    # Else generate() ends early, takes such an id for a hole, each token is followed by itself.
    "none": (None, "pad_token_id eos_token_id"),
    "off": (False, "tie_word_embeddings"),
}
_SIZES = {name: value for value, names in _NAMES.values() for name in names.split()}


def _alternating(*kinds: str) -> dict[str, Any]:
    return {"layer_types": [kinds[i % len(kinds)] for i in range(_LAYERS)]}


_DEFAULT = object()  # The class's own value.
_ROPE = {"rope_type": "default", "rope_theta": 1e4}
_PADDED = {"pad_token_id": 0}  # The model does not run without one.
_CONV = _alternating("conv", "full_attention")
_LINEAR = _alternating("linear_attention", "full_attention")
_SLIDING = _alternating("sliding_attention", "full_attention")
_MAMBA_BLOCKS = {
    "layers_block_type": ["linear_attention", "hybrid"] * 2,
    "num_key_value_heads": _HEADS,
}
_GEMMA4 = {**_SLIDING, "global_head_dim": 32, "num_kv_shared_layers": 0}
_DOTS3 = {
    **_alternating("indexed_attention", "sliding_attention"),
    "swa_num_attention_heads": _HEADS,
    "swa_num_key_value_heads": _HEADS,
    "swa_q_lora_rank": 24,
    "swa_kv_lora_rank": 24,
    "swa_head_dim": 2 * _HEAD_DIM,
    "swa_qk_nope_head_dim": _HEAD_DIM,
    "swa_v_head_dim": _HEAD_DIM,
}
_QWEN4 = {
    **_alternating("linear_attention", "indexed_attention"),
    "indexer_kv_heads": 1,
    "indexer_compress_ratio": 2,
}
# By model type: fields that their names do not decide.
DIFFERENT: dict[str, dict[str, Any]] = {
    **dict.fromkeys(["camembert", "data2vec-text", "modernbert-decoder", "prophetnet"], _PADDED),
    **dict.fromkeys(["roberta", "roberta-prelayernorm", "roc_bert", "xlm"], _PADDED),
    **dict.fromkeys(["xlm-roberta", "xlm-roberta-xl"], _PADDED),
    **dict.fromkeys(["lfm2", "lfm2_moe", "lfm3"], _CONV),
    **dict.fromkeys(["gemma4_text", "gemma4_unified_text"], _GEMMA4),
    **dict.fromkeys(["gemma4", "gemma4_unified"], {"text_config": {**_GEMMA4, **_PADDED}}),
    "bailing_hybrid": {"layer_group_size": 2},
    "bamba": {"attn_layer_indices": [1, 3]},
    "cohere_compass_text": {
        **_SLIDING,
        "rope_parameters": {"sliding_attention": _ROPE, "full_attention": _ROPE},
    },
    "dbrx": {
        "attn_config": {"rope_theta": 1e4, "kv_n_heads": _KV_HEADS, "clip_qkv": 8.0},
        "ffn_config": {"moe_top_k": 2},
    },
    "dots3_note": {
        "text_config": _DOTS3,
        "vision_config": {"per_layer_config": {}, "mlp_layer_types": ["dense"] * _LAYERS},
    },
    "dots3_note_text": _DOTS3,
    "emu3": {"text_config": _PADDED},
    "got_ocr2": {"vision_config": {"output_channels": 8}},
    "gpt_neo": {"attention_types": [[["global", "local"], 2]]},
    "granitemoehybrid": {**_LINEAR, "position_embedding_type": "rope"},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "kimi_linear": _LINEAR,
    "laguna": {
        **_SLIDING,
        "rope_parameters": {
            "sliding_attention": _ROPE,
            "full_attention": {**_ROPE, "rope_theta": 1e6, "partial_rotary_factor": 0.5},
        },
    },
    "longcat_flash": {"zero_expert_num": 2},
    "mamba2": {"num_heads": 8, "head_dim": _HEAD_DIM},
    "minimax_m3_vl_text": _alternating("full_attention", "minimax_m3_sparse"),
    "phi4_multimodal": {"audio_config": {"nemo_conv_channels": 8, "input_size": 16}},
    "qwen4_exp": {"text_config": _QWEN4},
    "qwen4_exp_text": _QWEN4,
    "reformer": {"axial_pos_embds_dim": [32, 32], "axial_pos_shape": [16, 32]},
    "xlstm": {"hidden_size": 128, "embedding_dim": 128, "num_heads": 4, "chunk_size": 8},
    "xmod": {**_PADDED, "languages": ["en_XX"], "default_language": "en_XX"},
    "zamba": {**_MAMBA_BLOCKS, "attention_hidden_size": _DEFAULT},
    "zamba2": _MAMBA_BLOCKS,
    "zaya": {"num_experts_per_tok": 1},
}
# By model type: entries that are no decoders, and why.
NO_DECODER = dict.fromkeys(
    ["gemma4_assistant", "gemma4_unified_assistant"],
    "has no keys of its own, but drafts from those of the Gemma 4 that it assists",
)
# By model type: the part of its config that its model of text is made of.
_PART = {"musicgen": "decoder", "musicgen_melody": "decoder"}


def model_types() -> list[str]:
    """Every entry of transformers' table of causal language models."""
    return sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def class_name(model_type: str) -> str:
    return str(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[model_type])


def small_config(model_type: str) -> Any:
    kind = getattr(transformers, CONFIG_MAPPING_NAMES[model_type])
    values = _merged(_small_values(kind), DIFFERENT.get(model_type, {}))
    config = kind(**values)
    return getattr(config, _PART[model_type]) if model_type in _PART else config


def build(model_type: str, config: Any) -> Any:
    """The model of `config`, as AutoModelForCausalLM chooses it."""
    if model_type in _PART:
        return getattr(transformers, class_name(model_type))._from_config(config)
    return transformers.AutoModelForCausalLM.from_config(config)


def _small_values(kind: Any) -> dict[str, Any]:
    """The small values of the fields that the config class `kind` has."""
    names = {field.name for field in fields(kind)}
    small = {name: value for name, value in _SIZES.items() if name in names}
    if "kv_lora_rank" in names:  # Latent attention makes keys for every q head.
        small["num_key_value_heads"] = _HEADS
    subs = set(kind.sub_configs) | set(getattr(kind, "sub_configs_defaults", {}))
    by_default = _by_default(kind) if subs or "layer_types" in names else None
    for name in subs:
        sub = getattr(by_default, name, None)
        if isinstance(sub, PreTrainedConfig):
            small[name] = {"model_type": sub.model_type, **_small_values(type(sub))}
    if "layer_types" in names and by_default is not None:
        kinds = list(dict.fromkeys(by_default.layer_types or []))
        if len(kinds) > 1:  # Fewer layers must not lose the later kinds.
            small.update(_alternating(*kinds))
    return small


def _by_default(kind: Any) -> Any:
    """None for a class that refuses its own defaults."""
    try:
        return kind()
    except Exception:
        return None


def _merged(small: dict[str, Any], different: dict[str, Any]) -> dict[str, Any]:
    merged = dict(small)
    for name, value in different.items():
        if isinstance(value, dict) and isinstance(small.get(name), dict):
            merged[name] = _merged(small[name], value)
        elif value is _DEFAULT:
            merged.pop(name, None)
        else:
            merged[name] = value
    return merged
