"""Goal:   a model asked over several stored contexts attends to all of them, its new tokens behind
        the longest; a question's q is what the model's layers have, and db.find takes it.
Method: tiny models; the same model with transformers' own cache that was given the contexts' keys
        and values one behind the other, and the positions; q by hooks on what makes it, and RoPE.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import DynamicCache

import attndb
import attndb.hf
from hf_models import make_model, make_prompt


@pytest.fixture(scope="module", params=["llama", "qwen3"])
def model(request: pytest.FixtureRequest) -> Any:
    return attndb.hf.use(make_model(request.param))


def _store(db: attndb.DB, model: Any, ids: torch.Tensor, name: str) -> None:
    with attndb.hf.create_session(db, model, ids, reuse=False)[0] as cache, torch.no_grad():
        model(ids, past_key_values=cache)
        cache.store(name=name)


def _contexts(db: attndb.DB, model: Any) -> list[torch.Tensor]:
    """Three that begin alike; the second is the longest."""
    begin = make_prompt(6, seed=1)
    made = []
    for name, length, seed in (("a", 20, 2), ("b", 41, 3), ("c", 9, 4)):
        ids = torch.cat([begin, make_prompt(length, seed=seed)], dim=1)
        _store(db, model, ids, name)
        made.append(ids)
    return made


def _own_cache(model: Any, contexts: list[torch.Tensor]) -> DynamicCache:
    """transformers' cache with what the contexts hold, their common beginning once."""
    joined = DynamicCache()
    for i, ids in enumerate(contexts):
        alone = DynamicCache()
        with torch.no_grad():
            model(ids, past_key_values=alone)
        for layer, states in enumerate(alone.layers):
            begin = 6 if i > 0 else 0
            joined.update(states.keys[:, :, begin:], states.values[:, :, begin:], layer)
    return joined


def test_answers_as_over_the_joined_keys(db: attndb.DB, model: Any) -> None:
    contexts = _contexts(db, model)
    question = make_prompt(7, seed=5)
    cache, given = attndb.hf.create_session_over(db, model, ["a", "b", "c"], question)
    assert cache.session.num_tokens == 6 + 20 + 41 + 9
    assert cache.session.next_position == cache.get_seq_length() == 47
    assert given["attention_mask"].shape == (1, 54)
    own = _own_cache(model, contexts)
    positions = torch.arange(47, 54)[None]
    with torch.no_grad():
        expected = model(question, past_key_values=own, position_ids=positions).logits
        over_three = model(**given, past_key_values=cache).logits
        torch.testing.assert_close(over_three, expected, rtol=1e-3, atol=1e-3)
        token = make_prompt(1, seed=6)
        expected = model(token, past_key_values=own, position_ids=torch.tensor([[54]])).logits
        found = model(token, past_key_values=cache).logits
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
        # The control: without the last context the answer is another.
        other, given = attndb.hf.create_session_over(db, model, ["a", "b"], question)
        fewer = model(**given, past_key_values=other).logits
        assert (fewer - over_three).abs().max() > 0.1


def test_generates_crops_forks_and_does_not_store(db: attndb.DB, model: Any) -> None:
    contexts = _contexts(db, model)
    question = make_prompt(7, seed=5)
    cache, given = attndb.hf.create_session_over(db, model, ["a", "b", "c"], question)
    output = model.generate(**given, past_key_values=cache, max_new_tokens=5, do_sample=False)
    assert torch.equal(output[:, :7], question) and output.shape == (1, 12)
    ids = list(question[0].tolist())
    own = _own_cache(model, contexts)
    step = question
    for position in range(47, 47 + 7 + 4):
        if position < 47 + 6:
            continue
        with torch.no_grad():
            at = torch.arange(position + 1 - step.shape[1], position + 1)[None]
            step = model(step, past_key_values=own, position_ids=at).logits[:, -1:].argmax(-1)
        ids.append(int(step))
    assert output[0].tolist() == ids
    assert cache.token_ids()[-11:] == ids[:11]

    fork = cache.fork()
    cache.crop(-4)
    assert cache.session.next_position == cache.get_seq_length() == 54
    assert fork.get_seq_length() == 58
    with pytest.raises(attndb.FailedPreconditionError, match="whole contexts"):
        cache.crop(-8)
    with pytest.raises(attndb.FailedPreconditionError, match="over 3 contexts"):
        cache.store(name="all")
    with pytest.raises(attndb.InvalidArgumentError, match="several contexts"):
        long = make_prompt(70, seed=7)
        model(long, attention_mask=torch.ones_like(long), past_key_values=cache)
    cache.reset()
    with torch.no_grad():
        fresh = model(question, past_key_values=DynamicCache()).logits
        torch.testing.assert_close(
            model(question, past_key_values=cache).logits, fresh, rtol=1e-3, atol=1e-3
        )


