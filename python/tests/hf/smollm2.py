"""SmolLM2 as the tests load it, its prompts, and greedy steps that keep all logits."""

from __future__ import annotations

import copy
import functools
import pydoc_data.topics
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from sizes import sized

MODELS = Path(__file__).resolve().parents[3] / ".deps" / "models"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
# Tokens of the document before each question: no multiple of a block.
CUTS = sized((83, 263, 1033), (83, 131, 197, 263, 411, 645, 1033, 1621, 2503, 3973))
NUM_TOKENS = sized(16, 64)


def load_model() -> Any:
    """In float32, with sdpa. The file is read once a process; each caller has its own copy."""
    return copy.deepcopy(_load()[0])


def load_tokenizer() -> Any:
    return _load()[1]


@functools.cache
def _load() -> tuple[Any, Any]:
    import gguf

    # transformers reads the file's header three times, which is most of the time that it takes.
    with mock.patch("gguf.GGUFReader", functools.cache(gguf.GGUFReader)):
        tokenizer = AutoTokenizer.from_pretrained(MODELS, gguf_file=FILE)
        model = AutoModelForCausalLM.from_pretrained(MODELS, gguf_file=FILE, dtype=torch.float32)
    return model.eval(), tokenizer


def document_and_questions(tokenizer: Any) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Ids [1, n] of a text, and of what is asked after each of its prefixes."""
    topics = pydoc_data.topics.topics
    names = sorted(topics)
    text = "\n".join(topics[name] for name in names)[:40000]
    document = tokenizer(text, return_tensors="pt").input_ids[:, : CUTS[-1]]
    questions = [
        tokenizer(f"\n\nTo sum up, `{names[5 * i]}` means", return_tensors="pt").input_ids
        for i in range(len(CUTS))
    ]
    return document, questions


@torch.inference_mode()
def run_greedily(model: Any, cache: Any, **first: torch.Tensor) -> tuple[list[int], torch.Tensor]:
    """Runs `first`, then NUM_TOKENS greedy tokens: these, and the logits of every column."""
    logits = [model(**first, past_key_values=cache).logits[0]]
    tokens = [int(logits[0][-1].argmax())]
    while len(tokens) < NUM_TOKENS:
        step = model(torch.tensor([tokens[-1:]]), past_key_values=cache)
        logits.append(step.logits[0])
        tokens.append(int(logits[-1][-1].argmax()))
    return tokens, torch.cat(logits)


@torch.inference_mode()
def would_say(model: Any, cache: Any, ids: torch.Tensor, tokens: list[int]) -> bool:
    """Whether greedy decoding after `ids` gives `tokens`: the largest logit after each of them is
    the next one. One forward."""
    whole = torch.cat([ids, torch.tensor([tokens[:-1]])], dim=1)
    rest = whole[:, cache.get_seq_length() :]
    logits = model(rest, past_key_values=cache, logits_to_keep=len(tokens)).logits[0]
    return bool(logits.argmax(dim=1).tolist() == tokens)
