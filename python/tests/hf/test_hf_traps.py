"""What goes wrong, silently, where a prefix is reused with transformers: each trap by name.

Traps 1 to 4 are those found with a prototype; the others came up while building. A control shows
that the built-in cache does fall into the trap, where it can.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from transformers import DynamicCache

import attndb
import attndb.hf
from hf_models import IS_OLD, assert_same, generate, make_model, make_prompt

PREFIX = 33


@pytest.fixture(scope="module")
def model() -> Any:
    return attndb.hf.use(make_model("llama"))


@pytest.fixture
def stored(db: attndb.DB, model: Any) -> attndb.DB:
    """The store with a prefix of make_prompt(50)."""
    cache, given = attndb.hf.create_session(db, model, make_prompt(50)[:, :PREFIX])
    with torch.no_grad(), cache:
        model(**given, past_key_values=cache)
        cache.store(name="prefix")
    return db


@pytest.mark.parametrize("length", [50, 2 * PREFIX, 2 * PREFIX + 2])
def test_trap_1_remaining_ids_without_a_mask_over_all_raise(
    stored: attndb.DB, model: Any, length: int
) -> None:
    """generate() takes them for all ids and slices off as many again: it would run none of them,
    or the wrong ones. create_session gives the mask, and then they will do."""
    ids = torch.cat([make_prompt(50)[:, :PREFIX], make_prompt(length - PREFIX, seed=9)], dim=1)
    cache, given = attndb.hf.create_session(stored, model, ids)
    assert cache.num_reused == PREFIX
    with pytest.raises(attndb.InvalidArgumentError, match="input_ids: "):
        generate(model, ids[:, PREFIX:], past_key_values=cache)
    assert cache.get_seq_length() == PREFIX and cache.token_ids() == ids[0, :PREFIX].tolist()
    ours = generate(
        model, ids[:, PREFIX:], attention_mask=given["attention_mask"], past_key_values=cache
    )
    theirs = generate(model, ids)
    assert torch.equal(ours.sequences[:, -24:], theirs.sequences[:, -24:])


def test_trap_2_a_prompt_that_is_all_stored_leaves_one_token_to_run(
    stored: attndb.DB, model: Any
) -> None:
    ids = make_prompt(50)[:, :PREFIX]
    cache, given = attndb.hf.create_session(stored, model, ids)
    assert cache.num_reused == PREFIX - 1
    assert_same(
        generate(
            model,
            given["input_ids"],
            attention_mask=given["attention_mask"],
            past_key_values=cache,
        ),
        generate(model, ids),
    )
    assert cache.session.num_tokens == PREFIX + 23


def test_trap_2_a_prompt_that_the_cache_holds_whole_raises(stored: attndb.DB, model: Any) -> None:
    """Control: the built-in cache runs everything again, at wrong positions, without a word."""
    ids = make_prompt(50)[:, :PREFIX]
    built_in = DynamicCache(config=model.config)
    with torch.no_grad():
        model(ids, past_key_values=built_in)
    wrong = generate(model, ids, past_key_values=built_in, max_new_tokens=4)
    assert built_in.get_seq_length() == 2 * PREFIX + 3 and wrong is not None
    cache, _ = attndb.hf.create_session(stored, model, make_prompt(50))
    assert cache.num_reused == PREFIX
    with pytest.raises(attndb.InvalidArgumentError, match="33 columns, the cache holds 33"):
        generate(model, ids, past_key_values=cache)


@pytest.mark.parametrize("chunk", [5, 16, 40])
def test_trap_3_chunked_prefill_on_a_stored_prefix_agrees(
    stored: attndb.DB, model: Any, chunk: int
) -> None:
    """transformers 5.12 starts its chunks at 0 again: where they are held, that is an error."""
    ids = make_prompt(50)
    cache, given = attndb.hf.create_session(stored, model, ids)
    options = {"attention_mask": given["attention_mask"], "past_key_values": cache}
    if chunk < PREFIX and IS_OLD:
        with pytest.raises(attndb.InvalidArgumentError, match="at least one must be left"):
            generate(model, given["input_ids"], prefill_chunk_size=chunk, **options)
        return
    ours = generate(model, given["input_ids"], prefill_chunk_size=chunk, **options)
    assert_same(ours, generate(model, ids))


def test_trap_3_chunks_that_start_at_0_again_raise_or_go_on(stored: attndb.DB, model: Any) -> None:
    ids = make_prompt(50)
    cache, _ = attndb.hf.create_session(stored, model, ids)
    positions = torch.arange(50)[None]
    with torch.no_grad():
        with pytest.raises(attndb.InvalidArgumentError, match="at least one must be left"):
            model(ids[:, :16], position_ids=positions[:, :16], past_key_values=cache)
        model(ids[:, :40], position_ids=positions[:, :40], past_key_values=cache)
        logits = model(ids[:, 40:], position_ids=positions[:, 40:], past_key_values=cache).logits
        assert (logits - model(ids).logits[:, 40:]).abs().max() <= 1e-4


def test_trap_4_the_last_generated_token_is_not_held(db: attndb.DB, model: Any) -> None:
    ids = make_prompt(20)
    cache, given = attndb.hf.create_session(db, model, ids)
    out = generate(
        model, given["input_ids"], attention_mask=given["attention_mask"], past_key_values=cache
    )
    assert out.sequences.shape[1] == 44 and cache.get_seq_length() == 43
    context = cache.store(out.sequences)
    assert db.tokens(context).tolist() == out.sequences[0, :43].tolist()


def test_trap_a_retokenised_history_raises(db: attndb.DB, model: Any) -> None:
    """generate() slices off as many ids as the cache holds, unread. A chat template that gives
    other ids for the same history would go on from keys of other tokens."""
    ids = make_prompt(30)
    cache, given = attndb.hf.create_session(db, model, ids)
    out = generate(
        model, given["input_ids"], attention_mask=given["attention_mask"], past_key_values=cache
    )
    history = torch.cat([out.sequences, make_prompt(5)], dim=1)
    history[0, 12] += 1
    with pytest.raises(attndb.InvalidArgumentError, match=r"row 0 token 12"):
        generate(model, history, past_key_values=cache)
    history[0, 12] -= 1
    assert_same(generate(model, history, past_key_values=cache), generate(model, history))


def test_trap_a_prefix_cut_inside_padding_keeps_positions(stored: attndb.DB, model: Any) -> None:
    """A bare forward of a padded batch without position_ids: transformers counts columns, which
    would rotate the keys of a padded row as of later tokens. What is stored is as without padding.
    """
    short = make_prompt(12, seed=5)
    ids = torch.zeros(2, 50, dtype=torch.int64)
    ids[0], ids[1, 38:] = make_prompt(50)[0], short[0]
    mask = torch.ones_like(ids)
    mask[1, :38] = 0
    cache, given = attndb.hf.create_session(stored, model, ids, attention_mask=mask)
    assert cache.num_reused == [PREFIX, 0]
    with torch.no_grad():
        model(**given, past_key_values=cache)
        cache.store(row=1, name="short")
        resumed, given = attndb.hf.create_session(stored, model, short)
        assert resumed.num_reused == 11
        logits = model(**given, past_key_values=resumed).logits
        assert (logits[0, -1] - model(short).logits[0, -1]).abs().max() <= 1e-4


def test_trap_a_copied_cache_is_a_second_one(stored: attndb.DB, model: Any) -> None:
    """copy.deepcopy is transformers' own way to reuse a prompt's cache."""
    ids = make_prompt(50)
    cache, given = attndb.hf.create_session(stored, model, ids)
    for copied in (copy.deepcopy(cache), copy.copy(cache)):
        ours = generate(
            model,
            given["input_ids"],
            attention_mask=given["attention_mask"],
            past_key_values=copied,
        )
        assert_same(ours, generate(model, ids))
    assert cache.get_seq_length() == PREFIX and cache.session.num_tokens == PREFIX


def test_trap_ids_of_padding_are_no_hole(db: attndb.DB) -> None:
    """generate() takes padding's id inside a prompt for a hole, and leaves the token out."""
    model = attndb.hf.use(make_model("llama", pad_token_id=0))
    ids = make_prompt(20)
    ids[0, 7] = 0
    cache, given = attndb.hf.create_session(db, model, ids)
    with pytest.raises(attndb.UnsupportedError, match="row 0 has a hole"):
        generate(model, ids, past_key_values=cache)
    with torch.no_grad():
        ours = generate(
            model,
            given["input_ids"],
            attention_mask=given["attention_mask"],
            past_key_values=cache,
        )
    assert_same(ours, generate(model, ids, attention_mask=torch.ones_like(ids)))


