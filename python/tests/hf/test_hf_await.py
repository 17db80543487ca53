"""Goal:   before a cache's second token, a forward waits for what a plan with await=1 reads, once a
        layer; not before the first, not for other plans; what can't be had costs no answer.
Method: calls of Session.await_derived are counted, or fail; on a context that is long enough for
        product codes, explain says that the second token used them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import attndb
import attndb.hf
from hf_models import make_model, make_prompt

PLAN = "topk(k=4,index=pq,m=2,b=6,sink=2,window=4)"
AWAITS = "topk(k=4,index=pq,m=2,b=6,sink=2,window=4,await=1)"
LAYERS = [0, 1, 2]


@pytest.fixture(scope="module")
def model() -> Any:
    return attndb.hf.use(make_model("llama"))


@pytest.fixture
def awaited(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The layers that were waited for, as it comes."""
    layers: list[int] = []
    await_derived = attndb.Session.await_derived

    def counted(session: attndb.Session, layer: int) -> None:
        layers.append(layer)
        await_derived(session, layer)

    monkeypatch.setattr(attndb.Session, "await_derived", counted)
    return layers


def _stored(db: attndb.DB, model: Any, ids: torch.Tensor) -> None:
    with attndb.hf.create_session(db, model, ids, reuse=False)[0] as cache:
        _run(model, cache, ids)
        cache.store()


def _asked(db: attndb.DB, model: Any, ids: torch.Tensor, plan: str) -> Any:
    """A cache whose prompt has run, the last token of it alone: its first token is known."""
    cache, given = attndb.hf.create_session(db, model, ids, plan=plan)
    assert cache.get_seq_length() == ids.shape[1] - 1
    _run(model, cache, given["input_ids"])
    return cache


def _run(model: Any, cache: Any, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(ids, past_key_values=cache).logits  # type: ignore[no-any-return]


def test_each_layer_waits_once_and_from_the_second_token_on(
    db: attndb.DB, model: Any, awaited: list[int]
) -> None:
    ids = make_prompt(30)
    _stored(db, model, ids)
    cache = _asked(db, model, ids, AWAITS)
    assert awaited == []
    token = make_prompt(1, seed=1)
    _run(model, cache, token)
    assert awaited == LAYERS
    _run(model, cache, token)
    _run(model, cache, make_prompt(5, seed=2))
    _run(model, cache, token)
    assert awaited == LAYERS
    cache.store()
    _run(model, cache, make_prompt(5, seed=3))
    assert awaited == LAYERS, "several tokens are a prompt"
    _run(model, cache, token)
    assert awaited == LAYERS * 2
    cache.set_plan(PLAN)
    _run(model, cache, token)
    assert awaited == LAYERS * 2


def test_each_row_of_a_batch_waits(db: attndb.DB, model: Any, awaited: list[int]) -> None:
    ids = make_prompt(30, batch=2)
    _stored(db, model, ids)
    cache = _asked(db, model, ids, AWAITS)
    assert awaited == []
    _run(model, cache, make_prompt(1, seed=1, batch=2))
    assert sorted(awaited) == sorted(LAYERS * 2)


def test_the_second_token_has_its_codes(db: attndb.DB, model: Any) -> None:
    ids = make_prompt(2101)
    _stored(db, model, ids)
    cache = _asked(db, model, ids, AWAITS)
    assert all(cache.session.awaits_derived(layer) for layer in LAYERS)
    _run(model, cache, make_prompt(1, seed=1))
    assert all(layer.heads[0].visited_mean > 0 for layer in cache.explain().layers)


def test_what_cannot_be_had_costs_no_answer(
    db: attndb.DB, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = make_prompt(30)
    _stored(db, model, ids)
    token = make_prompt(1, seed=1)
    expected = _run(model, _asked(db, model, ids, PLAN), token)

    def failing(error: type[attndb.Error]) -> Any:
        def fails(session: attndb.Session, layer: int) -> None:
            raise error("no codes")

        return fails

    for error in (attndb.IoError, attndb.CancelledError, attndb.ResourceExhaustedError):
        monkeypatch.setattr(attndb.Session, "await_derived", failing(error))
        assert torch.equal(_run(model, _asked(db, model, ids, AWAITS), token), expected)
    monkeypatch.setattr(attndb.Session, "await_derived", failing(attndb.InvalidArgumentError))
    with pytest.raises(attndb.InvalidArgumentError, match="no codes"):
        _run(model, _asked(db, model, ids, AWAITS), token)
