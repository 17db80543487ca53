"""Finds out from a forward's arguments which tokens are new for a cache, and where they stand.

A cache holds `num_columns` columns of a left-padded batch. Row r has `pad` columns of padding, then
its tokens. The token of column c has position c - pad, which is its index in the row's session.

A forward passes the new columns alone, or all columns from the first one (as generate() does if it
does not slice). In the second case the columns that the cache holds are compared and dropped. The
plan refuses arguments with which the built-in cache would make other tokens: holes in the mask,
right padding, positions that differ from the index, and ids that differ from the cache's prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from attndb._errors import InvalidArgumentError, UnsupportedError
from attndb._session import Session

UNKNOWN = -1  # The id of a token that came as an embedding.


@dataclass
class Row:
    """One sequence of a batch."""

    session: Session
    pad: int  # Columns of padding before its first token.
    ids: list[int]  # Ids of the tokens that the session holds.
    prompt: list[int]  # The prompt that the session was made for; ids of forwards must equal it.
    num_reused: int  # Tokens found in the store.
    # Over several contexts: number of tokens without a column, because they have the positions of
    # other tokens. A column is then a position, and the first columns are the contexts' tokens.
    num_beside: int = 0

    def num_tokens(self, num_columns: int) -> int:
        """Returns the number of the row's tokens in the first `num_columns` columns."""
        return max(num_columns - self.pad, 0) + self.num_beside


@dataclass(frozen=True)
class Given:
    """A forward's arguments. Shapes, with n = num_columns: input_ids [batch, n]; attention_mask
    [batch, n], or with the cache's columns in front; position_ids [1 or batch, n]. Each may be
    None."""

    batch: int
    num_columns: int
    input_ids: torch.Tensor | None
    attention_mask: torch.Tensor | None
    position_ids: torch.Tensor | None


@dataclass
class StepPlan:
    """The new tokens of a forward."""

    num_dropped: int  # Number of leading given columns that the cache holds already.
    num_new: int
    pads: list[int]  # By row.
    begins: list[int]  # By row: the first new column that is no padding.
    ids: list[list[int]]  # By row: ids of its new tokens.
    position_ids: torch.Tensor | None  # For the model, if it would use columns as positions.


def plan_step(rows: Sequence[Row], num_columns: int, given: Given, has_run: bool) -> StepPlan:
    """Plans a forward. `has_run`: a forward has run on the cache since it was made.

    Raises InvalidArgumentError, UnsupportedError: see the head of this file.
    """
    _check_shape_of_positions(given)
    pads = _read_pads(rows, num_columns, given)
    dropped = num_columns if _gives_all(rows, pads, num_columns, given, has_run) else 0
    if dropped and any(row.num_beside for row in rows):
        raise InvalidArgumentError(
            f"input_ids: the cache holds several contexts, whose tokens are no {num_columns} "
            "columns of a prompt; give the new ids alone, with an attention_mask over "
            f"{num_columns} columns and theirs"
        )
    num_new = given.num_columns - dropped
    if num_new < 1:
        raise InvalidArgumentError(
            f"input_ids: the cache holds {num_columns} columns, and all {given.num_columns} given "
            "ones are among them; at least one must be left to run"
        )
    begins = [min(max(pad - num_columns, 0), num_new) for pad in pads]
    if given.position_ids is not None:
        _check_positions(given.position_ids[:, dropped:], num_columns, pads)
    ids = [[UNKNOWN] * (num_new - begin) for begin in begins]
    if given.input_ids is not None:
        for r, row in enumerate(rows):
            if dropped:
                _check_held(row, given.input_ids[r, pads[r] : dropped].tolist())
            ids[r] = given.input_ids[r, dropped + begins[r] :].tolist()
            _check_prompt(row, row.num_tokens(num_columns), ids[r])
    positions = None
    if given.position_ids is None and any(pads):
        columns = torch.arange(num_columns, num_columns + num_new)
        positions = (columns - torch.tensor(pads)[:, None]).clamp(min=0)
    return StepPlan(dropped, num_new, pads, begins, ids, positions)


def _check_shape_of_positions(given: Given) -> None:
    position_ids = given.position_ids
    if position_ids is None:
        return
    if not isinstance(position_ids, torch.Tensor) or position_ids.ndim != 2:
        is_tensor = isinstance(position_ids, torch.Tensor)
        shape = list(position_ids.shape) if is_tensor else type(position_ids).__name__
        raise UnsupportedError(f"position_ids: expected [batch, columns], found {shape}")
    if position_ids.shape[0] not in (1, given.batch) or position_ids.shape[1] != given.num_columns:
        raise InvalidArgumentError(
            f"position_ids: expected [{given.batch}, {given.num_columns}], found "
            f"{list(position_ids.shape)}"
        )


