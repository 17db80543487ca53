"""Run by test_smollm2.py: `RESULT STORE TOKENS`. Starts each prompt from the store and saves, with
float32 KV, greedy tokens, logits and what was reused; with float16 KV whether the tokens of the
file TOKENS would be said. Full ids, remaining ids, with and without a mask take turns."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch

import attndb
import attndb.hf
from hf_models import save_result
from smollm2 import (
    CUTS,
    document_and_questions,
    load_model,
    load_tokenizer,
    run_greedily,
    would_say,
)


def main(result: str, store: str, tokens_file: str) -> None:
    torch.set_num_threads(1)
    model, tokenizer = load_model(), load_tokenizer()
    document, questions = document_and_questions(tokenizer)
    expected = np.load(tokens_file)
    arrays: dict[str, Any] = {}
    with attndb.open(store, read_only=True, num_threads=1) as db:
        for i, (cut, question) in enumerate(zip(CUTS, questions, strict=True)):
            ids = torch.cat([document[:, :cut], question], dim=1)
            attndb.hf.use(model, tokenizer=tokenizer)
            cache, first = attndb.hf.create_session(db, model, ids)
            arrays[f"reused{i}"] = cache.num_reused
            if i % 3 == 1:
                first["input_ids"] = ids[:, cache.num_reused :]
            elif i % 3 == 2:
                first = {"input_ids": ids[:, cache.num_reused :]}
            arrays[f"tokens{i}"], logits = run_greedily(model, cache, **first)
            arrays[f"logits{i}"] = logits.numpy()
            cache.close()
            attndb.hf.use(model, tokenizer=tokenizer, kv_dtype="float16")
            cache, _ = attndb.hf.create_session(db, model, ids)
            arrays[f"reused16_{i}"] = cache.num_reused
            arrays[f"says16_{i}"] = would_say(model, cache, ids, expected[i].tolist())
            cache.close()
    save_result(result, **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
