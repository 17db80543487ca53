"""Run by test_hf_agreement.py: `RESULT STORE CASES`. For each model and case of the JSON, makes a
session from the store, generates, and saves tokens, logits and what was reused."""

from __future__ import annotations

import json
import sys

import torch

import attndb
import attndb.hf
from hf_models import generate, make_model, save_result


def main(result: str, store: str, cases_text: str) -> None:
    torch.set_num_threads(1)
    arrays = {}
    with attndb.open(store, read_only=True) as db:
        for name, cases in json.loads(cases_text).items():
            model = attndb.hf.use(make_model(name))
            for i, case in enumerate(cases):
                ids = torch.tensor([case["ids"]])
                cache, given = attndb.hf.create_session(db, model, ids, context=case["context"])
                if case["truncated"]:
                    given["input_ids"] = ids[:, cache.num_reused :]
                mask = given["attention_mask"] if case["mask"] else None
                out = generate(
                    model, given["input_ids"], attention_mask=mask, past_key_values=cache
                )
                arrays[f"{name}-tokens{i}"] = out.sequences[0, -24:].numpy()
                arrays[f"{name}-logits{i}"] = torch.cat(out.logits).numpy()
                arrays[f"{name}-reused{i}"] = cache.num_reused
                cache.close()
    save_result(result, **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
