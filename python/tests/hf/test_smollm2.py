"""Goal:   SmolLM2 under attndb says what it says with its built-in cache.
Method: 3 prompts of 100 to 1,000 tokens, in a long run 10 of up to 4,000: a prefix of a real text,
        cut where no block ends, and a question. One process stores the prefixes, a new one starts
        from them. 16 or 64 greedy tokens; with float32 KV all logits within 2e-3, with float16 KV
        the tokens of all prompts, or of 9 of 10 long ones."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import DynamicCache

import attndb
import attndb.hf
from hf_models import in_new_process
from sizes import print_count
from smollm2 import (
    CUTS,
    FILE,
    MODELS,
    document_and_questions,
    load_model,
    load_tokenizer,
    run_greedily,
)

pytestmark = pytest.mark.skipif(not (MODELS / FILE).exists(), reason="`make setup` gets SmolLM2")

Runs = tuple[list[tuple[list[int], torch.Tensor]], dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """What the built-in cache gives, (tokens, logits) by prompt, and what a new process gives from
    the store."""
    folder = tmp_path_factory.mktemp("smollm2")
    model, tokenizer = load_model(), load_tokenizer()
    document, questions = document_and_questions(tokenizer)
    expected = _run_built_in(model, document, questions)
    np.save(folder / "tokens.npy", [tokens for tokens, _ in expected])
    _store_prefixes(folder / "store", model, tokenizer, document)
    saved = in_new_process(
        "smollm2_in_new_process.py",
        str(folder / "store"),
        str(folder / "tokens.npy"),
        folder=folder,
    )
    return expected, saved


def _run_built_in(
    model: Any, document: torch.Tensor, questions: list[torch.Tensor]
) -> list[tuple[list[int], torch.Tensor]]:
    runs = []
    cache = DynamicCache(config=model.config)
    with torch.inference_mode():
        for begin, end, question in zip((0, *CUTS), CUTS, questions, strict=False):
            model(document[:, begin:end], past_key_values=cache, logits_to_keep=1)
            runs.append(run_greedily(model, copy.deepcopy(cache), input_ids=question))
    return runs


def _store_prefixes(store: Path, model: Any, tokenizer: Any, document: torch.Tensor) -> None:
    """With float32 KV a context at each cut. With float16 KV one, imported from those: the
    document is read once."""
    with attndb.open(store, num_threads=1) as db, torch.inference_mode():
        attndb.hf.use(model, tokenizer=tokenizer, kv_dtype="float16")
        spec16 = attndb.hf.spec(model)
        attndb.hf.use(model, tokenizer=tokenizer)
        cache, _ = attndb.hf.create_session(db, model, document)
        for begin, end in zip((0, *CUTS), CUTS, strict=False):
            model(document[:, begin:end], past_key_values=cache, logits_to_keep=1)
            cache.store(name=f"cut{end}")
        layers = [cache.session.read_kv(layer) for layer in range(spec16.num_layers)]
        db.import_context(spec16, document[0].numpy(), layers)


def test_prefixes_are_reused_to_the_token(runs: Runs) -> None:
    _, saved = runs
    print_count(len(CUTS), f"prompts of {CUTS[0]} to {CUTS[-1]} tokens and a question")
    for name in ("reused", "reused16_"):
        assert [int(saved[f"{name}{i}"]) for i in range(len(CUTS))] == list(CUTS)


def test_float32_kv_gives_the_tokens_and_logits_of_the_built_in_cache(runs: Runs) -> None:
    expected, saved = runs
    for i, (tokens, logits) in enumerate(expected):
        assert saved[f"tokens{i}"].tolist() == tokens, f"prompt {i}"
        assert np.abs(saved[f"logits{i}"] - logits.numpy()).max() <= 2e-3, f"prompt {i}"


def test_float16_kv_gives_the_same_tokens_but_of_one_prompt_of_ten(runs: Runs) -> None:
    _, saved = runs
    equal = [bool(saved[f"says16_{i}"]) for i in range(len(CUTS))]
    assert sum(equal) >= len(CUTS) - len(CUTS) // 10, equal
