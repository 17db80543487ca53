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
    """One running request, made by :meth:`DB.create_session`.

    A step runs n new tokens through the layers 0, 1, ... in order: ``append(layer, k, v)``, then
    ``attend(layer, q)``, which is causal inside the new tokens.

    Arrays are numpy, torch (CPU) or anything with DLPack, of float32, float16 or bfloat16, with any
    strides; no array is copied first. Shapes: q ``[num_rows, num_q_heads, head_dim]``, k ``[n,
    num_kv_heads, head_dim]``, v and out with ``v_head_dim``; lse ``[num_rows, num_q_heads]``
    float32, the natural log of the sum of exp(logit).

    One thread at a time may call a session: a second call meanwhile raises
    :class:`FailedPreconditionError`. A call releases the interpreter lock while it computes or
    blocks. Close a session with ``close()`` or ``with``. The garbage collector closes a session
    that nothing refers to any more.
    """

    __slots__ = ("_core", "_db", "_spec", "__weakref__")

    def __init__(self, core: _core.Session, spec: ModelSpec, db: DB) -> None:
        self._core = core
        self._spec = spec
        self._db = db  # The session keeps its store open.

    # The two primitives.

    def append(self, layer: U32, k: Array, v: Array) -> None:
        """Adds the rows of the new tokens to `layer`, rounded to nearest-even to kv_dtype.

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
        """Computes attention of the newest ``len(q)`` tokens of `layer`, each over all tokens up
        to its own.

        Returns `out`; without `out`, a new array of q's library and dtype. With `return_lse`,
        returns the pair ``(out, lse)``.
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
        """Computes one attend on `num_parts` of the caller's threads.

        Each thread passes equal arguments except its own `part`, 0 to num_parts - 1. `out` is
        complete when all parts have returned. The session keeps the arrays of its last call. If
        some parts never come, :meth:`crop` or :meth:`reset` abandons the call."""
        self._core.attend_part(layer, q, out, lse, part, num_parts)

    def search(self, layer: U32, q: Array) -> list[CriticalTokens]:
        """Returns the tokens of the middle that the layer's plan selects for the newest token.

        The list has one item per q head. q has one row. Attends to nothing. Raises
        FailedPreconditionError if the layer's plan does not search (topk, dipr and mass do).
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
        """Does :meth:`append`, and checks q. With `return_kv`, returns all keys and values of the
        layer, so that it can replace ``DynamicCache.update``."""
        num_before = self._core.num_tokens
        self._core.update(q, k, v, layer)
        return self._read_like(k, layer, 0, num_before + len(k)) if return_kv else None

    def attention(self, q: Array, layer: U32, *, out: Array | None = None) -> Any:
        """Does :meth:`attend`."""
        return self.attend(layer, q, out=out)

    def read_kv(self, layer: U32, begin: U64 = 0, end: U64 | None = None) -> Any:
        """Copies K and V of tokens [begin, end) as the session holds them: numpy float32
        ``[n, num_kv_heads, head_dim]``, V with v_head_dim, K in the spec's RoPE layout."""
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
        """The number of tokens that are complete in every layer, dropped tokens included."""
        return self._core.num_tokens

    @property
    def num_reused(self) -> int:
        """The number of these tokens that create_session reused or store stored."""
        return self._core.num_reused

    @property
    def context_id(self) -> int | None:
        """The context that the session continues; None if it started from nothing."""
        return self._core.context_id or None

    @property
    def contexts(self) -> tuple[SessionContext, ...]:
        """The contexts of a session over several contexts (create_session_over), in order. Empty
        for other sessions."""
        return tuple(SessionContext(**row) for row in self._core.contexts)

    @property
    def num_dropped(self) -> int:
        """The number of tokens that drop_oldest dropped, a part of num_tokens."""
        return self._core.num_dropped

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """When tokens were dropped, and which."""
        return cuts_of(self._core.cuts)

    @property
    def next_position(self) -> int:
        """The position of the next token under RoPE: usually first_position + num_tokens.

        Over several contexts, it is the end of the longest context plus the tokens since. After
        rebase, it is the given position plus the tokens since."""
        return self._core.next_position

    @property
    def memory_bytes(self) -> int:
        """Bytes in memory of the session's tail and of its segments' loaded layers."""
        return self._core.memory_bytes

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    def crop(self, num_tokens: U64) -> None:
        """Keeps the first `num_tokens` tokens, and makes a failed session usable again.

        Raises InvalidArgumentError (more than there are), FailedPreconditionError (fewer than all
        tokens of several contexts).
        """
        self._core.crop(num_tokens)

    def set_filter(self, ranges: Iterable[Range] = ()) -> None:
        """Hides all present tokens except those in `ranges` from later calls.

        A range is ``(begin, end)``, without `end`: a chapter of a document, or one of several
        documents. Ranges stand in order and do not overlap. Tokens that are appended later are
        visible. Without a range, the hiding ends. Models rely on the first few tokens of a text, so
        keep these visible. A token that is appended while others are hidden has other K and V than
        under the whole prompt: `store` refuses until such tokens are cropped.
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
        """Drops the oldest `n` tokens that the session attends to, for good ([AS] 3.4).

        The first `keep_first` tokens stay, for example a system prompt. The ranges ``(begin, end)``
        of `keep` and the newest token stay, too. A conversation that outgrows the model's window
        thus continues at once: no key or value is computed again or copied. Tokens keep their
        indices and positions, and num_tokens also counts dropped tokens. Tokens in front of a gap
        are attended to as if they stood directly before the tokens behind the gap. `sink`: if
        keep_first is 0, the first token stays nevertheless; without an attention sink the
        perplexity of SmolLM2 grows by two thirds. `store` keeps the whole history. A prompt finds
        that context if the prompt begins with the whole history.

        Raises InvalidArgumentError (more than there is, keep_first beyond what is attended to,
        ranges), FailedPreconditionError (inside a step, over several contexts), UnsupportedError
        (no RoPE, or a scaling that depends on the length), ResourceExhaustedError (over 64 kept
        pieces, or 1,024 cuts). After an error the session is unchanged.
        """
        self._core.drop_oldest(n, keep_first, [(begin, end) for begin, end in keep], sink)

    def heaviest_tokens(
        self, num_tokens: U64, begin: U64 = 0, end: U64 | None = None
    ) -> list[tuple[int, int]]:
        """Returns the tokens of [begin, end) that the newest queries of all heads attend to most.

        The result is ranges of whole blocks of 16 tokens, together at most `num_tokens` tokens.
        Pass it as `keep` to :meth:`drop_oldest` ([AS] 3.4, selective preservation). Reads all keys
        that the session attends to. Raises InvalidArgumentError, FailedPreconditionError (no
        queries are sampled: ``attndb.open(query_sample=)``), and the errors of attend.
        """
        last = self.num_tokens if end is None else end
        return self._core.heaviest_tokens(begin, last, num_tokens)

    def rebase(self, position: I64) -> None:
        """Tells the session that the engine uses `position` for the next token and counts on.

        The session rotates the engine's q and k to the positions of its own tokens, with angles in
        float64. An engine with float32 angles thus computes none for large positions, where they
        are inexact. A rebase is not stored: a new session begins with its own positions.
        """
        self._core.rebase(position)

    def await_derived(self, layer: U32) -> None:
        """Waits until the planes, indexes and codes that the layer's plan reads are made.

        The call waits for all stored tokens, and for the tail's whole blocks of 4,096 tokens, as
        far as these objects can be made. PQCache (Alg. 1) waits in this way for a layer's codes
        before the second token. `attend` never waits: it reads tokens without such objects exactly.
        """
        self._core.await_derived(layer)

    def awaits_derived(self, layer: U32) -> bool:
        """Whether an engine should call `await_derived` before the layer's next single token.

        True if the layer's plan says ``await=1`` and reads derived objects, and no await_derived
        has run since the last change. Changes are a new plan, a change of the stored tokens, and a
        new whole block of 4,096 tokens in the tail. The first token after a prompt needs no wait.
        False for a layer that the model does not have. The call takes no lock.
        """
        return self._core.awaits_derived(layer)

    def fork(self) -> Session:
        """Returns a second session with the same tokens. Both share the tail until one appends."""
        session = Session(self._core.fork(), self._spec, self._db)
        self._db._adopt(session)
        return session

    def reset(self) -> None:
        """Forgets all tokens, also the stored prefix."""
        self._core.reset()

    # Plans.

    def set_plan(self, plan: str) -> None:
        """Sets the plan (docs/plan.md) of later calls.

        Raises InvalidArgumentError, which names the column of the fault.
        """
        self._core.set_plan(plan)

    @overload
    def explain(self) -> Explain: ...
    @overload
    def explain(self, layer: U32) -> LayerExplain: ...
    def explain(self, layer: U32 | None = None) -> Explain | LayerExplain:
        """Returns the plan, its prediction, and the cost of the last call of each layer, or of
        `layer` only."""
        if layer is not None:
            return _layer_explain(self._core.explain_layer(layer))
        fields = self._core.explain()
        layers = tuple(_layer_explain(row) for row in fields.pop("layers"))
        contexts = tuple(SessionContext(**row) for row in fields.pop("contexts"))
        substitutes = tuple(Substitute(**row) for row in fields.pop("substitutes"))
        return Explain(contexts=contexts, layers=layers, substitutes=substitutes, **fields)

    # Closing, and Python's protocols.

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
    """Attends in one layer for many sessions (continuous batching).

    q and out have the rows of ``sessions[0]``, then of ``sessions[1]``, ...: ``num_rows[i]`` rows
    each. Append k and v of each session before. All threads share the work of the sessions. If a
    list ``errors`` is given, the call fills it with the error of each session, or None. Without
    ``errors``, the call raises the first error; the output of the other sessions is complete.
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
