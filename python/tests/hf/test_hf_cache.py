"""Goal:   what is done to a cache (crop, reorder, select, fork, reset, store) is done to each
        row's session and ids alike.
Method: after each change, the next forward's logits are those of a forward over the ids that the
        cache should hold; a seeded random walk tries them in any order."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

import attndb
import attndb.hf
from hf_models import IS_OLD, generate, make_model, make_prompt


@pytest.fixture(scope="module")
def model() -> Any:
    return attndb.hf.use(make_model("gemma3"))


def _run(model: Any, cache: Any, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(ids, past_key_values=cache).logits  # type: ignore[no-any-return]


def _cache(db: attndb.DB, model: Any, ids: torch.Tensor) -> Any:
    cache, given = attndb.hf.create_session(db, model, ids, reuse=False)
    _run(model, cache, given["input_ids"])
    return cache


def _check(model: Any, cache: Any, sequences: torch.Tensor) -> None:
    """`sequences` [B, n]: what the rows hold."""
    rows = [cache.token_ids(row) for row in range(cache.batch_size)]
    assert rows == sequences.tolist()
    assert [session.num_tokens for session in cache.sessions] == [sequences.shape[1]] * len(rows)
    assert cache.get_seq_length() == sequences.shape[1]
    new = make_prompt(2, seed=sequences.shape[1], batch=len(rows))
    whole = torch.cat([sequences, new], dim=1)
    with torch.no_grad():
        expected = model(whole, use_cache=False).logits[:, -2:]
    assert (_run(model, cache, new) - expected).abs().max() <= 1e-4
    cache.crop(-2)


def test_crop_takes_what_transformers_of_both_ages_give(db: attndb.DB, model: Any) -> None:
    ids = make_prompt(30)
    cache = _cache(db, model, ids)
    for argument, left in ((0, 30), (-3, 27), (50, 27), (27, 27), (21, 21), (-20, 1)):
        cache.crop(argument)
        _check(model, cache, ids[:, :left])
    with pytest.raises(attndb.InvalidArgumentError, match="2 columns to remove, the cache holds 1"):
        cache.crop(-2)
    cache.crop(-1)
    assert cache.get_seq_length() == 0 and cache.session.num_tokens == 0
    assert (_run(model, cache, ids) - model(ids).logits).abs().max() <= 1e-4


def test_crop_reaches_into_the_stored_prefix_and_frees_the_prompt(
    db: attndb.DB, model: Any
) -> None:
    ids = make_prompt(30)
    _cache(db, model, ids).store()
    cache, _ = attndb.hf.create_session(db, model, ids)
    assert cache.num_reused == 29
    cache.crop(-12)
    _check(model, cache, ids[:, :17])
    other = make_prompt(13, seed=50)
    whole = torch.cat([ids[:, :17], other], dim=1)
    assert (_run(model, cache, other) - model(whole).logits[:, 17:]).abs().max() <= 1e-4


def test_crop_of_padded_rows_keeps_their_padding(db: attndb.DB, model: Any) -> None:
    prompts = [make_prompt(length, seed=length)[0].tolist() for length in (30, 6)]
    cache, given = attndb.hf.create_session(db, model, prompts)
    with torch.no_grad():
        model(**given, past_key_values=cache)
        cache.crop(20)
        assert [len(cache.token_ids(row)) for row in (0, 1)] == [20, 0]
        cache.crop(-3)
        logits = model(**{**given, "input_ids": given["input_ids"]}, past_key_values=cache).logits
        for row, prompt in enumerate(prompts):
            expected = model(torch.tensor([prompt])).logits[0, -6:]
            assert (logits[row, -6:] - expected).abs().max() <= 1e-4


def test_reorder_select_and_repeat_move_rows(db: attndb.DB, model: Any) -> None:
    ids = make_prompt(20, batch=3)
    cache = _cache(db, model, ids)
    kept = cache.sessions[1]
    cache.reorder_cache(torch.tensor([1, 1, 0]))
    ids = ids[[1, 1, 0]]
    assert cache.sessions[0] is kept and db.stats().num_sessions == 3
    _check(model, cache, ids)
    cache.batch_repeat_interleave(2)
    ids = ids.repeat_interleave(2, dim=0)
    _check(model, cache, ids)
    cache.batch_select_indices(torch.tensor([5, 0, 3]))
    ids = ids[[5, 0, 3]]
    _check(model, cache, ids)
    cache.batch_select_indices(torch.tensor([True, False, True]))
    _check(model, cache, ids[[0, 2]])
    assert db.stats().num_sessions == 2


def test_any_order_of_changes_agrees(db: attndb.DB, model: Any) -> None:
    seed = 20261122
    generator = torch.Generator().manual_seed(seed)

    def draw(limit: int) -> int:
        return int(torch.randint(limit, (1,), generator=generator))

    ids = make_prompt(24, batch=2)
    cache = _cache(db, model, ids)
    for step in range(40):
        kind, (batch, length) = draw(5), ids.shape
        if kind == 0:
            new = make_prompt(1 + draw(4), seed=step, batch=batch)
            _run(model, cache, new)
            ids = torch.cat([ids, new], dim=1)
        elif kind == 1 and length > 12:
            cut = draw(5)
            cache.crop(-cut)
            ids = ids[:, : length - cut]
        elif kind == 2:
            order = torch.randint(batch, (batch,), generator=generator)
            cache.reorder_cache(order)
            ids = ids[order]
        elif kind == 3 and batch < 5:
            cache.batch_repeat_interleave(2)
            ids = ids.repeat_interleave(2, dim=0)
        elif batch > 2:
            chosen = torch.randperm(batch, generator=generator)[:2]
            cache.batch_select_indices(chosen)
            ids = ids[chosen]
        _check(model, cache, ids)
    cache.close()
    assert db.stats().num_sessions == 0, seed


def test_a_fork_goes_its_own_way(db: attndb.DB, model: Any) -> None:
    ids = make_prompt(20)
    cache = _cache(db, model, ids)
    fork, other = cache.fork(), make_prompt(5, seed=9)
    _run(model, fork, other)
    _check(model, fork, torch.cat([ids, other], dim=1))
    _check(model, cache, ids)
    cache.close()
    _check(model, fork, torch.cat([ids, other], dim=1))


def test_reset_forgets_and_takes_any_prompt(db: attndb.DB, model: Any) -> None:
    cache = _cache(db, model, make_prompt(20))
    cache.reset()
    assert cache.get_seq_length() == 0 and cache.num_reused == 0 and cache.token_ids() == []
    ids = make_prompt(12, seed=30)
    mask = torch.ones_like(ids)
    mask[0, :5] = 0
    with torch.no_grad():
        logits = model(ids, attention_mask=mask, past_key_values=cache).logits
    assert (logits[:, 5:] - model(ids[:, 5:]).logits).abs().max() <= 1e-4
    assert cache.token_ids() == ids[0, 5:].tolist()


def test_store_compares_the_output_with_what_was_run(db: attndb.DB, model: Any) -> None:
    ids = make_prompt(30)
    _cache(db, model, ids[:, :11]).store(name="prefix")
    cache, given = attndb.hf.create_session(db, model, ids)
    mask = given["attention_mask"]
    out = generate(model, ids[:, 11:], attention_mask=mask, past_key_values=cache).sequences
    whole = torch.cat([ids[:, :11], out], dim=1)
    for output in (None, whole, whole[0], whole[0].tolist(), whole[:, :-1], out, out[:, :-1]):
        context = cache.store(output)
        assert db.tokens(context).tolist() == whole[0, :-1].tolist()
    wrong = whole.clone()
    wrong[0, 33] += 1
    for output in (wrong, whole[:, :-2], whole[:, 1:], torch.cat([whole, whole])):
        with pytest.raises(attndb.InvalidArgumentError, match="output_ids"):
            cache.store(output)


@pytest.mark.parametrize("pads_with_end", [False, True])
def test_rows_that_ended_early_are_stored_without_padding(
    db: attndb.DB, pads_with_end: bool
) -> None:
    model = attndb.hf.use(make_model("llama"))
    ids = make_prompt(20, batch=3)
    open_end = generate(model, ids, max_new_tokens=12).sequences[:, 20:].tolist()
    end = next(token for token in open_end[0][2:5] if token not in open_end[1] + open_end[2])
    model.generation_config.eos_token_id = [96, end]
    model.generation_config.pad_token_id = end if pads_with_end else 0
    cache, given = attndb.hf.create_session(db, model, ids, reuse=False)
    with cache:
        made = generate(model, **given_ids(given), past_key_values=cache, max_new_tokens=12)
        stored = cache.store(made, name=["a", "b", "c"])
        assert cache.get_seq_length() == 31, "the cache itself keeps what was run"
        whole = cache.token_ids(0)
    num_made = open_end[0].index(end) + 1
    assert len(whole) == 31 and num_made <= 5
    assert db.tokens("a").tolist() == ids[0].tolist() + open_end[0][:num_made]
    for row, name in ((1, "b"), (2, "c")):
        assert db.tokens(name).tolist() == made.sequences[row, :-1].tolist()
    assert [db.describe(name).id for name in ("a", "b", "c")] == stored
    only, given = attndb.hf.create_session(db, model, ids[:1], reuse=False)
    with only:  # A row alone has no padding: what it was given is what it holds.
        ended = torch.tensor([[end, end, end]])
        _run(model, only, given["input_ids"])
        _run(model, only, ended)
        only.store(name="only")
    assert db.tokens("only").tolist() == ids[0].tolist() + [end] * 3


def given_ids(given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """As the arguments of hf_models.generate."""
    return {"ids": given["input_ids"], "attention_mask": given["attention_mask"]}


def test_store_takes_names_and_rows(db: attndb.DB, model: Any) -> None:
    cache = _cache(db, model, make_prompt(20, batch=2))
    for names in ("one", ["one"], ["one", "two", "three"]):
        with pytest.raises(attndb.InvalidArgumentError, match="name: expected 2"):
            cache.store(name=names)
    contexts = cache.store(name=["one", "two"], pin=True)
    assert [db.describe(context).name for context in contexts] == ["one", "two"]
    assert db.describe("two").pinned
    with pytest.raises(attndb.AlreadyExistsError):
        cache.store(row=1, name="one")
    assert isinstance(cache.store(row=1, name="three"), int)
    with pytest.raises(attndb.InvalidArgumentError, match="row: expected 0 to 1, found 2"):
        cache.store(row=2)
    assert db.tokens("three").tolist() == cache.token_ids(1)


def test_tokens_given_as_embeddings_have_no_ids_to_store(db: attndb.DB, model: Any) -> None:
    ids = make_prompt(20)
    cache, _ = attndb.hf.create_session(db, model, ids)
    embeds = model.get_input_embeddings()(ids).detach()
    with torch.no_grad():
        logits = model(inputs_embeds=embeds, past_key_values=cache).logits
    assert (logits - model(ids).logits).abs().max() <= 1e-4
    with pytest.raises(attndb.FailedPreconditionError, match="row 0 was given token 0 as an embed"):
        cache.store()
    cache.crop(-20)
    _run(model, cache, ids)
    assert cache.store() == 1


def test_a_batch_goes_on_as_beams_or_several_sequences(db: attndb.DB, model: Any) -> None:
    """Before its first forward a cache gives each row several times, as generate() asks."""
    ids = make_prompt(20, batch=2)
    cache, given = attndb.hf.create_session(db, model, ids)
    expanded = ids.repeat_interleave(3, dim=0)
    other = expanded.clone()
    other[4, 7] += 1
    with pytest.raises(attndb.InvalidArgumentError, match="token 7 is"):
        _run(model, cache, other)
    assert cache.batch_size == 2
    _run(model, cache, expanded)
    _check(model, cache, expanded)
    with pytest.raises(attndb.InvalidArgumentError, match="2 rows, the cache has 6"):
        _run(model, cache, ids)


def test_plans_are_set_by_use_session_and_cache(db: attndb.DB) -> None:
    model = attndb.hf.use(make_model("llama"), plan="window(sink=2,window=8)")
    ids = make_prompt(30)
    for plan, expected in ((None, "window(sink=2,window=8"), ("topk(k=4)", "topk(k=4")):
        cache, _ = attndb.hf.create_session(db, model, ids, plan=plan)
        _run(model, cache, ids)
        assert cache.explain().plan.startswith(expected)
    cache.set_plan("full")
    _run(model, cache, ids[:, :1])
    assert cache.explain(0).plan == "full" and cache.explain(row=0).num_tokens == 31


def test_the_cache_says_what_transformers_asks(db: attndb.DB, model: Any) -> None:
    cache = _cache(db, model, make_prompt(20, batch=2))
    assert len(cache) == 3 and cache.is_croppable and cache.is_initialized
    assert not cache.is_compileable and not any(cache.is_sliding)
    assert cache.batch_size == cache.max_batch_size == 2
    assert cache.get_max_length() == cache.get_max_cache_shape() == cache.max_cache_len == -1
    assert cache.layers[0].get_max_length() == cache.layers[0].get_max_cache_shape() == -1
    assert cache.get_mask_sizes(4, 0) == (24, 0) and cache.get_seq_length(2) == 20
    assert repr(cache) == "<attndb.hf.AttndbCache 2 rows, 20 columns, [0, 0] reused>"
    if not IS_OLD:
        cache.activate_past_recording()
    cache.layers[0].offload(), cache.layers[0].prefetch()
    with pytest.raises(attndb.InvalidArgumentError, match=r"use sessions\[i\]"):
        cache.session  # noqa: B018


def test_sessions_end_with_the_cache(db: attndb.DB, model: Any) -> None:
    with _cache(db, model, make_prompt(20)) as cache:
        assert db.stats().num_sessions == 1
    assert db.stats().num_sessions == 0 and cache.session.closed
    cache = _cache(db, model, make_prompt(20))
    gc.disable()
    try:
        del cache
        assert db.stats().num_sessions == 0, "the collector was needed"
    finally:
        gc.enable()


def test_no_tensor_of_keys_or_values_is_kept(
    db: attndb.DB, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[weakref.ref[torch.Tensor]] = []
    on_update = attndb.hf.AttndbCache.on_update

    def watching(self: Any, layer: int, key: torch.Tensor, value: torch.Tensor) -> Any:
        seen.extend((weakref.ref(key), weakref.ref(value)))
        return on_update(self, layer, key, value)

    monkeypatch.setattr(attndb.hf.AttndbCache, "on_update", watching)
    cache, given = attndb.hf.create_session(db, model, make_prompt(20))
    out = generate(model, given["input_ids"], past_key_values=cache)
    assert len(seen) == 2 * 3 * 24 and not any(each() is not None for each in seen)
    assert out.sequences.shape[1] == 44


def test_generate_without_cached_steps_runs_only_what_is_new(db: attndb.DB, model: Any) -> None:
    """use_cache=False makes generate() give all ids in each step; those held are not run again."""
    ids = make_prompt(20)
    cache, given = attndb.hf.create_session(db, model, ids)
    mask = given["attention_mask"]
    ours = generate(model, ids, attention_mask=mask, past_key_values=cache, use_cache=False)
    assert torch.equal(ours.sequences, generate(model, ids).sequences)
    assert cache.get_seq_length() == cache.session.num_tokens == 43
