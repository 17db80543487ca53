"""Goal:   a model gives the tokens and logits of its built-in cache, also from a stored prefix.
Method: tiny random models, float32; DynamicCache is the oracle; tolerance 1e-4 on all logits."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import attndb
import attndb.hf
from hf_models import (
    IS_OLD,
    ZOO,
    assert_same,
    fast_folder,
    generate,
    in_new_process,
    largest_difference,
    make_model,
    make_prompt,
)

TOLERANCE = 1e-4
CUTS = [1, 7, 37, 59]  # No multiple of a block.


@pytest.fixture(params=sorted(ZOO))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def model(name: str) -> Any:
    return attndb.hf.use(make_model(name))


def test_greedy_tokens_and_logits_are_those_of_the_built_in_cache(
    db: attndb.DB, model: Any
) -> None:
    ids = make_prompt(61)
    theirs = generate(model, ids)
    assert len(set(theirs.sequences[0, 61:].tolist())) > 5, "too few tokens to tell anything"
    assert torch.stack(theirs.logits).std() > 0.5, "flat logits tell nothing"
    cache, given = attndb.hf.create_session(db, model, ids)
    ours = generate(model, **_named(given), past_key_values=cache)
    assert_same(ours, theirs)
    assert cache.get_seq_length() == 61 + 23
    assert cache.token_ids() == ours.sequences[0, :-1].tolist()


@pytest.fixture(scope="module")
def reused() -> dict[str, tuple[Any, list[Any]]]:
    """By model: what a new process made of prompts whose prefixes this one has stored, and the
    cases it was given. One process for all models."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        return _reuse_in_new_process(Path(folder))


def _reuse_in_new_process(folder: Path) -> dict[str, tuple[Any, list[Any]]]:
    document = make_prompt(61)
    cases: dict[str, list[Any]] = {}
    with attndb.open(folder / "store") as db:
        for name in ZOO:
            model = attndb.hf.use(make_model(name))
            cases[name] = []
            for cut in CUTS:
                context = f"{name}-{cut}"
                _store(db, model, document[:, :cut], name=context)
                prompt = torch.cat([document[:, :cut], make_prompt(20, seed=cut)], dim=1)
                case = {"ids": prompt[0].tolist(), "context": context}
                for truncated, has_mask in ((False, True), (False, False), (True, True)):
                    cases[name].append({**case, "truncated": truncated, "mask": has_mask})
    saved = in_new_process(
        "reuse_in_new_process.py", str(folder / "store"), json.dumps(cases), folder=folder
    )
    return {name: (saved, cases[name]) for name in ZOO}


