"""One running request: a stored prefix of a context and the tail of tokens that came after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from attndb import _core
from attndb._arrays import Array, empty
from attndb._checked import I64, U32, U64, Range, checked_late
from attndb._errors import BY_CODE, Error, InvalidArgumentError
from attndb._results import (
    CriticalTokens,
    Cut,
    Explain,
    HeadExplain,
    LayerExplain,
    SessionContext,
    Substitute,
    cuts_of,
)
from attndb._spec import ModelSpec

if TYPE_CHECKING:
    from attndb._db import DB


@checked_late
class Session:
    """Made by :meth:`DB.create_session`.

    A step, for n new tokens, is, for layer 0, 1, ... in order: ``append(layer, k, v)``, then
    ``attend(layer, q)``, which is causal inside the new tokens.

    Arrays are numpy, torch (CPU) or anything with DLPack, of float32, float16 or bfloat16, with any
    strides; none is copied. Shapes: q ``[num_rows, num_q_heads, head_dim]``, k ``[n, num_kv_heads,
    head_dim]``, v and out with ``v_head_dim``; lse ``[num_rows, num_q_heads]`` float32, the natural
    log of the sum of exp(logit).

    A session is one thread's at a time: a call beside another raises
    :class:`FailedPreconditionError`. The interpreter lock is free while a call computes or blocks.
    Close it with ``close()`` or ``with``; the collector does it else.
    """

    __slots__ = ("_core", "_db", "_spec", "__weakref__")

    def __init__(self, core: _core.Session, spec: ModelSpec, db: DB) -> None:
        self._core = core
        self._spec = spec
        self._db = db  # The session keeps its store open.

    # The two primitives.

    def append(self, layer: U32, k: Array, v: Array) -> None:
        """Adds the new tokens' rows to `layer`, rounded to nearest-even to the spec's kv_dtype.

        Raises InvalidArgumentError (shape, dtype, a finite value that overflows),
        FailedPreconditionError (layer out of order, unequal rows), ResourceExhaustedError.
        """
        self._core.append(layer, k, v)

    @overload
    def attend(self, layer: U32, q: Array, *, out: Array | None = ...) -> Any: ...
    @overload
    def attend(
        self, layer: U32, q: Array, *, return_lse: bool, out: Array | None = ...
    ) -> Any: ...
    def attend(
        self, layer: U32, q: Array, *, return_lse: bool = False, out: Array | None = None
    ) -> Any:
        """Attention of the newest ``len(q)`` tokens of `layer` over all tokens up to each.

        Returns `out`, or a new array of q's library and dtype; with `return_lse` the pair
        ``(out, lse)``.
        """
        if out is None:
            out = empty(q, (*q.shape[:2], self._core.v_head_dim(layer)))
        if not return_lse:
            self._core.attend(layer, q, out, None)
            return out
        lse = empty(q, q.shape[:2], float32=True)
        self._core.attend(layer, q, out, lse)
        return out, lse

    def attend_part(
        self, layer: U32, q: Array, out: Array, lse: Array | None, part: U32, num_parts: U32
    ) -> None:
        """The same call shared by `num_parts` threads of the caller, which give equal arguments but
        for their `part`; `out` is complete when all have returned. The session keeps the arrays of
        its last call's parts. A call that lacks a part is given up by :meth:`crop` or
        :meth:`reset`."""
        self._core.attend_part(layer, q, out, lse, part, num_parts)

    def search(self, layer: U32, q: Array) -> list[CriticalTokens]:
        """What the plan chooses of the middle for the newest token, for each q head, without
        attending to it. q has one row.

        Raises FailedPreconditionError if the layer's plan does not search (topk, dipr and mass do).
        """
        return [
            CriticalTokens(np.frombuffer(tokens, np.uint32), np.frombuffer(scores, np.float32))
            for tokens, scores in self._core.search(layer, q)
        ]

    # The names of [Alaya] Table 2.

    @overload
    def update(self, q: Array, k: Array, v: Array, layer: U32) -> None: ...
    @overload
    def update(self, q: Array, k: Array, v: Array, layer: U32, return_kv: bool) -> Any: ...
    def update(self, q: Array, k: Array, v: Array, layer: U32, return_kv: bool = False) -> Any:
        """:meth:`append`; q is only checked. With `return_kv`: all keys and values of the layer,
        the drop-in for ``DynamicCache.update``."""
        num_before = self._core.num_tokens
        self._core.update(q, k, v, layer)
        return self._read_like(k, layer, 0, num_before + len(k)) if return_kv else None

    def attention(self, q: Array, layer: U32, *, out: Array | None = None) -> Any:
        """:meth:`attend`."""
        return self.attend(layer, q, out=out)

    def read_kv(self, layer: U32, begin: U64 = 0, end: U64 | None = None) -> Any:
        """K and V of tokens [begin, end) as they are held: numpy float32 copies
        ``[n, num_kv_heads, head_dim]``, in the spec's RoPE layout."""
        last = self._core.num_tokens if end is None else end
        return self._read_like(None, layer, begin, last)

    def _read_like(self, like: Array | None, layer: U32, begin: int, end: int) -> Any:
        shape = (max(end - begin, 0), self._core.num_kv_heads(layer))
        k = empty(like, (*shape, self._core.head_dim(layer)), float32=True)
        v = empty(like, (*shape, self._core.v_head_dim(layer)), float32=True)
        self._core.read_kv(layer, begin, end, k, v)
        return k, v

    # State.

    @property
    def num_tokens(self) -> int:
        """Tokens complete in every layer."""
        return self._core.num_tokens

    @property
    def num_reused(self) -> int:
        """Of these, those found in the store at create_session or put there by store."""
        return self._core.num_reused

    @property
    def context_id(self) -> int | None:
        """The context that the session continues; None if it started from nothing."""
        return self._core.context_id or None

    @property
    def contexts(self) -> tuple[SessionContext, ...]:
        """Of a session over several contexts (create_session_over) these, in order; else none."""
        return tuple(SessionContext(**row) for row in self._core.contexts)

    @property
    def num_dropped(self) -> int:
        """Tokens that have left, of num_tokens: drop_oldest."""
        return self._core.num_dropped

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """When tokens left, and which."""
        return cuts_of(self._core.cuts)

    @property
    def next_position(self) -> int:
        """Of the next token under RoPE, as the engine counts: first_position and num_tokens, or,
        over several contexts, the end of the longest of them and what came after; after rebase,
        what that set it to and what came after."""
        return self._core.next_position

    @property
    def memory_bytes(self) -> int:
        """Bytes of the tail and of the segments that are in memory for it."""
        return self._core.memory_bytes

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    def crop(self, num_tokens: U64) -> None:
        """Keeps the first `num_tokens` tokens, and makes a failed session usable again.

        Raises InvalidArgumentError (more than there are), FailedPreconditionError (into one of
        several contexts).
        """
        self._core.crop(num_tokens)

    def set_filter(self, ranges: Iterable[Range] = ()) -> None:
        """Attends, of the tokens that the session holds now, to those in `ranges` alone.

        Each is ``(begin, end)``, without `end`: chapters of a document, one of several documents.
        They stand in order and do not overlap. Tokens that are appended later are all attended to;
        without a range, all are again. Models lean on the first few tokens of a text: keep these
        too. What is appended while tokens are hidden has keys and values of its own: `store`
        refuses until it was cropped.
        """
        self._core.set_filter([(begin, end) for begin, end in ranges])

    def drop_oldest(
        self,
        n: U64,
        *,
        keep_first: U64 = 0,
        keep: Iterable[Range] = (),
        sink: bool = True,
    ) -> None:
        """The oldest `n` of the tokens that are attended to leave for good ([AS] 3.4).

        The first `keep_first` tokens stay, a system prompt say, and so do the ranges ``(begin,
        end)`` of `keep` and the newest token. A conversation that outgrows the model's window goes
        on at once: nothing is computed again, no key or value is copied, tokens keep their indices
        and positions, and num_tokens counts what has left, too. What stays in front of a gap is
        attended to as if it stood directly before what follows. `sink`: where keep_first is 0, the
        first token stays all the same; without an attention sink the perplexity of SmolLM2 grows by
        two thirds. `store` keeps the whole history, and prompts that begin with all of it find it.

        Raises InvalidArgumentError (more than there is, keep_first beyond what is attended to,
        ranges), FailedPreconditionError (inside a step, over several contexts), UnsupportedError
        (no RoPE, or a scaling that depends on the length). The session is unchanged then.
        """
        self._core.drop_oldest(n, keep_first, [(begin, end) for begin, end in keep], sink)

    def heaviest_tokens(
        self, num_tokens: U64, begin: U64 = 0, end: U64 | None = None
    ) -> list[tuple[int, int]]:
        """Of tokens [begin, end) those that the newest queries of all heads attend to most: ranges
        of blocks of 16 tokens, `num_tokens` together at most, for `keep` of :meth:`drop_oldest`
        ([AS] 3.4, selective preservation).

        Reads all keys that are attended to. Raises FailedPreconditionError (no queries are sampled:
        ``attndb.open(query_sample=)``), InvalidArgumentError, and as attend.
        """
        last = self.num_tokens if end is None else end
        return self._core.heaviest_tokens(begin, last, num_tokens)

    def rebase(self, position: I64) -> None:
        """From now on the engine takes `position` for the next token, and goes on from there.

        q and k that it gives are turned to the positions that the session's tokens have, by angles
        in float64. For engines whose own angles are float32, and off at large positions. Is not
        stored.
        """
        self._core.rebase(position)

    def await_derived(self, layer: U32) -> None:
        """Waits until what the layer's plan reads of planes, indexes and codes is made.

        For all stored tokens, and for those that are not stored in whole blocks of 4,096, as far as
        it can be: PQCache (Alg. 1) waits so for a layer's codes before its second token. `attend`
        never does: what is not there it reads exactly.
        """
        self._core.await_derived(layer)

    def awaits_derived(self, layer: U32) -> bool:
        """Whether an engine is to call `await_derived` before the layer's next single token.

        The layer's plan says ``await=1`` and reads what is derived, and nobody has waited since
        the plan was set, the stored tokens changed and the last block of 4,096 tokens that are not
        stored was complete. Cheap. The first token after a prompt
        is not waited for. False for a layer that the model does not have.
        """
        return self._core.awaits_derived(layer)

    def fork(self) -> Session:
        """A second session with the same tokens; tails are shared until one of them appends."""
        session = Session(self._core.fork(), self._spec, self._db)
        self._db._adopt(session)
        return session

    def reset(self) -> None:
        """Forgets all tokens, the stored prefix too."""
        self._core.reset()

    # Plans.

    def set_plan(self, plan: str) -> None:
        """Sets the plan (docs/plan.md) for the calls to come.

        Raises InvalidArgumentError, with the column.
        """
        self._core.set_plan(plan)

    @overload
    def explain(self) -> Explain: ...
    @overload
    def explain(self, layer: U32) -> LayerExplain: ...
    def explain(self, layer: U32 | None = None) -> Explain | LayerExplain:
        """Plan, prediction and what the last call of each layer, or of `layer`, cost."""
        if layer is not None:
            return _layer_explain(self._core.explain_layer(layer))
        fields = self._core.explain()
        layers = tuple(_layer_explain(row) for row in fields.pop("layers"))
        contexts = tuple(SessionContext(**row) for row in fields.pop("contexts"))
        substitutes = tuple(Substitute(**row) for row in fields.pop("substitutes"))
        return Explain(contexts=contexts, layers=layers, substitutes=substitutes, **fields)

    # Life.

    def close(self) -> None:
        """Ends the session. Every later call but `close` raises FailedPreconditionError."""
        self._core.close()

    @property
    def closed(self) -> bool:
        return self._core.closed

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return self.num_tokens

    def __repr__(self) -> str:
        if self.closed:
            return "<attndb.Session closed>"
        return f"<attndb.Session {self.num_tokens} tokens, {self.num_reused} reused>"


