"""Goal:   a cache with max_length goes on past it with the keys and values that it has: the oldest
        tokens leave, the first ones stay, moved; it is stored and found by all of its tokens.
Method: tiny models; the same model with transformers' own cache of what stays, keys in front turned
        here in float64; and, as a control, without them.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import DynamicCache

import attndb
import attndb.hf
from hf_models import generate, make_model, make_prompt


@pytest.fixture(scope="module", params=[("llama", False), ("llama", True), ("qwen3", False)],
                ids=["llama", "llama_unrotated", "qwen3"])
def model(request: pytest.FixtureRequest) -> Any:
    name, unrotated_keys = request.param
    return attndb.hf.use(make_model(name), unrotated_keys=unrotated_keys)


def _turned(model: Any, keys: torch.Tensor, positions: int) -> torch.Tensor:
    """Keys [..., head_dim] as RoPE gives them so many positions later."""
    angles = model.model.rotary_emb.inv_freq.double() * positions
    a, b = keys.double().chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1).float()


def _what_stays(model: Any, ids: torch.Tensor, in_front: int, begin: int) -> DynamicCache:
    """transformers' cache of all of `ids`, of which [0, in_front) and [begin, ..) stay."""
    whole, left = DynamicCache(), DynamicCache()
    with torch.no_grad():
        model(ids, past_key_values=whole)
    for layer, states in enumerate(whole.layers):
        front = _turned(model, states.keys[:, :, :in_front], begin - in_front)
        keys = torch.cat([front, states.keys[:, :, begin:]], dim=2)
        values = torch.cat([states.values[:, :, :in_front], states.values[:, :, begin:]], dim=2)
        left.update(keys, values, layer)
    return left


@pytest.mark.parametrize("in_front", [0, 4])
def test_goes_on_with_what_stays(db: attndb.DB, model: Any, in_front: int) -> None:
    ids = make_prompt(48)
    cache, given = attndb.hf.create_session(
        db, model, ids, max_length=48, keep_first=in_front, reuse=False
    )
    kept = max(in_front, 1)  # The first token stays as a sink.
    own = _what_stays(model, ids, kept, 24 + kept)
    control = _what_stays(model, ids, 0, 24)
    with torch.no_grad(), cache:
        model(**given, past_key_values=cache)
        assert cache.session.num_dropped == 0
        for seed, (begin, count) in enumerate(((48, 1), (49, 5), (54, 1))):
            more = make_prompt(count, seed=seed)
            at = {"position_ids": torch.arange(begin, begin + count)[None]}
            expected = model(more, past_key_values=own, **at).logits
            found = model(more, past_key_values=cache).logits
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=2e-3)
            others = model(more, past_key_values=control, **at).logits
            assert (others - found).abs().max() > 0.05
        assert cache.session.num_dropped == 24
        assert cache.session.cuts == (attndb.Cut(48, ((kept, 24 + kept),)),)
        assert cache.get_seq_length() == 55


def test_generates_far_beyond_and_goes_on_from_the_store(db: attndb.DB, model: Any) -> None:
    ids = make_prompt(40)
    cache, given = attndb.hf.create_session(db, model, ids, max_length=64)
    with cache:
        made = generate(model, given["input_ids"], past_key_values=cache, max_new_tokens=150)
        output = made.sequences
        assert output.shape == (1, 190)
        cuts = cache.session.cuts
        assert len(cuts) >= 4
        assert cache.session.num_tokens - cache.session.num_dropped <= 64
        cache.store(output, name="long")
    more = torch.cat([output, make_prompt(3, seed=9)], dim=1)
    again, given = attndb.hf.create_session(db, model, more, max_length=64)
    with again:
        assert again.num_reused == 189
        assert again.session.cuts == cuts
        whole, _ = attndb.hf.create_session(db, model, more, reuse=False)
        with torch.no_grad(), whole:
            found = model(**given, past_key_values=again).logits[:, -1]
            expected = model(more, past_key_values=whole).logits[:, -1]
        assert (found - expected).abs().max() > 0.05, "the control saw all tokens"


