"""Goal:   each model type that transformers lists as a causal language model is held, also by a
        process that was started later, or refused for the reason that docs/models.md gives.
Method: every_decoder.py makes a small one and stores; another process makes it again, opens the
        store and resumes; compared with transformers' own cache in a run without a break."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest
import transformers

from every_decoder import other_process, read_table, try_model
from small_configs import model_types

VERSION, EXPECTED = read_table()


@pytest.fixture(scope="module")
def other() -> Iterator[Executor]:
    with other_process() as process:
        yield process


@pytest.mark.parametrize("model_type", model_types())
def test_a_model_is_held_or_refused_as_the_table_says(model_type: str, other: Executor) -> None:
    outcome = try_model(model_type, other)
    assert outcome.kind != "WRONG", outcome
    if transformers.__version__ == VERSION and not EXPECTED[model_type].startswith("not tried"):
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
    # What we can't honour has a reason of ours, not one that a forward stumbled over.
    assert not any("Error: " in text for text in EXPECTED.values())


def test_control_a_context_that_is_forgotten_is_wrong(other: Executor) -> None:
    """As a model would show that keeps what it knows elsewhere than in keys and values."""
    outcome = try_model("llama", other, plan="window(sink=1,window=4)")
    assert outcome.kind == "WRONG"
    assert "logits differ" in outcome.reason


def test_control_a_resumption_in_the_same_process_is_wrong() -> None:
    with ThreadPoolExecutor(1) as same:
        assert "the process that stored it" in try_model("llama", same).reason
