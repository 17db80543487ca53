"""Models that attndb can't serve are refused by name when `use` sees them, before any token; what
`use` finds out about the others is what their configs say."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import transformers as hf

import attndb
import attndb.hf
from hf_models import SIZES, ZOO, assert_same, generate, make, make_model, make_prompt

_SMALL = {**SIZES, "num_hidden_layers": 2}
_NO_POSITIONS = {k: v for k, v in _SMALL.items() if k != "max_position_embeddings"}
_MLA = {
    **{**_SMALL, "num_key_value_heads": 8},
    "moe_intermediate_size": 32,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 16,
}
_GEMMA3N = {
    **{**_SMALL, "num_hidden_layers": 4},
    "head_dim": 8,
    "num_kv_shared_layers": 2,
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": 97,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "activation_sparsity_pattern": [0.0] * 4,
    "laurel_rank": 8,
}
_BERT = {"vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 96}
_VISION = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}


def _llama(**rope: Any) -> Any:
    return hf.LlamaForCausalLM(hf.LlamaConfig(**_SMALL, rope_parameters=rope))


def _moe(kind: Any, config: Any, **more: Any) -> Any:
    return kind(config(**_SMALL, head_dim=16, num_local_experts=2, **more))


def _gpt_oss_with_sinks(value: float) -> Any:
    model = _moe(hf.GptOssForCausalLM, hf.GptOssConfig, num_experts_per_tok=2)
    for layer in model.model.layers:
        torch.nn.init.constant_(layer.self_attn.sinks, value)
    return model


REFUSED: dict[str, tuple[Any, str]] = {
    "encoder-decoder": (
        lambda: hf.T5ForConditionalGeneration(
            hf.T5Config(vocab_size=97, d_model=64, d_kv=8, d_ff=96, num_layers=2, num_heads=8)
        ),
        "T5ForConditionalGeneration is an encoder-decoder model",
    ),
    "cross-attention": (
        lambda: hf.GPT2LMHeadModel(
            hf.GPT2Config(vocab_size=97, n_embd=64, n_layer=2, n_head=8, add_cross_attention=True)
        ),
        "GPT2Model has cross-attention",
    ),
    "MLA": (
        lambda: hf.DeepseekV3ForCausalLM(hf.DeepseekV3Config(**_MLA)),
        "DeepseekV3Model: .*(not what cache.update returned|not by RoPE over)",
    ),
    "recurrence": (
        lambda: hf.MambaForCausalLM(hf.MambaConfig(**_BERT)),
        "MambaModel: layers of type (linear_attention|mamba)",
    ),
    "linear attention": (
        lambda: _moe(hf.MiniMaxForCausalLM, hf.MiniMaxConfig),
        "MiniMaxModel: layers of type linear_attention",
    ),
    "convolutions": (
        lambda: hf.Lfm2ForCausalLM(
            hf.Lfm2Config(**_SMALL, layer_types=["conv", "full_attention"])
        ),
        "Lfm2Model: layers of type conv",
    ),
    "shared KV": (
        lambda: hf.Gemma3nForCausalLM(hf.Gemma3nTextConfig(**_GEMMA3N)),
        "Gemma3nTextModel: 2 layers share KV",
    ),
    "keys attended to twice": (
        lambda: hf.DiffLlamaForCausalLM(hf.DiffLlamaConfig(**_SMALL)),
        "DiffLlamaModel(: the keys of layer 0 are attended to twice| does not call)",
    ),
    "attention sinks that are no numbers": (
        lambda: _gpt_oss_with_sinks(float("nan")),
        "GptOssModel: layer 0: attention sinks 's_aux' that are not finite",
    ),
    "ALiBi": (
        lambda: hf.FalconForCausalLM(hf.FalconConfig(**_BERT, num_attention_heads=8, alibi=True)),
        "FalconModel: ALiBi",
    ),
    "codebooks": (
        lambda: hf.MusicgenForCausalLM(
            hf.MusicgenDecoderConfig(
                vocab_size=97,
                hidden_size=64,
                ffn_dim=96,
                num_hidden_layers=2,
                num_attention_heads=8,
                num_codebooks=3,
            )
        ),
        r"MusicgenDecoder reads 3 token ids at each position \(codebooks\)",
    ),
    "no AttentionInterface": (
        lambda: hf.BloomForCausalLM(
            hf.BloomConfig(vocab_size=97, hidden_size=64, n_layer=2, n_head=8)
        ),
        "BloomModel does not call its attention through transformers' AttentionInterface",
    ),
    "not causal": (
        lambda: hf.BertLMHeadModel(hf.BertConfig(**_BERT, num_attention_heads=8)),
        "BertModel: the model asks for a mask other than causal",
    ),
    "bidirectional": (
        lambda: hf.Gemma3ForCausalLM(
            hf.Gemma3TextConfig(**_SMALL, head_dim=16, use_bidirectional_attention=True)
        ),
        "Gemma3TextModel: attention is bidirectional",
    ),
    "chunked": (
        lambda: _moe(hf.Llama4ForCausalLM, hf.Llama4TextConfig, intermediate_size_mlp=96),
        "Llama4TextModel: layers of type chunked_attention",
    ),
    "dynamic RoPE": (
        lambda: _llama(rope_type="dynamic", factor=2.0, rope_theta=1e4),
        "LlamaModel: RoPE of type 'dynamic'",
    ),
    "longrope": (
        lambda: hf.Phi3ForCausalLM(
            hf.Phi3Config(
                **_SMALL,
                original_max_position_embeddings=64,
                rope_parameters={
                    "rope_type": "longrope",
                    "rope_theta": 1e4,
                    "short_factor": [1.0] * 4,
                    "long_factor": [2.0] * 4,
                },
            )
        ),
        "Phi3Model: RoPE of type 'longrope'",
    ),
    "RoPE over several axes": (
        lambda: _llama(rope_type="default", rope_theta=1e4, mrope_section=[1, 1, 2]),
        "LlamaModel: RoPE over several axes",
    ),
    "images": (
        lambda: hf.Gemma3ForConditionalGeneration(
            hf.Gemma3Config(
                text_config=hf.Gemma3TextConfig(**_SMALL, head_dim=16),
                vision_config={
                    **_VISION,
                    "num_attention_heads": 2,
                    "image_size": 28,
                    "patch_size": 14,
                },
            )
        ),
        "Gemma3ForConditionalGeneration has several models inside",
    ),
    "no transformers model": (lambda: torch.nn.Linear(2, 2), "Linear is not a transformers model"),
    "another device": (
        lambda: make_model("llama").to("meta"),
        "LlamaModel: expected weights on the CPU, found meta",
    ),
}


@pytest.mark.parametrize("reason", sorted(REFUSED))
def test_a_model_that_can_not_be_served_is_refused_by_name(reason: str) -> None:
    build, message = REFUSED[reason]
    model = build()
    before = getattr(getattr(model, "config", None), "_attn_implementation", None)
    with pytest.raises(attndb.UnsupportedError, match=message):
        attndb.hf.use(model)
    with pytest.raises(attndb.UnsupportedError):
        attndb.hf.spec(model)
    if before is not None:
        assert model.config._attn_implementation == before
        assert not any(part._forward_pre_hooks for part in model.modules())


def test_use_leaves_training_mode_as_it_is() -> None:
    model = make_model("llama").train()
    model.model.layers[1].eval()
    attndb.hf.use(model)
    modes = [layer.training for layer in model.model.layers]
    assert modes == [True, False, True] and model.training


YARN = (
    "yarn:beta_fast=32,beta_slow=1,factor=32,original_max_position_embeddings=4096,truncate=False"
)


@pytest.mark.parametrize("name", sorted(ZOO))
def test_the_spec_is_what_the_config_says(name: str) -> None:
    model = make_model(name)
    config, spec = model.config, attndb.hf.spec(model)
    assert spec.num_layers == 3 and spec.kv_dtype == "float32" and len(spec.fingerprint) == 32
    for i, layer in enumerate(spec.layers):
        head_dim = getattr(config, "head_dim", None) or 8
        assert (layer.num_q_heads, layer.num_kv_heads) == (8, 2)
        assert (layer.head_dim, layer.v_head_dim) == (head_dim, None)
        kind = config.layer_types[i] if getattr(config, "layer_types", None) else None
        slides = kind == "sliding_attention" or name == "mistral"
        assert layer.sliding_window == (12 if slides else None)
        assert layer.soft_cap == (20.0 if name == "gemma2" else None)
        gemma = name.startswith("gemma")
        assert layer.scale == (pytest.approx(1 / math.sqrt(24)) if gemma else None)
        assert layer.rope is not None and layer.rope.layout == "half"
        stretched = name == "gemma3" and not slides
        assert layer.rope.base == (1e6 if stretched else config_base(config, kind))
        scaling = "linear:factor=4" if stretched else YARN if name == "gpt_oss" else None
        assert layer.rope.scaling == scaling
        if name != "gpt_oss":
            assert layer.denominator_logits is None
            continue
        assert layer.denominator_logits == tuple(model.model.layers[i].self_attn.sinks.tolist())


def config_base(config: Any, kind: str | None) -> float:
    parameters = config.rope_parameters
    return float(parameters.get(kind, parameters)["rope_theta"])


FAMILIES: dict[str, tuple[Any, str]] = {
    "learned positions": (
        lambda: hf.GPT2LMHeadModel(
            hf.GPT2Config(vocab_size=97, n_embd=64, n_layer=2, n_head=8, n_positions=128)
        ),
        "None None",
    ),
    "partial, half": (
        lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**_BERT, num_attention_heads=8)),
        "half/2 half/2",
    ),
    "partial, interleaved": (
        lambda: hf.Glm4ForCausalLM(hf.Glm4Config(**_SMALL, head_dim=16)),
        "interleaved/8 interleaved/8",
    ),
    "none in some layers": (
        lambda: hf.SmolLM3ForCausalLM(hf.SmolLM3Config(**{**_SMALL, "num_hidden_layers": 4})),
        "half/0 half/0 half/0 None",
    ),
    "scaled by llama3": (
        lambda: _llama(
            rope_type="llama3",
            factor=8.0,
            rope_theta=5e5,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=64,
        ),
        "half/0 half/0",
    ),
}


@pytest.mark.parametrize("rope", sorted(FAMILIES))
def test_other_ways_of_positions_are_seen_and_agree(db: attndb.DB, rope: str) -> None:
    build, expected = FAMILIES[rope]
    built = build()
    model = attndb.hf.use(make(type(built), built.config))
    ropes = [layer.rope for layer in attndb.hf.spec(model).layers]
    texts = [f"{each.layout}/{each.rope_dims}" if each else "None" for each in ropes]
    assert " ".join(texts) == expected
    ids = make_prompt(50)
    theirs = generate(model, ids, eos_token_id=None)
    cache, given = attndb.hf.create_session(db, model, ids[:, :23])
    with torch.no_grad(), cache:
        model(**given, past_key_values=cache)
        cache.store()
    cache, given = attndb.hf.create_session(db, model, ids)
    assert cache.num_reused == 23
    mask = given["attention_mask"]
    options = {"attention_mask": mask, "past_key_values": cache, "eos_token_id": None}
    assert_same(generate(model, given["input_ids"], **options), theirs)


def test_scaling_and_its_numbers_are_in_the_text() -> None:
    rope = attndb.hf.spec(FAMILIES["scaled by llama3"][0]()).layers[0].rope
    assert rope is not None and rope.base == 5e5
    assert rope.scaling == (
        "llama3:factor=8,high_freq_factor=4,low_freq_factor=1,original_max_position_embeddings=64"
    )