@pytest.mark.parametrize("keep_first", [0, 4])
@pytest.mark.parametrize("drafts", ["prompt_lookup", "assistant"])
def test_drafts_that_are_rejected_let_no_token_leave(
    db: attndb.DB, model: Any, drafts: str, keep_first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = torch.cat([make_prompt(10)] * 3, dim=1)
    rejected: list[int] = []
    crop = attndb.hf.AttndbCache.crop

    def counted(cache: Any, tokens_to_remove: int) -> None:
        rejected.append(-tokens_to_remove)
        crop(cache, tokens_to_remove)

    monkeypatch.setattr(attndb.hf.AttndbCache, "crop", counted)

    def run(**options: Any) -> tuple[list[int], tuple[attndb.Cut, ...]]:
        cache, given = attndb.hf.create_session(
            db, model, ids, max_length=40, keep_first=keep_first, reuse=False
        )
        with cache:
            made = generate(
                model, given["input_ids"], past_key_values=cache, max_new_tokens=90, **options
            )
            assert cache.session.num_tokens - cache.session.num_dropped <= 40
            return made.sequences[0].tolist(), cache.session.cuts

    greedy, cuts = run()
    assert len(cuts) >= 3 and not rejected
    if drafts == "assistant":
        assistant = make_model("llama", seed=8)
        assistant.generation_config.num_assistant_tokens = 6
        assistant.generation_config.num_assistant_tokens_schedule = "constant"
        assistant.generation_config.assistant_confidence_threshold = 0.0
        found, found_cuts = run(assistant_model=assistant)
    else:
        found, found_cuts = run(prompt_lookup_num_tokens=7)
    assert max(rejected) >= 5, "no draft was rejected"
    assert found == greedy
    assert found_cuts == cuts


def test_several_tokens_behind_a_prompt_run_as_one_by_one(db: attndb.DB, model: Any) -> None:
    lengths, count = (30, 11, 24), 60
    ids, mask = torch.zeros(3, 30, dtype=torch.int64), torch.zeros(3, 30, dtype=torch.int64)
    for r, length in enumerate(lengths):
        ids[r, 30 - length :], mask[r, 30 - length :] = make_prompt(length, seed=r)[0], 1
    more = make_prompt(count, seed=40, batch=3)
    held = []
    for step in (1, 7, count):
        cache, given = attndb.hf.create_session(
            db, model, ids, attention_mask=mask, max_length=32, reuse=False
        )
        with torch.no_grad(), cache:
            model(**given, past_key_values=cache)
            parts = [
                model(part, past_key_values=cache, output_hidden_states=True)
                for part in more.split(step, dim=1)
            ]
            assert all(len(part.hidden_states) == 4 for part in parts)
            held.append(
                (
                    torch.cat([part.logits for part in parts], dim=1),
                    torch.cat([part.hidden_states[1] for part in parts], dim=1),
                    [session.cuts for session in cache.sessions],
                    [cache.token_ids(r) for r in range(3)],
                )
            )
    for logits, states, cuts, token_ids in held[1:]:
        torch.testing.assert_close(logits, held[0][0], rtol=1e-3, atol=2e-3)
        torch.testing.assert_close(states, held[0][1], rtol=1e-3, atol=2e-3)
        assert cuts == held[0][2] and all(len(of_row) >= 2 for of_row in cuts)
        assert token_ids == held[0][3]


def test_a_forward_that_fails_behind_a_drop_goes_back_to_its_begin(
    db: attndb.DB, model: Any
) -> None:
    ids, more = make_prompt(30), make_prompt(15, seed=7)
    cache, given = attndb.hf.create_session(db, model, ids, max_length=40, reuse=False)
    calls = 0

    def fail_in_the_second(*_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise RuntimeError("no")

    with torch.no_grad(), cache:
        model(**given, past_key_values=cache)
        handle = model.model.layers[1].register_forward_pre_hook(fail_in_the_second)
        with pytest.raises(RuntimeError, match="no"):
            model(more, past_key_values=cache)
        handle.remove()
        assert calls == 2 and cache.get_seq_length() == 30
        with pytest.raises(attndb.FailedPreconditionError, match="failed in the middle"):
            model(more, past_key_values=cache)
        cache.crop(0)
        assert cache.token_ids() == ids[0].tolist() and cache.session.cuts == ()
        found = model(more, past_key_values=cache).logits
        again, given = attndb.hf.create_session(db, model, ids, max_length=40, reuse=False)
        with again:
            model(**given, past_key_values=again)
            assert torch.equal(found, model(more, past_key_values=again).logits)


def test_a_prompt_and_drafts_that_fit_are_one_forward(db: attndb.DB, model: Any) -> None:
    ids, drafts = make_prompt(30), make_prompt(8, seed=7)
    cache, given = attndb.hf.create_session(db, model, ids, max_length=64, reuse=False)
    calls = []
    handle = model.model.layers[1].register_forward_pre_hook(lambda *_: calls.append(1))
    with torch.no_grad(), cache:
        model(torch.cat([given["input_ids"], drafts], dim=1), past_key_values=cache)
        assert len(calls) == 1 and cache.session.cuts == ()
    handle.remove()


@pytest.mark.parametrize("max_length", [None, 80])
def test_a_cut_does_not_outlive_the_length_that_made_it(
    db: attndb.DB, model: Any, max_length: int | None
) -> None:
    cache, given = attndb.hf.create_session(db, model, make_prompt(40), max_length=64)
    with cache:
        made = generate(model, given["input_ids"], past_key_values=cache, max_new_tokens=36)
        assert cache.session.num_dropped > 0
        at = cache.session.cuts[0].at
        cache.store(made.sequences, name="long")
    more = torch.cat([made.sequences, make_prompt(3, seed=9)], dim=1)
    assert 64 < more.shape[1] <= 80
    again, given = attndb.hf.create_session(db, model, more, max_length=max_length)
    whole, _ = attndb.hf.create_session(db, model, more, reuse=False)
    with torch.no_grad(), again, whole:
        assert again.num_reused in (at - 1, at)
        found = model(**given, past_key_values=again).logits[:, -1]
        assert again.session.num_dropped == 0
        expected = model(more, past_key_values=whole).logits[:, -1]
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=2e-3)


def test_what_never_fits_is_named(db: attndb.DB, model: Any) -> None:
    ids = make_prompt(124)
    cache, given = attndb.hf.create_session(db, model, ids, max_length=48)
    with torch.no_grad(), cache:
        with pytest.raises(attndb.InvalidArgumentError, match="row 0 has 124 new tokens"):
            model(**given, past_key_values=cache)
        model(ids[:, :40], past_key_values=cache)
        model(ids[:, 40:80], past_key_values=cache)
        assert cache.session.num_dropped == 32
        with pytest.raises(attndb.InvalidArgumentError, match="44 new tokens.*room for 43"):
            model(ids[:, 80:], past_key_values=cache)
    with pytest.raises(attndb.InvalidArgumentError, match="max_length=4, keep_first=4"):
        attndb.hf.create_session(db, model, ids, max_length=4)
    with pytest.raises(attndb.InvalidArgumentError, match="max_length=3, keep_first=0"):
        attndb.hf.create_session(db, model, ids, max_length=3, keep_first=0)