def test_stored_prefixes_are_reused_in_a_new_process_at_any_cut(
    reused: dict[str, tuple[Any, list[Any]]], name: str, model: Any
) -> None:
    saved, cases = reused[name]
    prompts = {tuple(case["ids"]) for case in cases}  # Each in several cases.
    made = {ids: generate(model, torch.tensor([ids])) for ids in prompts}
    for i, case in enumerate(cases):
        theirs = made[tuple(case["ids"])]
        assert saved[f"{name}-reused{i}"] == CUTS[i // 3]
        tokens = saved[f"{name}-tokens{i}"].tolist()
        assert tokens == theirs.sequences[0, -24:].tolist(), case
        logits = saved[f"{name}-logits{i}"]
        assert np.abs(logits - torch.cat(theirs.logits).numpy()).max() <= TOLERANCE, case


@pytest.mark.parametrize("cut", [0, 1, 30, 60])
def test_a_bare_forward_of_the_remaining_ids_needs_neither_mask_nor_positions(
    db: attndb.DB, model: Any, cut: int
) -> None:
    ids = make_prompt(61)
    theirs = model(ids).logits
    _store(db, model, ids[:, : cut + 1])
    cache, given = attndb.hf.create_session(db, model, ids, reuse=cut > 0)
    cache.crop(cut) if cut else None
    rest = ids[:, cut:]
    mask, positions = given["attention_mask"], torch.arange(cut, 61)[None]
    for arguments in (
        {"input_ids": rest},
        {"input_ids": rest, "attention_mask": mask},
        {"input_ids": rest, "position_ids": positions},
        {"input_ids": rest, "attention_mask": mask.bool(), "position_ids": positions},
        {"input_ids": ids, "attention_mask": mask},
        {"input_ids": ids, "position_ids": torch.arange(61)[None]},
    ):
        fork = cache.fork()
        with torch.no_grad():
            ours = model(**arguments, past_key_values=fork).logits
        assert ours.shape[1] == 61 - cut
        assert (ours - theirs[:, cut:]).abs().max() <= TOLERANCE
        assert fork.get_seq_length() == 61


def test_learned_sinks_matter_and_kv_of_others_is_not_reused(db: attndb.DB) -> None:
    """By their values, too: both models have one fingerprint."""
    ids = make_prompt(61)
    model = attndb.hf.use(make_model("gpt_oss"), fingerprint=b"one")
    _store(db, model, ids[:, :40])
    assert attndb.hf.create_session(db, model, ids)[0].num_reused == 40
    other = make_model("gpt_oss")
    with torch.no_grad():
        other.model.layers[1].self_attn.sinks[3] += 1.0
        assert (other(ids).logits - model(ids).logits).abs().max() > 100 * TOLERANCE
    cache, given = attndb.hf.create_session(db, attndb.hf.use(other, fingerprint=b"one"), ids)
    assert cache.num_reused == 0
    assert_same(generate(other, **_named(given), past_key_values=cache), generate(other, ids))


def test_a_bare_forward_takes_what_create_session_gives(db: attndb.DB, model: Any) -> None:
    ids = make_prompt(61)
    _store(db, model, ids[:, :30])
    for drop_mask in (False, True):
        cache, given = attndb.hf.create_session(db, model, ids)
        if drop_mask:
            del given["attention_mask"]
        with torch.inference_mode():
            ours = model(**given, past_key_values=cache).logits
            theirs = model(ids).logits
        assert (ours - theirs[:, 30:]).abs().max() <= TOLERANCE


def test_steps_of_one_token_agree_with_one_forward(db: attndb.DB, model: Any) -> None:
    ids = make_prompt(40)
    theirs = model(ids).logits
    cache, _ = attndb.hf.create_session(db, model, ids)
    with torch.no_grad():
        ours = [model(ids[:, i : i + 1], past_key_values=cache).logits for i in range(40)]
    assert (torch.cat(ours, dim=1) - theirs).abs().max() <= TOLERANCE


def test_sampling_with_a_seed_draws_the_same_tokens(db: attndb.DB, model: Any) -> None:
    ids = make_prompt(50)
    _store(db, model, ids[:, :33])
    options = {"do_sample": True, "temperature": 1.3, "top_k": 40, "num_return_sequences": 3}
    torch.manual_seed(11)
    theirs = generate(model, ids, **options)
    cache, given = attndb.hf.create_session(db, model, ids)
    torch.manual_seed(11)
    ours = generate(model, **_named(given), past_key_values=cache, **options)
    assert_same(ours, theirs)
    assert cache.batch_size == 3 and cache.num_reused == [33] * 3


def test_beam_search_finds_the_same_sequences(db: attndb.DB, model: Any) -> None:
    ids = make_prompt(50)
    options = {"num_beams": 4, "num_return_sequences": 2, "output_scores": True}
    theirs = generate(model, ids, **options)
    _store(db, model, ids[:, :33])
    for reuse in (False, True):
        cache, given = attndb.hf.create_session(db, model, ids, reuse=reuse)
        ours = generate(model, **_named(given), past_key_values=cache, **options)
        assert torch.equal(ours.sequences, theirs.sequences)
        assert (ours.sequences_scores - theirs.sequences_scores).abs().max() <= TOLERANCE
        assert cache.batch_size == 4
        stored = cache.store()
        for row, context in enumerate(stored):
            assert db.tokens(context).tolist() == cache.token_ids(row)
            db.drop(context)


@pytest.mark.parametrize("truncated", [False, True])
def test_prompt_lookup_decoding_crops_and_agrees(
    db: attndb.DB, model: Any, truncated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = torch.cat([make_prompt(40)] * 2, dim=1)
    options = {"max_new_tokens": 40, "eos_token_id": 1}  # transformers 5.12 needs an end here.
    theirs = generate(model, ids, **options)
    options["prompt_lookup_num_tokens"] = 4
    _store(db, model, ids[:, :33])
    cache, given = attndb.hf.create_session(db, model, ids)
    assert cache.num_reused == 33
    crops = _count_crops(cache, monkeypatch)
    if truncated:
        given["input_ids"] = ids[:, 33:]
    if truncated and IS_OLD:
        with pytest.raises(attndb.InvalidArgumentError, match="disagree"):
            generate(model, **_named(given), past_key_values=cache, **options)
        return
    ours = generate(model, **_named(given), past_key_values=cache, **options)
    expected = theirs.sequences[:, 33 if truncated else 0 :]
    assert torch.equal(ours.sequences, expected)
    assert any(crops), "nothing was cropped"


def test_assisted_generation_agrees(db: attndb.DB, name: str, model: Any) -> None:
    if IS_OLD and name in ("mistral", "gemma2", "gemma3"):
        pytest.skip("the assistant's own cache can't crop windows in transformers 5.12")
    ids = make_prompt(50)
    assistant = make_model(name, seed=0, num_hidden_layers=3)
    theirs = generate(model, ids)
    _store(db, model, ids[:, :33])
    cache, given = attndb.hf.create_session(db, model, ids)
    ours = generate(model, **_named(given), past_key_values=cache, assistant_model=assistant)
    assert torch.equal(ours.sequences, theirs.sequences)


def test_left_padded_batches_reuse_up_to_a_common_column(db: attndb.DB, model: Any) -> None:
    prompts = [make_prompt(length, seed=length)[0] for length in (61, 23, 47)]
    ids, mask = torch.zeros(3, 61, dtype=torch.int64), torch.zeros(3, 61, dtype=torch.int64)
    for r, prompt in enumerate(prompts):
        ids[r, 61 - len(prompt) :], mask[r, 61 - len(prompt) :] = prompt, 1
    theirs = generate(model, ids, attention_mask=mask)
    for stored, expected in (((), [0, 0, 0]), ((50, 9, 30), [44, 6, 30]), ((20,), [20, 0, 6])):
        for r, length in enumerate(stored):
            _store(db, model, prompts[r][None, :length])
        cache, given = attndb.hf.create_session(db, model, ids, attention_mask=mask)
        if stored == (20,):
            cache = _only_first(db, model, ids, mask)
            expected = [14, 0, 0]  # Row 2 must be run from column 14 on, where its padding ends.
        assert cache.num_reused == expected
        ours = generate(model, **_named(given), past_key_values=cache)
        assert_same(ours, theirs)
        contexts = cache.store(ours.sequences)
        for r, prompt in enumerate(prompts):
            tokens = db.tokens(contexts[r]).tolist()
            assert tokens == [*prompt.tolist(), *ours.sequences[r, 61:-1].tolist()]
            db.drop(contexts[r])
        cache.close()


def test_a_batch_of_lists_is_padded_and_padding_is_not_stored(db: attndb.DB, model: Any) -> None:
    prompts = [make_prompt(length, seed=length)[0].tolist() for length in (9, 30)]
    cache, given = attndb.hf.create_session(db, model, prompts)
    assert given["attention_mask"].sum(dim=1).tolist() == [9, 30]
    ours = generate(model, **_named(given), past_key_values=cache)
    for r, prompt in enumerate(prompts):
        theirs = generate(model, torch.tensor([prompt]))
        assert torch.equal(ours.sequences[r, 30:], theirs.sequences[0, len(prompt) :])
    assert cache.token_ids(0)[:9] == prompts[0]


def test_several_caches_interleave_on_one_model(db: attndb.DB, model: Any) -> None:
    prompts = [make_prompt(length, seed=length) for length in (31, 20, 44)]
    theirs = [model(prompt).logits for prompt in prompts]
    caches = [attndb.hf.create_session(db, model, prompt)[0] for prompt in prompts]
    for at in range(20):
        for prompt, cache, logits in zip(prompts, caches, theirs, strict=True):
            with torch.no_grad():
                ours = model(prompt[:, at : at + 1], past_key_values=cache).logits
            assert (ours[:, 0] - logits[:, at]).abs().max() <= TOLERANCE


def test_a_conversation_goes_on_from_what_was_stored(db: attndb.DB, model: Any) -> None:
    ids = make_prompt(20)
    held = 0
    for turn in range(3):
        theirs = generate(model, ids)
        cache, given = attndb.hf.create_session(db, model, ids)
        assert cache.num_reused == held
        ours = generate(model, **_named(given), past_key_values=cache)
        assert_same(ours, theirs)
        held = ours.sequences.shape[1] - 1
        assert cache.get_seq_length() == held
        cache.store(ours.sequences, name="chat", replace=True, drop_base=True)
        cache.close()
        ids = torch.cat([ours.sequences, make_prompt(9, seed=turn)], dim=1)
    assert len(db.list()) == 1


def test_one_cache_goes_on_over_several_turns(db: attndb.DB, model: Any) -> None:
    ids = make_prompt(20)
    cache, given = attndb.hf.create_session(db, model, ids)
    for turn in range(3):
        theirs = generate(model, ids)
        ours = generate(model, ids, past_key_values=cache)
        assert_same(ours, theirs)
        ids = torch.cat([ours.sequences, make_prompt(9, seed=turn)], dim=1)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.bfloat16, 0.3), (torch.float16, 0.04)], ids=["bf16", "f16"]
)
def test_half_precision_models_keep_their_dtype(
    db: attndb.DB, name: str, dtype: torch.dtype, tolerance: float
) -> None:
    model = attndb.hf.use(make_model(name, dtype))
    ids = make_prompt(61)
    exact = make_model(name)(ids).logits
    assert attndb.hf.spec(model).kv_dtype == str(dtype).removeprefix("torch.")
    cache, given = attndb.hf.create_session(db, model, ids)
    with torch.no_grad():
        theirs = model(ids).logits.float()
        out = model(**given, past_key_values=cache).logits
    assert out.dtype == dtype
    assert (out.float() - exact).abs().mean() <= 1.2 * (theirs - exact).abs().mean()
    assert (out.float() - theirs).abs().mean() <= tolerance


