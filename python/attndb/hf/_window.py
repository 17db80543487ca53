"""Drops the oldest tokens of rows that outgrow a length. The other tokens stay as they are.

Source: [AS] 3.4 and 4.1, with a ratio of 0.5. The attention sink in front: arXiv:2309.17453.
"""

from __future__ import annotations

from dataclasses import dataclass

from attndb._errors import InvalidArgumentError
from attndb._session import Session


@dataclass(frozen=True)
class Window:
    """The limits of a row. `max_length`: limit on the tokens that a row attends to. `keep_first`:
    number of first tokens that never leave; if it is 0, the first token stays nevertheless.
    `keep_ratio`: the share of max_length that is left after tokens left."""

    max_length: int
    keep_first: int
    keep_ratio: float

    def __post_init__(self) -> None:
        if not (0 < self.keep_ratio < 1 and 0 <= self.keep_first < self.num_left > 1):
            raise InvalidArgumentError(
                f"max_length={self.max_length}, keep_first={self.keep_first}, "
                f"keep_ratio={self.keep_ratio}: expected a ratio between 0 and 1 of the length "
                "that has room for keep_first and a token behind them"
            )

    @property
    def num_left(self) -> int:
        return int(self.max_length * self.keep_ratio)

    def check(self, num_held: int, num_new: int, row: int) -> None:
        """Raises InvalidArgumentError if no drop makes room for these tokens of a prompt."""
        in_front = min(max(self.keep_first, 1), num_held)
        room = self.max_length - in_front - (1 if num_held > in_front else 0)
        if num_held + num_new > self.max_length and num_new > room:
            raise InvalidArgumentError(
                f"input_ids: row {row} has {num_new} new tokens, max_length={self.max_length} has "
                f"room for {room}; run a long prompt in several forwards"
            )

    def num_at_once(self, num_held: int) -> int:
        """Returns how many tokens run before the row has to drop tokens again. If there is no room
        for a token, counts from after the next drop."""
        free = self.max_length - num_held
        return free if free > 0 else self.max_length - self.num_left

    def make_room(self, session: Session, num_new: int) -> None:
        """Drops the oldest tokens if the new tokens do not fit. REQUIRES: `check` passed."""
        num_held = session.num_tokens - session.num_dropped
        if num_held + num_new <= self.max_length:
            return
        num_left = min(self.num_left, self.max_length - num_new)
        first_gap = session.cuts[0].dropped[0][0] if session.cuts else session.num_tokens
        session.drop_oldest(num_held - num_left, keep_first=min(self.keep_first, first_gap))