@pytest.mark.parametrize(
    ("input_ids", "says"),
    [
        ("a text", "input_ids: expected token ids, found text: pass tokenizer"),
        (["two", "texts"], "input_ids: expected token ids, found text: pass tokenizer"),
        (None, r"input_ids: expected integers \[T\] or \[B, T\], found None"),
        ({"ids": [1]}, "input_ids: expected what a tokenizer returned, found "),
        ([[1], [None]], "input_ids: expected integers"),
        ([1.5], "input_ids: expected integers"),
    ],
)
def test_trap_what_is_no_ids_is_told_in_one_line(
    db: attndb.DB, model: Any, input_ids: Any, says: str
) -> None:
    with pytest.raises(attndb.InvalidArgumentError, match=says) as caught:
        attndb.hf.create_session(db, model, input_ids)
    assert "\n" not in str(caught.value)


def test_trap_arguments_are_checked_as_those_of_a_store(db: attndb.DB, model: Any) -> None:
    ids = make_prompt(5)
    for call, says in (
        (lambda: attndb.hf.create_session("store", model, ids), "db: expected a DB, found 'store'"),
        (lambda: attndb.hf.create_session(db, model, ids, plan=5), "plan: expected text, found 5"),
        (lambda: attndb.hf.create_session_over(db, model, 5, ids), "contexts: expected a list, ea"),
        (lambda: attndb.hf.find_question(db, model, ids, 5), "heads: expected a list, each a pair"),
        (lambda: attndb.hf.use(model, fingerprint="x"), "fingerprint: expected bytes, found 'x'"),
        (lambda: attndb.hf.fingerprint(model, refresh=1), "refresh: expected True or False"),
    ):
        with pytest.raises(attndb.InvalidArgumentError, match=says):
            call()