def test_one_context_is_continued_and_bad_ones_are_named(db: attndb.DB, model: Any) -> None:
    contexts = _contexts(db, model)
    question = make_prompt(7, seed=5)
    cache, given = attndb.hf.create_session_over(db, model, ["b"], question)
    with torch.no_grad():
        found = model(**given, past_key_values=cache).logits
        whole = model(torch.cat([contexts[1], question], dim=1)).logits[:, -7:]
    torch.testing.assert_close(found, whole, rtol=1e-3, atol=1e-3)
    assert cache.store(name="longer") == db.describe("longer").id
    with pytest.raises(attndb.NotFoundError):
        attndb.hf.create_session_over(db, model, ["a", "z"], question)
    with pytest.raises(attndb.InvalidArgumentError, match="named twice"):
        attndb.hf.create_session_over(db, model, ["a", "a"], question)
    with pytest.raises(attndb.InvalidArgumentError, match="one question"):
        attndb.hf.create_session_over(db, model, ["a"], make_prompt(7, batch=2))


def _projected(model: Any, ids: torch.Tensor, heads: list[tuple[int, int]]) -> list[torch.Tensor]:
    """q of a plain forward, by hooks on what makes it, turned by RoPE in float64."""
    made: dict[int, torch.Tensor] = {}
    handles = []
    for i, layer in enumerate(model.model.layers):
        maker = getattr(layer.self_attn, "q_norm", layer.self_attn.q_proj)
        hook = lambda module, args, out, i=i: made.__setitem__(i, out.double())  # noqa: E731
        handles.append(maker.register_forward_hook(hook))
    with torch.no_grad():
        model(ids)
    for handle in handles:
        handle.remove()
    turned = []
    for layer, head in heads:
        spec = attndb.hf.spec(model).layers[layer]
        q = made[layer].reshape(ids.shape[1], spec.num_q_heads, spec.head_dim)[:, head]
        half = spec.head_dim // 2
        speeds = spec.rope.base ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = torch.arange(ids.shape[1], dtype=torch.float64)[:, None] * speeds
        x, y = q[:, :half], q[:, half:]
        cos, sin = angles.cos(), angles.sin()
        turned.append(torch.cat([x * cos - y * sin, x * sin + y * cos], dim=1).float())
    return turned


def test_a_questions_q_is_that_of_the_layers(db: attndb.DB, model: Any) -> None:
    contexts = _contexts(db, model)
    ids = make_prompt(9, seed=8)
    heads = [(1, 5), (0, 3), (2, 0)]
    question = attndb.hf.find_question(db, model, ids, heads, first_token=4)
    assert question.heads == heads and question.first_position == 4
    expected = _projected(model, ids, heads)
    for q, whole in zip(question.q, expected, strict=True):
        torch.testing.assert_close(q, whole[4:], rtol=1e-4, atol=1e-4)
    assert len(db.list()) == 3, "nothing is stored"

    spec = attndb.hf.spec(model)
    found = db.find(spec, **question._asdict(), passage_tokens=8)
    assert found.num_contexts == 3 and found.skipped == ()
    by_hand = db.find(spec, heads, [q[4:] for q in expected], first_position=4, passage_tokens=8)
    assert [p.score for p in found.passages] == pytest.approx(
        [p.score for p in by_hand.passages], abs=1e-3
    )

    for bad, says in (([(9, 0)], "3 layers"), ([(0, 8)], "8 q heads"), ([(-1, 0)], "from 0 on")):
        with pytest.raises(attndb.InvalidArgumentError, match=says):
            attndb.hf.find_question(db, model, contexts[0], bad)
    with pytest.raises(attndb.InvalidArgumentError, match="first_token: 26"):
        attndb.hf.find_question(db, model, contexts[0], [(0, 0)], first_token=26)
