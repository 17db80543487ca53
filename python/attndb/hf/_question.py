"""Runs a question by itself and keeps q of its tokens, for :meth:`attndb.DB.find`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from attndb._checked import I64, Head, checked
from attndb._db import DB
from attndb._errors import InvalidArgumentError
from attndb.hf._session import create_session


class Question(NamedTuple):
    """Arguments of :meth:`attndb.DB.find`: ``db.find(spec, **question._asdict())``."""

    heads: list[tuple[int, int]]  # (layer, q head).
    q: list[torch.Tensor]  # One per head: [num_tokens, head_dim] float32, after RoPE.
    first_position: int  # Position of row 0.


@checked
def find_question(
    db: DB,
    model: Any,
    input_ids: Any,
    heads: Sequence[Head],
    *,
    first_token: I64 = 0,
) -> Question:
    """Runs a question by itself, and returns q of its tokens in `heads`:
    ``db.find(attndb.hf.spec(model), **attndb.hf.find_question(db, model, ids, heads)._asdict())``.

    ``input_ids``: ``[T]`` or ``[1, T]``, or the result of a tokenizer: the question as it would
    stand in a document, for example in the model's template. ``first_token``: the first token of
    the question itself, because tokens of the template say nothing about the passage. ``heads``:
    pairs (layer, q head), the model's heads that look things up. To find these heads, call
    ``db.find(head_scores=True)`` on questions whose passages are known. Stores nothing in `db`.

    Raises FailedPreconditionError (``attndb.hf.use(model)`` was not called), InvalidArgumentError
    (a head that the model does not have; no token from `first_token` on; several rows).
    """
    cache, ids = create_session(db, model, input_ids, reuse=False, plan="full")
    with cache:
        num_rows, num_tokens = ids["input_ids"].shape
        if num_rows != 1:
            raise InvalidArgumentError(f"input_ids: expected one question, found {num_rows}")
        if not 0 <= first_token < num_tokens:
            raise InvalidArgumentError(
                f"first_token: {first_token}, expected 0 to {num_tokens - 1}, a token of the "
                "question"
            )
        wanted = [(int(layer), int(head)) for layer, head in heads]
        _check_heads(cache, wanted)
        kept: dict[tuple[int, int], torch.Tensor] = {}

        def keep(layer: int, queries: torch.Tensor) -> None:
            """`queries` [1, n, num_q_heads, head_dim]."""
            for head in wanted:
                if head[0] == layer:
                    kept[head] = queries[0, first_token:, head[1]].detach().float().clone()

        cache.on_queries = keep
        with torch.inference_mode():
            model(**ids, past_key_values=cache, use_cache=True)
    return Question(wanted, [kept[head] for head in wanted], first_token)


def _check_heads(cache: Any, heads: Sequence[tuple[int, int]]) -> None:
    layers = cache.spec.layers
    for layer, head in heads:
        if 0 <= layer < len(layers) and 0 <= head < layers[layer].num_q_heads:
            continue
        has = f"{len(layers)} layers"
        if 0 <= layer < len(layers):
            has += f" and {layers[layer].num_q_heads} q heads there"
        raise InvalidArgumentError(f"heads: layer {layer} q head {head}, but the model has {has}")
