"""Goal:   each model type that transformers lists as a causal language model is held, or refused
        for the reason that docs/models.md gives.
Method: every_decoder.py makes a small one, stores, opens the store again, resumes, and compares
        with transformers' own cache."""

from __future__ import annotations

from typing import Any

import pytest
import transformers

import attndb.hf
from every_decoder import read_table, try_model
from small_configs import model_types

VERSION, EXPECTED = read_table()


@pytest.mark.parametrize("model_type", model_types())
def test_a_model_is_held_or_refused_as_the_table_says(model_type: str) -> None:
    outcome = try_model(model_type)
    assert outcome.kind != "WRONG", outcome
    if transformers.__version__ == VERSION:
        if outcome.kind == "held":
            assert EXPECTED[model_type].startswith("held, "), outcome
        else:
            assert EXPECTED[model_type] == str(outcome)


def test_the_table_has_every_model_and_no_other() -> None:
    if transformers.__version__ != VERSION:
        pytest.skip(f"docs/models.md is of transformers {VERSION}")
    assert sorted(EXPECTED) == model_types()
    assert sum(text.startswith("held, ") for text in EXPECTED.values()) >= 80
    assert not any(text.startswith("WRONG") for text in EXPECTED.values())


def test_control_a_context_that_is_forgotten_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a model would show that keeps what it knows elsewhere than in keys and values."""
    create = attndb.hf.create_session

    def forgetting(*args: Any, **kwargs: Any) -> Any:
        return create(*args, **kwargs, plan="window(sink=1,window=4)")

    monkeypatch.setattr(attndb.hf, "create_session", forgetting)
    assert try_model("llama").kind == "WRONG"
