"""Goal:   of the masks that a model asks for, only those that its layers use matter, and each layer
        has the window of its own mask.
Method: rules of transformers are read; small models whose layers use one of two masks, or another
        one from some forward on, are compared with the built-in cache or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as hf
from transformers import masking_utils

import attndb
import attndb.hf
from attndb.hf._masks import OTHER, MaskProbe, MaskRequest, Rule, read_rule
from hf_models import SIZES, assert_same, generate, make, make_model, make_prompt


def _request(rule: Callable[..., Any], is_plain: bool = True) -> MaskRequest:
    return MaskRequest(rule, is_plain, (1, 1, 2, 2), torch.float32)


def _blocks(ids: list[int]) -> Callable[..., Any]:
    overlay = masking_utils.blockwise_overlay(torch.tensor([ids]))
    return masking_utils.or_masks(masking_utils.causal_mask_function, overlay)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (masking_utils.causal_mask_function, Rule(True)),
        (masking_utils.sliding_window_causal_mask_function(1), Rule(True, 1)),
        (masking_utils.sliding_window_causal_mask_function(12), Rule(True, 12)),
        (masking_utils.sliding_window_causal_mask_function(4096), Rule(True, 4096)),
        (masking_utils.chunked_causal_mask_function(64, torch.zeros(1, dtype=torch.int64)), OTHER),
        (masking_utils.bidirectional_mask_function, OTHER),
        (masking_utils.sliding_window_bidirectional_mask_function(8), OTHER),
        (lambda batch, head, query, key: (key <= query) & (key != query - 3), OTHER),
        (lambda batch, head, query, key: key < query, OTHER),
    ],
    ids=["causal", "self", "12", "4096", "chunks", "both ways", "both, 8", "a hole", "not itself"],
)
def test_a_rule_is_read_from_whole_rows(rule: Callable[..., Any], expected: Rule) -> None:
    assert read_rule(_request(rule)) == expected


def test_joined_rules_are_other_ones_whatever_they_say() -> None:
    """What transformers joined (blocks of this batch's tokens) can't be asked of any position."""
    assert read_rule(_request(_blocks([0, 0]), is_plain=False)) == OTHER
    causal = masking_utils.causal_mask_function
    assert read_rule(_request(causal, is_plain=False)) == Rule(True)  # Only to be made in full.


def test_a_mask_that_a_model_writes_into_is_its_own() -> None:
    probe = MaskProbe()
    mask = probe.give(_request(masking_utils.causal_mask_function))
    assert probe.use(0, mask[:, :, :, :1]) == Rule(True)
    mask += torch.tensor([0.0, -1.0])
    with pytest.raises(attndb.UnsupportedError, match="layer 1: .* that the model made itself"):
        probe.use(1, mask)
    with pytest.raises(attndb.UnsupportedError, match="layer 2 attends without a causal mask"):
        probe.use(2, None)


def _resumed(db: attndb.DB, model: Any, ids: torch.Tensor) -> Any:
    """generate() over `ids`, the first 33 of them from the store."""
    cache, given = attndb.hf.create_session(db, model, ids[:, :33])
    with torch.no_grad(), cache:
        model(**given, past_key_values=cache)
        cache.store()
    cache, given = attndb.hf.create_session(db, model, ids)
    assert cache.num_reused == 33
    mask = given["attention_mask"]
    return generate(model, ids, attention_mask=mask, past_key_values=cache)


def test_a_gemma_3_whose_layers_all_slide_is_held(db: attndb.DB) -> None:
    """It asks for a mask of full attention that no layer uses."""
    made = make_model("gemma3", layer_types=["sliding_attention"] * 3)
    model = attndb.hf.use(made)
    assert [layer.sliding_window for layer in attndb.hf.spec(model).layers] == [12] * 3
    ids = make_prompt(61)
    assert_same(_resumed(db, model, ids), generate(model, ids))


def test_a_gemma_3_whose_layers_are_all_full_is_held(db: attndb.DB) -> None:
    model = attndb.hf.use(make_model("gemma3", layer_types=["full_attention"] * 3))
    assert [layer.sliding_window for layer in attndb.hf.spec(model).layers] == [None] * 3
    ids = make_prompt(61)
    assert_same(_resumed(db, model, ids), generate(model, ids))


def test_a_window_that_only_the_mask_has_is_the_layers(db: attndb.DB) -> None:
    """PhiMoE gives its attention function no window, but a mask that has one."""
    config = hf.PhimoeConfig(
        **SIZES, sliding_window=12, num_local_experts=2, num_experts_per_tok=2
    )
    model = attndb.hf.use(make(hf.PhimoeForCausalLM, config))
    assert [layer.sliding_window for layer in attndb.hf.spec(model).layers] == [12] * 3
    ids = make_prompt(61)
    assert_same(_resumed(db, model, ids), generate(model, ids))


def test_a_causal_mask_that_must_be_made_in_full_is_one(
    db: attndb.DB, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers.models.llama.modeling_llama as modeling

    create, full = modeling.create_causal_mask, {"allow_is_causal_skip": False}
    monkeypatch.setattr(modeling, "create_causal_mask", lambda **kw: create(**{**kw, **full}))
    model = attndb.hf.use(make_model("llama"))
    ids = make_prompt(61)
    assert_same(_resumed(db, model, ids), generate(model, ids))


def test_a_mask_that_no_layer_used_is_refused_once_one_does(db: attndb.DB) -> None:
    """As if a model chose another mask from some length on."""
    model = attndb.hf.use(make_model("gemma3", layer_types=["sliding_attention"] * 3))
    ids = make_prompt(30)
    cache, given = attndb.hf.create_session(db, model, ids)
    layer = model.model.layers[1]
    masks: list[Any] = []
    create = masking_utils.create_causal_mask

    import transformers.models.gemma3.modeling_gemma3 as modeling

    def remember(**kwargs: Any) -> Any:
        masks.append(create(**kwargs))
        return masks[-1]

    forward = layer.self_attn.forward

    def with_full_mask(*args: Any, **kwargs: Any) -> Any:
        return forward(*args, **{**kwargs, "attention_mask": masks[-1]})

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(modeling, "create_causal_mask", remember)
        patch.setattr(layer.self_attn, "forward", with_full_mask)
        with pytest.raises(attndb.UnsupportedError, match="layer 1: expected no mask beyond"):
            model(**given, past_key_values=cache)


def test_a_cache_that_forgets_more_than_attention_is_refused_by_its_window() -> None:
    """Moshi's config has a window, its attention none: transformers' cache decides, in decoding
    only."""
    config = hf.MoshiConfig(
        vocab_size=97,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=96,
        sliding_window=8,
        audio_vocab_size=97,
    )
    with pytest.raises(attndb.UnsupportedError, match="layer 0: .* holds the last 8 tokens"):
        attndb.hf.use(make(hf.MoshiForCausalLM, config))


def test_a_model_that_counts_positions_from_another_number_is_refused() -> None:
    """RoBERTa counts from pad_token_id + 1 by itself, generate() from 0: what one stored, the other
    would go on from at other positions."""
    config = hf.RobertaConfig(
        vocab_size=97,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        is_decoder=True,
    )
    with pytest.raises(attndb.UnsupportedError, match="RobertaModel does not honour position_ids"):
        attndb.hf.use(make(hf.RobertaForCausalLM, config))