@checked_late
def attend_batch(
    sessions: Sequence[Session],
    num_rows: Sequence[I64],
    layer: U32,
    q: Array,
    *,
    out: Array | None = None,
    return_lse: bool = False,
    errors: list[Error | None] | None = None,
) -> Any:
    """One step of one layer for many sessions (continuous batching).

    The rows of q and out are those of ``sessions[0]``, then of ``sessions[1]``, ...:
    ``num_rows[i]`` each; k and v were appended before. All threads work off the sessions' calls
    together. A list ``errors`` is filled with the error of each session, or None; without it, the
    first error is raised, and the other sessions are complete.
    """
    if not sessions:
        raise InvalidArgumentError("sessions: expected one or more, found none")
    cores = [session._core for session in sessions]
    if out is None:
        out = empty(q, (*q.shape[:2], cores[0].v_head_dim(layer)))
    lse = empty(q, q.shape[:2], float32=True) if return_lse else None
    found = [
        None if error is None else BY_CODE[error[0]](error[1])
        for error in _core.attend_batch(cores, list(num_rows), layer, q, out, lse)
    ]
    if errors is not None:
        errors[:] = found
    for number, error in enumerate(found):
        if error is not None and errors is None:
            raise type(error)(f"session {number} of the batch: {error}")
    return (out, lse) if return_lse else out


def _layer_explain(fields: dict[str, Any]) -> LayerExplain:
    heads = tuple(HeadExplain(**head) for head in fields.pop("heads"))
    substitutes = tuple(Substitute(**each) for each in fields.pop("substitutes"))
    return LayerExplain(heads=heads, substitutes=substitutes, **fields)
