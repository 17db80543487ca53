"""Rows that outgrow a length: the oldest of their tokens leave, and what is held goes on.

Source: [AS] 3.4 and 4.1, whose ratio is 0.5; an attention sink in front: arXiv:2309.17453.
"""

from __future__ import annotations

from dataclasses import dataclass

from attndb._errors import InvalidArgumentError
from attndb._session import Session


@dataclass(frozen=True)
class Window:
    """`max_length`: tokens that a row attends to at most. `keep_first`: tokens in front that never
    leave; with 0 the first one stays all the same. `keep_ratio`: the share of max_length that is
    left when tokens leave."""

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
        """Raises InvalidArgumentError where no drop makes room for these tokens of a prompt."""
        in_front = min(max(self.keep_first, 1), num_held)
        room = self.max_length - in_front - (1 if num_held > in_front else 0)
        if num_held + num_new > self.max_length and num_new > room:
            raise InvalidArgumentError(
                f"input_ids: row {row} has {num_new} new tokens, max_length={self.max_length} has "
                f"room for {room}; run a long prompt in several forwards"
            )

    def num_at_once(self, num_held: int) -> int:
        """Tokens that run before the row loses tokens again, once there is room for one."""
        free = self.max_length - num_held
        return free if free > 0 else self.max_length - self.num_left

    def make_room(self, session: Session, num_new: int) -> None:
        """Drops the oldest tokens, if the new ones do not fit. REQUIRES: check."""
        num_held = session.num_tokens - session.num_dropped
        if num_held + num_new <= self.max_length:
            return
        num_left = min(self.num_left, self.max_length - num_new)
        first_gap = session.cuts[0].dropped[0][0] if session.cuts else session.num_tokens
        session.drop_oldest(num_held - num_left, keep_first=min(self.keep_first, first_gap))