def test_keys_and_values_of_a_float32_model_can_be_kept_in_float16(
    db: attndb.DB, name: str
) -> None:
    model = attndb.hf.use(make_model(name), kv_dtype="float16")
    ids = make_prompt(61)
    cache, given = attndb.hf.create_session(db, model, ids)
    with torch.no_grad():
        ours = model(**given, past_key_values=cache).logits
    difference = (ours - model(ids).logits).abs().max()
    assert 1e-5 < difference < 0.2
    assert cache.spec.kv_dtype == "float16"


def test_control_a_session_that_forgets_differs(db: attndb.DB, name: str, model: Any) -> None:
    """The comparisons above fail when they must."""
    if name == "mistral":
        pytest.skip("plans do not apply to layers with a window, and it has no others")
    ids = make_prompt(61)
    theirs = generate(model, ids)
    cache, given = attndb.hf.create_session(db, model, ids)
    cache.set_plan("window(sink=1,window=4)")
    ours = generate(model, **_named(given), past_key_values=cache, max_new_tokens=24)
    steps = slice(1, None)  # The first step's long prefill runs `full`.
    assert largest_difference(ours.logits[steps], theirs.logits[steps]) > 0.1


def _named(given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {"ids": given["input_ids"], "attention_mask": given["attention_mask"]}


def _store(db: attndb.DB, model: Any, ids: torch.Tensor, name: str | None = None) -> None:
    cache, given = attndb.hf.create_session(db, model, ids, reuse=False)
    with torch.no_grad(), cache:
        model(**given, past_key_values=cache)
        cache.store(name=name)


def _only_first(db: attndb.DB, model: Any, ids: torch.Tensor, mask: torch.Tensor) -> Any:
    """Only the longest row has a stored prefix."""
    for context in db.list():
        db.drop(context.id)
    _store(db, model, ids[:1, :20])
    return attndb.hf.create_session(db, model, ids, attention_mask=mask)[0]


def _count_crops(cache: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    crops: list[int] = []
    crop = type(cache).crop

    def counting(self: Any, n: int) -> None:
        crops.append(n)
        crop(self, n)

    monkeypatch.setattr(type(cache), "crop", counting)
    return crops
