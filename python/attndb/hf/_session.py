"""Makes caches: for a prompt or a batch of prompts, with their stored prefixes, or over several
stored contexts."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from attndb._checked import I64, checked, found
from attndb._context import Context
from attndb._db import DB
from attndb._errors import FailedPreconditionError, InvalidArgumentError
from attndb._session import Session
from attndb._spec import ModelSpec
from attndb.hf._binding import binding_of
from attndb.hf._cache import AttndbCache
from attndb.hf._step_plan import Row, left_padding
from attndb.hf._window import Window


@checked
def create_session(
    db: DB,
    model: Any,
    input_ids: Any,
    *,
    attention_mask: Any = None,
    plan: str | None = None,
    context: Context | None = None,
    reuse: bool = True,
    max_length: I64 | None = None,
    keep_first: I64 = 4,
    keep_ratio: float = 0.5,
) -> tuple[AttndbCache, dict[str, torch.Tensor]]:
    """Returns ``(cache, ids)``: a cache with the longest stored prefix of the prompt, and the
    arguments for ``model.generate(**ids, past_key_values=cache)`` or
    ``model(**ids, past_key_values=cache)``.

    ``input_ids``: ``[T]``, ``[B, T]`` padded on the left (then with ``attention_mask``), a list of
    ids, a list of such lists (padded here), or the result of a tokenizer. At least one token of
    each row is left to run. The rows of a batch share columns, so each row reuses its prefix only
    up to the first column that some row must run.

    ``ids``: ``input_ids`` and ``attention_mask``, ``[B, T]``, of the whole prompt. The cache
    compares the ids that it holds; the model does not run them. A bare forward therefore returns
    logits of the other columns only. You may also pass just the remaining ids, with the whole mask.

    ``plan``, ``context``, ``reuse``: see :meth:`attndb.DB.create_session`.

    ``max_length``: limit on the tokens that a row attends to; None = no limit. If the new tokens of
    a forward do not fit, the oldest tokens leave first, until ``keep_ratio`` of max_length is left.
    The first ``keep_first`` tokens stay (:meth:`attndb.Session.drop_oldest`). Columns and positions
    continue, so the model's own RoPE must be exact there: its angles are float32, which changes
    logits by some .04 at position 100,000. If the prompt fits, the model runs tokens that an
    earlier, smaller ``max_length`` dropped.

    Raises FailedPreconditionError (``attndb.hf.use(model)`` was not called), InvalidArgumentError,
    UnsupportedError (padding elsewhere than on the left), and the errors of db.create_session.
    """
    window = None if max_length is None else Window(max_length, keep_first, keep_ratio)
    binding = binding_of(model)
    if binding is None:
        raise FailedPreconditionError("create_session: call attndb.hf.use(model) first")
    ids, mask = _read_prompts(input_ids, attention_mask, model)
    pads = left_padding(mask)
    spec = binding.spec(model)
    rows: list[Row] = []
    try:
        for r, pad in enumerate(pads):
            prompt = ids[r, pad:].tolist()
            session = _start(
                db,
                spec,
                prompt,
                window,
                context=context,
                reuse=reuse,
                plan=plan if plan is not None else binding.plan,
            )
            rows.append(Row(session, pad, [], prompt, session.num_reused))
        num_columns = min(row.pad + row.num_reused for row in rows)
        if not any(row.num_reused for row in rows):
            num_columns = 0
        for row in rows:
            row.num_reused = row.num_tokens(num_columns)
            row.session.crop(row.num_reused)
            row.ids = row.prompt[: row.num_reused]
    except BaseException:
        for row in rows:
            row.session.close()
        raise
    cache = AttndbCache(binding, weakref.ref(model), db, spec, rows, num_columns, window)
    return cache, {"input_ids": ids, "attention_mask": mask.to(torch.int64)}


def _start(
    db: DB, spec: ModelSpec, prompt: list[int], window: Window | None, **options: Any
) -> Session:
    """Creates the session of a prompt. If the prompt fits into max_length, the session reuses no
    prefix from which an earlier, smaller max_length dropped tokens."""
    session, _ = db.create_session(spec, prompt, **options)
    fits = window is None or len(prompt) <= window.max_length
    if session.num_dropped == 0 or not fits:
        return session
    session.close()
    session, _ = db.create_session(spec, prompt, truncated=False, **options)
    return session


@checked
def create_session_over(
    db: DB,
    model: Any,
    contexts: Sequence[Context],
    input_ids: Any,
    *,
    plan: str | None = None,
) -> tuple[AttndbCache, dict[str, torch.Tensor]]:
    """Returns ``(cache, ids)`` as :func:`create_session` does: a cache over several whole stored
    contexts, and the arguments for a question to them.

    ``input_ids``: ids of the question alone, ``[T]`` or ``[1, T]``, or the result of a tokenizer.
    The question's first token stands behind the longest context. The contexts keep their own
    positions, and the cache holds a beginning that they share once
    (:meth:`attndb.DB.create_session_over`).

    ``ids``: ``input_ids``, and an ``attention_mask`` with one column per position. The result of
    ``generate`` begins with the question. Columns of the contexts can't be cropped, and the cache
    can't be stored.

    Raises FailedPreconditionError (``attndb.hf.use(model)`` was not called), InvalidArgumentError,
    and the errors of db.create_session_over.
    """
    binding = binding_of(model)
    if binding is None:
        raise FailedPreconditionError("create_session_over: call attndb.hf.use(model) first")
    ids, mask = _read_prompts(input_ids, None, model)
    if ids.shape[0] != 1 or not bool(mask.all()):
        raise InvalidArgumentError(
            f"input_ids: expected one question without padding, found {list(ids.shape)}"
        )
    spec = binding.spec(model)
    session = db.create_session_over(
        spec, contexts, plan=plan if plan is not None else binding.plan
    )
    try:
        held = [
            token
            for part in session.contexts
            for token in db.tokens(part.id)[part.first_token :].tolist()
        ]
        if not session.contexts:
            held = db.tokens(contexts[0]).tolist()
        num_columns = session.next_position
        num_beside = session.num_tokens - num_columns
        row = Row(session, 0, held, [], session.num_reused, num_beside)
    except BaseException:
        session.close()
        raise
    cache = AttndbCache(binding, weakref.ref(model), db, spec, [row], num_columns)
    columns = torch.ones((1, num_columns + ids.shape[1]), dtype=torch.int64)
    return cache, {"input_ids": ids, "attention_mask": columns}


def _read_prompts(
    input_ids: Any, attention_mask: Any, model: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns ids [B, T] int64 and mask [B, T] int64."""
    is_text = isinstance(input_ids, Sequence) and len(input_ids) > 0
    if isinstance(input_ids, str) or (is_text and isinstance(input_ids[0], str)):
        raise InvalidArgumentError(
            'input_ids: expected token ids, found text: pass tokenizer(text, return_tensors="pt")'
        )
    if isinstance(input_ids, Mapping):
        if attention_mask is None:
            attention_mask = input_ids.get("attention_mask")
        if "input_ids" not in input_ids:
            raise InvalidArgumentError(
                f"input_ids: expected what a tokenizer returned, found {found(input_ids)}"
            )
        input_ids = input_ids["input_ids"]
    if _is_ragged(input_ids):
        if attention_mask is not None:
            raise InvalidArgumentError("attention_mask: lists of unequal length are padded here")
        input_ids, attention_mask = _pad_left(input_ids, model)
    ids = _as_tensor("input_ids", input_ids)
    ids = ids[None] if ids.ndim == 1 else ids
    if ids.ndim != 2 or 0 in ids.shape or ids.is_floating_point() or ids.device.type != "cpu":
        raise InvalidArgumentError(
            "input_ids: expected integers [T] or [B, T] on the CPU, one or more, found "
            f"{ids.dtype} {list(ids.shape)} on {ids.device}"
        )
    ids = ids.to(torch.int64)
    if attention_mask is None:
        return ids, torch.ones_like(ids)
    mask = _as_tensor("attention_mask", attention_mask)
    mask = mask[None] if mask.ndim == 1 else mask
    if mask.shape != ids.shape:
        raise InvalidArgumentError(
            f"attention_mask: expected {list(ids.shape)} as input_ids, found {list(mask.shape)}"
        )
    return ids, mask


def _as_tensor(what: str, values: Any) -> torch.Tensor:
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        raise InvalidArgumentError(
            f"{what}: expected integers [T] or [B, T], found {found(values)}"
        ) from None


def _is_ragged(input_ids: Any) -> bool:
    if not isinstance(input_ids, (list, tuple)) or not input_ids:
        return False
    return len({len(row) if hasattr(row, "__len__") else 0 for row in input_ids}) > 1


def _pad_left(prompts: Any, model: Any) -> tuple[torch.Tensor, torch.Tensor]:
    pad_id = getattr(model.config, "pad_token_id", None) or 0
    num_columns = max(len(prompt) for prompt in prompts)
    ids = torch.full((len(prompts), num_columns), pad_id, dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for r, prompt in enumerate(prompts):
        begin = num_columns - len(prompt)
        ids[r, begin:] = torch.as_tensor(prompt)
        mask[r, begin:] = 1
    return ids, mask