def _read_pads(rows: Sequence[Row], num_columns: int, given: Given) -> list[int]:
    """Returns the columns of padding by row, from the mask if there is one."""
    mask = given.attention_mask
    if mask is None:
        return [row.pad for row in rows]
    if not isinstance(mask, torch.Tensor) or mask.ndim != 2:
        shape = list(mask.shape) if isinstance(mask, torch.Tensor) else type(mask).__name__
        raise UnsupportedError(
            f"attention_mask: expected [batch, columns] of 0 and 1, found {shape}"
        )
    widths = (given.num_columns, num_columns + given.num_columns)
    if mask.shape[0] != given.batch or mask.shape[1] not in widths:
        raise InvalidArgumentError(
            f"attention_mask: expected [{given.batch}, {widths[1]}], as the cache holds "
            f"{num_columns} columns and {given.num_columns} are given; found {list(mask.shape)}"
        )
    pads = left_padding(mask)
    for r, row in enumerate(rows):
        if (num_columns or row.prompt) and pads[r] != row.pad:
            raise InvalidArgumentError(
                f"attention_mask: row {r} has {pads[r]} columns of padding; the cache was made "
                f"with {row.pad}"
            )
    return pads


def left_padding(mask: torch.Tensor) -> list[int]:
    """Returns the columns of padding of each row of `mask`, [batch, columns] of 0 and 1 or bool.

    Raises UnsupportedError (padding elsewhere than on the left; other values), and
    InvalidArgumentError (a row has padding alone).
    """
    real = mask != 0
    if mask.dtype is not torch.bool and not bool(torch.equal(real, mask == 1)):
        raise UnsupportedError("attention_mask: expected 0 and 1, found other values")
    num_real = real.sum(dim=1).tolist()
    firsts = (real.cumsum(dim=1) == 0).sum(dim=1).tolist()
    for r, (count, first) in enumerate(zip(num_real, firsts, strict=True)):
        if count == 0:
            raise InvalidArgumentError(f"attention_mask: row {r} masks all its tokens")
        if first + count != mask.shape[1]:
            where = "a hole" if bool(real[r, -1]) else "padding on the right"
            raise UnsupportedError(
                f"attention_mask: row {r} has {where}; expected padding on the left only"
            )
    return list(firsts)


def _gives_all(
    rows: Sequence[Row], pads: list[int], num_columns: int, given: Given, has_run: bool
) -> bool:
    """Whether the given columns begin with the columns that the cache holds."""
    if num_columns == 0:
        return False
    says: dict[str, bool] = {}
    if given.position_ids is not None:
        says["position_ids"] = _first_column(given, num_columns, pads) == 0
    if given.attention_mask is not None:
        says["attention_mask"] = given.attention_mask.shape[1] == given.num_columns
    if len(set(says.values())) > 1:
        raise InvalidArgumentError(
            "position_ids and attention_mask disagree on whether the given tokens are all tokens "
            f"or only those after the {num_columns} columns of the cache"
        )
    if says:
        return any(says.values())
    if has_run or given.input_ids is None:
        return False
    return all(
        given.input_ids[r, pads[r] :].tolist() == row.prompt for r, row in enumerate(rows)
    )


def _first_column(given: Given, num_columns: int, pads: list[int]) -> int:
    """Returns the column of the first given token, by its position: 0 or num_columns."""
    position_ids = given.position_ids
    assert position_ids is not None
    last = position_ids[:, -1].expand(given.batch).tolist()
    firsts = {
        position + pad - given.num_columns + 1 for position, pad in zip(last, pads, strict=True)
    }
    if firsts <= {0} or firsts <= {num_columns}:
        return int(firsts.pop())
    raise InvalidArgumentError(
        f"position_ids: the last ones are {last}, expected a token's index in its sequence: "
        f"{[num_columns + given.num_columns - 1 - pad for pad in pads]}"
    )


def _check_positions(position_ids: torch.Tensor, num_columns: int, pads: list[int]) -> None:
    """Checks that each token's position is its index. Positions of padding do not matter."""
    columns = torch.arange(num_columns, num_columns + position_ids.shape[1])
    index = columns - torch.tensor(pads)[:, None]
    wrong = (position_ids != index) & (index >= 0)
    if bool(wrong.any()):
        r, at = wrong.nonzero()[0].tolist()
        found = position_ids.expand_as(index)[r, at].item()
        raise InvalidArgumentError(
            f"position_ids: row {r} column {at}: expected the token's index in its sequence, "
            f"{index[r, at].item()}, found {found}"
        )


def _check_held(row: Row, ids: list[int]) -> None:
    for at, (held, given) in enumerate(zip(row.ids, ids, strict=True)):
        if held not in (given, UNKNOWN):
            raise InvalidArgumentError(
                f"input_ids: token {at} is {given}; the cache holds {held} there"
            )


def _check_prompt(row: Row, begin: int, ids: list[int]) -> None:
    expected = row.prompt[begin : begin + len(ids)]
    if ids[: len(expected)] == expected:
        return
    at = next(i for i, (a, b) in enumerate(zip(ids, expected, strict=False)) if a != b)
    raise InvalidArgumentError(
        f"input_ids: token {begin + at} is {ids[at]}; the cache was made for a prompt with "
        f"{expected[at]} there. Give generate() all ids, or the remaining ones with an "
        "attention_mask over all"
    )
