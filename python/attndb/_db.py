"""A store of contexts: token sequences with the keys and values that a model made of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from attndb import _core
from attndb._arrays import Array, Tokens, token_ids
from attndb._checked import I64, U32, U64, Head, Path, checked, found
from attndb._context import Context, context_text
from attndb._custom import CustomIndex, custom_types
from attndb._errors import Error, InvalidArgumentError, NotFoundError
from attndb._family import Family, close_at_exit
from attndb._prompts import failed_import, is_list_of_prompts, layer_pairs, one_a_prompt
from attndb._results import (
    BuildReport,
    ContextInfo,
    Damage,
    FindResult,
    MachineProfile,
    Passage,
    PrefixExplain,
    RoomReport,
    SkippedContext,
    Stats,
    VerifyReport,
    context_info,
    contexts_frame,
    contexts_html,
)
from attndb._session import Session
from attndb._spec import ModelSpec
from attndb._units import Size, Ttl, bytes_of, seconds_of


class SessionStart(NamedTuple):
    """A new session, and the tokens that the model has to run in it."""

    session: Session
    rest: NDArray[np.int32]  # The tokens of the prompt that are not reused: at least one.


@checked
def open(  # noqa: A001: the name that users look for, as in gzip.open.
    path: Path,
    *,
    read_only: bool = False,
    create_if_missing: bool = True,
    plan: str = "full",
    query_sample: float = 0.1,
    dense_query_tokens: U32 = 64,
    num_threads: U32 = 0,
    host_memory_bytes: Size = 0,
    background_builds: bool = True,
    background_threads: U32 = 1,
    measure_machine: bool = True,
    index: str = "",
    kmeans_iterations: U32 = 0,
    roar_keys_per_query: U32 = 0,
    roar_max_degree: U32 = 0,
    roar_search_window: U32 = 0,
    max_training_queries: U32 = 0,
    grow_graphs: bool = False,
    import_segment_tokens: U64 = 65536,
    custom_indexes: Mapping[str, CustomIndex] | None = None,
) -> DB:
    """Opens or creates the store in folder `path`, and removes the remains of a crash.

    ``read_only``: opens beside a writer of another process. ``plan``: for sessions that name none.
    ``query_sample``: rows of q kept per stored key and kv head. ``dense_query_tokens``: an attend
    of more rows runs `full`. ``num_threads``: threads of one attend; 0 = all usable cores.
    ``host_memory_bytes``: limit for K, V, sampled q, derived objects and scratch in memory, e.g.
    ``"8GiB"``; 0 = three quarters of the free memory. ``background_builds``: a thread of low
    priority builds the planes of stored segments and keeps them on disk. ``background_threads``:
    threads of one build, all of low priority; 0 = all cores.
    ``measure_machine``: `auto` prices plans by times of this machine. False: it uses fixed prices,
    so that every run decides alike. ``index``: the index that is built for each segment after its
    planes, named as in plans, e.g. ``"pq,m=4,b=8"``; empty = none until a plan names one.
    ``kmeans_iterations``: for product codes and wave indexes; 0 = 8 and 10.
    ``roar_keys_per_query``, ``roar_max_degree``, ``roar_search_window``: N_q, M and L of RoarGraph;
    0 = 100, 35 and 500. ``max_training_queries``: at most this many rows of q train one graph; 0 =
    two per five keys, up to 32768; 2**32 - 1 = all rows that are kept. ``grow_graphs``: the graph
    of a merged segment grows from the graph of the first segment that it replaces.
    ``import_segment_tokens``: length of the segments that an import leaves. An import stores pieces
    of 4096 tokens and merges them at its end; at most 4096: the pieces stay.
    ``custom_indexes``: the program's own types, by the names that plans use for them.

    Raises BusyError (another process writes), NotFoundError, UnsupportedError (made by a newer
    attndb), CorruptionError (the catalog itself), InvalidArgumentError, IoError.
    """
    core = _core.DB.open(
        os.fsencode(path),
        read_only=read_only,
        create_if_missing=create_if_missing,
        plan=plan,
        query_sample=query_sample,
        dense_query_tokens=dense_query_tokens,
        num_threads=num_threads,
        host_memory_bytes=bytes_of("host_memory_bytes", host_memory_bytes),
        background_builds=background_builds,
        background_threads=background_threads,
        measure_machine=measure_machine,
        index=index,
        kmeans_iterations=kmeans_iterations,
        roar_keys_per_query=roar_keys_per_query,
        roar_max_degree=roar_max_degree,
        roar_search_window=roar_search_window,
        max_training_queries=max_training_queries,
        grow_graphs=grow_graphs,
        import_segment_tokens=import_segment_tokens,
        custom_indexes=custom_types(custom_indexes or {}),
    )
    db = DB(core, Family(), path)
    if custom_indexes:
        close_at_exit(db)
    return db


@checked
class DB:
    """An open store, made by :func:`attndb.open`; a context manager. Any thread may use a DB.

    Acknowledged = durable: a context survives a crash once store or import_context has returned.
    A damaged context is quarantined and listed. Other contexts work, also those that share only
    sound pages of a damaged segment.
    """

    __slots__ = ("_core", "_family", "_is_root", "_path", "__weakref__")

    def __init__(self, core: _core.DB, family: Family, path: Path, is_root: bool = True) -> None:
        self._core = core
        self._family = family
        self._path = os.fsdecode(path)
        self._is_root = is_root
        if not is_root:
            family.members.add(self)

    def for_tenant(self, name: str) -> DB:
        """Returns a handle of the same store for tenant `name`: 1 to 64 of [A-Za-z0-9._-]. The
        handle sees no context of other tenants."""
        return DB(self._core.for_tenant(name), self._family, self._path, is_root=False)

    @property
    def tenant(self) -> str:
        return self._core.tenant

    # Sessions.

    @overload
    def create_session(
        self,
        spec: ModelSpec,
        tokens: list[list[int]] | list[NDArray[np.integer[Any]]],
        *,
        context: Context | None = ...,
        reuse: bool = ...,
        truncated: bool = ...,
        plan: str | None = ...,
        first_position: int = ...,
    ) -> list[SessionStart]: ...
    @overload
    def create_session(
        self,
        spec: ModelSpec,
        tokens: Tokens,
        *,
        context: Context | None = ...,
        reuse: bool = ...,
        truncated: bool = ...,
        plan: str | None = ...,
        first_position: int = ...,
    ) -> SessionStart: ...
    def create_session(
        self,
        spec: ModelSpec,
        tokens: Any,
        *,
        context: Context | None = None,
        reuse: bool = True,
        truncated: bool = True,
        plan: str | None = None,
        first_position: I64 = 0,
    ) -> SessionStart | list[SessionStart]:
        """Creates a session that reuses the longest stored prefix of `tokens`, exact to the token.

        Returns the pair ``(session, rest)``: the model runs `rest`, which has at least one token. A
        list of prompts gives a list of pairs. ``context``: reuse only this one. ``reuse=False``:
        start from nothing. ``truncated``: also reuse tokens that were computed after
        :meth:`Session.drop_oldest`, if that prefix is the longest. The session then has the same
        cuts (:attr:`Session.cuts`). ``first_position``: position of token 0 under RoPE; contexts
        are reused at equal positions only.

        Raises InvalidArgumentError (empty prompt, bad spec or plan), CorruptionError, and
        NotFoundError or FailedPreconditionError (`context` is unknown, or of another model).
        """
        options = {
            "context": context_text(context),
            "reuse": reuse,
            "truncated": truncated,
            "plan": plan or "",
            "first_position": first_position,
        }
        if is_list_of_prompts(tokens):
            return [self._start(spec, prompt, options) for prompt in tokens]
        return self._start(spec, tokens, options)

    def _start(self, spec: ModelSpec, tokens: Tokens, options: dict[str, Any]) -> SessionStart:
        ids = token_ids(tokens)
        core = self._core.create_session(spec, ids, **options)
        session = Session(core, spec, self)
        self._adopt(session)
        return SessionStart(session, ids[session.num_reused :].copy())

    def create_session_over(
        self,
        spec: ModelSpec,
        contexts: Sequence[Context],
        *,
        plan: str | None = None,
        first_position: I64 = 0,
    ) -> Session:
        """Creates a session over several whole contexts, for questions to a library.

        The session holds the tokens of `contexts` in that order and attends to all of them. No key
        or value is copied. Each context keeps the positions at which it was stored. New tokens
        begin at :attr:`Session.next_position`, behind the longest context (Parallel Context
        Windows, arXiv:2212.10947). If contexts begin with the same tokens, the session holds these
        tokens once. New tokens see contexts that never saw each other, so `store` refuses such a
        session. A single context is continued as by :meth:`create_session`.

        Raises InvalidArgumentError (no context, or one twice; a bad plan), NotFoundError,
        FailedPreconditionError (a context of another model, or at another position),
        UnsupportedError (several, and a layer has a sliding window), ResourceExhaustedError (more
        tokens than a session holds), CorruptionError.
        """
        names = [context_text(context) for context in contexts]
        core = self._core.create_session_over(
            spec, names, plan=plan or "", first_position=first_position
        )
        session = Session(core, spec, self)
        self._adopt(session)
        return session

    def _adopt(self, session: Session) -> None:
        self._family.members.add(session)

    def explain_prefix(
        self,
        spec: ModelSpec,
        tokens: Tokens,
        *,
        context: Context | None = None,
        reuse: bool = True,
        truncated: bool = True,
        first_position: I64 = 0,
    ) -> PrefixExplain:
        """Tells what create_session would reuse, and why no more. Changes no access time."""
        return PrefixExplain(
            **self._core.explain_prefix(
                spec,
                token_ids(tokens),
                context=context_text(context),
                reuse=reuse,
                truncated=truncated,
                plan="",
                first_position=first_position,
            )
        )

    def check_room(
        self, spec: ModelSpec, tokens: Tokens, *,
        first_position: int = 0, checkpoint_tokens: int = 0,
    ) -> RoomReport:
        """Checks that a store of these tokens would find room, before a model runs the tokens.

        Computes the room as ``store`` does: with the quota, the disk, and the pinned, used and
        shared contexts. Writes and reserves nothing. ``checkpoint_tokens``: the caller stores after
        each this many run tokens; 0 = once, at the end. Raises ResourceExhaustedError.
        """
        places = {"first_position": first_position, "checkpoint_tokens": checkpoint_tokens}
        fields = self._core.check_room(spec, token_ids(tokens), **places)
        return RoomReport(evicted=tuple(fields.pop("evicted")), **fields)

    # Writing.

    def store(
        self,
        session: Session,
        tokens: Tokens,
        *,
        name: str | None = None,
        replace: bool = False,
        drop_base: bool = False,
        ttl: Ttl = None,
        pin: bool = False,
        text_layout: str = "",
        title: str = "",
        note: bytes = b"",
    ) -> int:
        """Makes the session's tokens a context, which is durable when `store` returns its id.

        ``tokens``: the ids of all tokens that the session holds. The session then continues the
        context, with an empty tail. ``replace``: take the name from the context that has it, and
        drop that context. ``drop_base``: drop the unnamed context that the session continued.
        ``ttl``: time to live since the last access. ``pin``: the context is never evicted.
        ``text_layout``: see ContextInfo. ``title``: one line, at most 256 bytes. ``note``: at most
        16 MiB, which :meth:`note` returns. A context that replaces the context that its session
        continued keeps that context's title and note, unless new ones are given.

        Raises InvalidArgumentError (tokens differ in number or from the stored prefix),
        AlreadyExistsError, FailedPreconditionError (inside a step), ResourceExhaustedError (disk
        full, quota), ReadOnlyError, IoError; the session is then unchanged.
        """
        how: dict[str, Any] = {"replace": replace, "drop_base": drop_base, "ttl": seconds_of(ttl)}
        how |= {"pin": pin, "text_layout": text_layout, "title": title, "note": note}
        return self._core.store(session._core, token_ids(tokens), name=name or "", **how)

    def store_async(
        self,
        session: Session,
        tokens: Tokens,
        *,
        name: str | None = None,
        replace: bool = False,
        drop_base: bool = False,
        ttl: Ttl = None,
        pin: bool = False,
        text_layout: str = "",
        title: str = "",
        note: bytes = b"",
    ) -> Future[int]:
        """Does :meth:`store` in the background: the future's result is the context's id.

        Stores the tokens that the session holds now. The session may be used and closed meanwhile.
        It moves to the stored context in its first step after the store has ended. :meth:`close`
        waits for all background stores. Errors that need no disk are raised at once; the future
        raises the others.
        """
        how: dict[str, Any] = {"replace": replace, "drop_base": drop_base, "ttl": seconds_of(ttl)}
        how |= {"pin": pin, "text_layout": text_layout, "title": title, "note": note}
        pending = self._core.store_async(session._core, token_ids(tokens), name=name or "", **how)
        return self._family.submit(pending.wait)

    @overload
    def import_context(
        self,
        spec: ModelSpec,
        tokens: list[list[int]] | list[NDArray[np.integer[Any]]],
        layers: Sequence[Any],
        *,
        queries: Sequence[Sequence[Array] | None] | None = ...,
        name: Sequence[str | None] | None = ...,
        replace: bool = ...,
        ttl: Ttl = ...,
        pin: bool = ...,
    ) -> list[int]: ...
    @overload
    def import_context(
        self,
        spec: ModelSpec,
        tokens: Tokens,
        layers: Any,
        *,
        queries: Sequence[Array] | None = ...,
        name: str | None = ...,
        replace: bool = ...,
        ttl: Ttl = ...,
        pin: bool = ...,
    ) -> int: ...
    def import_context(
        self,
        spec: ModelSpec,
        tokens: Any,
        layers: Any,
        *,
        queries: Sequence[Any] | None = None,
        name: str | Sequence[str | None] | None = None,
        replace: bool = False,
        ttl: Ttl = None,
        pin: bool = False,
    ) -> int | list[int]:
        """Stores a KV cache that was computed elsewhere ([Alaya] DB.import). Returns its id.

        ``layers``: ``layers[i] = (k, v)``, each ``[num_tokens, num_kv_heads, head_dim]`` after RoPE
        in the spec's layout, any strides; or a transformers ``DynamicCache`` of batch size 1.
        ``queries``: per layer ``[n, num_q_heads, head_dim]``, q of the last n tokens.

        With a list of prompts, ``layers`` is a list of one item per prompt, and so are ``queries``
        and ``name`` if they are given; the result is a list of ids. Prompts are imported in order.
        If one fails, earlier prompts stay, and the exception names the prompt and their ids.
        """
        options = {"replace": replace, "ttl": seconds_of(ttl), "pin": pin}
        if is_list_of_prompts(tokens):
            return self._import_all(spec, tokens, layers, queries, name, options)
        if name is not None and not isinstance(name, str):
            raise InvalidArgumentError(f"name: expected text, found {found(name)}")
        return self._import_one(spec, tokens, layers, queries, name, options)

    def _import_one(
        self,
        spec: ModelSpec,
        tokens: Tokens,
        layers: Any,
        queries: Sequence[Array] | None,
        name: str | None,
        options: dict[str, Any],
    ) -> int:
        return self._core.import_context(
            spec,
            token_ids(tokens),
            layer_pairs(layers),
            list(queries) if queries is not None else [],
            name=name or "",
            **options,
        )

    def _import_all(
        self,
        spec: ModelSpec,
        prompts: Sequence[Tokens],
        layers: Any,
        queries: Any,
        names: Any,
        options: dict[str, Any],
    ) -> list[int]:
        none = [None] * len(prompts)
        items = zip(
            prompts,
            one_a_prompt("layers", layers, len(prompts)),
            one_a_prompt("queries", none if queries is None else queries, len(prompts)),
            one_a_prompt("name", none if names is None else names, len(prompts)),
            strict=True,
        )
        contexts: list[int] = []
        for prompt, kv, q, name in items:
            try:
                contexts.append(self._import_one(spec, prompt, kv, q, name, options))
            except (Error, TypeError, ValueError) as error:
                raise type(error)(failed_import(prompt, error, contexts)) from error
        return contexts

    def import_file(
        self,
        path: Path,
        *,
        fingerprint: bytes | None = None,
        name: str | None = None,
        replace: bool = False,
        ttl: Ttl = None,
        pin: bool = False,
    ) -> int:
        """Stores the context of a safetensors file (docs/formats/import.md). Returns its id.

        ``fingerprint``: replaces the file's. Raises InvalidArgumentError (not such a file; layers
        are missing), CorruptionError (the file became shorter while it was read), NotFoundError,
        and the errors of `store`. After an error nothing is stored.
        """
        return _core.import_kv_file(
            self._core,
            os.fsencode(path),
            fingerprint=fingerprint or b"",
            name=name or "",
            replace=replace,
            ttl=seconds_of(ttl),
            pin=pin,
        )

    def export_file(self, context: Context, path: Path) -> None:
        """Writes a context to a new safetensors file: K in RoPE layout "half", no q."""
        _core.export_kv_file(self._core, context_text(context), os.fsencode(path))

    # Finding.

    def find(
        self,
        spec: ModelSpec,
        heads: Sequence[Head],
        q: Sequence[Array],
        *,
        first_position: I64 = 0,
        limit: U32 = 10,
        contexts: Sequence[Context] | None = None,
        passage_tokens: U32 = 64,
        head_scores: bool = False,
    ) -> FindResult:
        """Finds the stored passages that a question's heads attend to most. Runs no context again.

        ``heads``: pairs (layer, q head). ``q``: one array per head, ``[num_tokens, head_dim]``, q
        of the question's tokens after RoPE; the question is run by itself. ``first_position``:
        position of row 0. ``contexts``: search only these. ``passage_tokens``: an even number.
        ``head_scores``: also return each head's score, from which heads that retrieve are found.

        Raises InvalidArgumentError (heads, q, options), NotFoundError (a named context),
        ResourceExhaustedError (memory). ``skipped`` lists contexts that can't be read.
        """
        fields = self._core.find(
            spec,
            [(int(layer), int(head)) for layer, head in heads],
            [rows[:, None, :] if rows.ndim == 2 else rows for rows in q],
            first_position=first_position,
            limit=limit,
            contexts=[context_text(context) for context in contexts or ()],
            passage_tokens=passage_tokens,
            head_scores=head_scores,
        )
        passages = tuple(Passage(**row) for row in fields.pop("passages"))
        skipped = tuple(SkippedContext(**row) for row in fields.pop("skipped"))
        return FindResult(passages=passages, skipped=skipped, **fields)

    # Contexts, upkeep and facts of the store.

    def list(self) -> list[ContextInfo]:
        """The tenant's contexts, oldest first."""
        return [context_info(fields) for fields in self._core.list_contexts()]

    def to_pandas(self) -> Any:
        """The contexts as a pandas.DataFrame, one row per context. Needs pandas."""
        return contexts_frame(self.list())

    def describe(self, context: Context) -> ContextInfo:
        """One context by name, "#id" or id, with its segments."""
        return context_info(self._core.describe(context_text(context)))

    def tokens(self, context: Context) -> NDArray[np.int32]:
        """The token ids of a context."""
        return np.array(self._core.tokens(context_text(context)), np.int32)

    def note(self, context: Context) -> bytes:
        """The note that the context was stored with; ``b""`` if the context has none."""
        return self._core.note(context_text(context))

    def pin(self, context: Context, pinned: bool = True) -> None:
        """Pins a context, so that it is never evicted and never expires; False unpins it."""
        self._core.pin(context_text(context), pinned)

    def set_ttl(self, context: Context, ttl: Ttl) -> None:
        """Time to live since the last access: seconds, timedelta or ``"7d"``; None = for ever."""
        self._core.set_ttl(context_text(context), seconds_of(ttl))

    def rename(self, context: Context, name: str) -> None:
        """Gives a context a new name; its sessions continue. Raises AlreadyExistsError."""
        self._core.rename(context_text(context), name)

    def drop(self, context: Context) -> None:
        """Deletes a context. Sessions that continue the context are not disturbed."""
        self._core.drop(context_text(context))

    def set_quota(self, num_bytes: Size) -> None:
        """Limits the tenant's bytes on disk, e.g. ``"20GiB"``; 0 = no limit. The next store evicts
        the least recently used contexts to stay below the limit."""
        self._core.set_quota(bytes_of("num_bytes", num_bytes))

    def declare_equal(self, fingerprint_a: bytes, fingerprint_b: bytes) -> None:
        """Declares that this tenant's KV of either fingerprint may be used for the other."""
        self._core.declare_equal(fingerprint_a, fingerprint_b)

    def revoke_equal(self, fingerprint_a: bytes, fingerprint_b: bytes) -> None:
        """Takes back declare_equal. Contexts stored meanwhile stay. Raises NotFoundError."""
        self._core.revoke_equal(fingerprint_a, fingerprint_b)

    def verify(
        self,
        context: Context | None = None,
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> VerifyReport:
        """Reads and checks every byte. Damage is no error: it is reported and quarantined.

        ``progress(bytes_done, bytes_total)`` is called after each segment; False cancels.
        """
        fields = self._core.verify(context_text(context), progress)
        damages = tuple(Damage(**row) for row in fields.pop("damages"))
        return VerifyReport(damages=damages, **fields)

    def compact(
        self,
        context: Context | None = None,
        *,
        segment_tokens: U64 = 0,
        progress: Callable[[int, int], object] | None = None,
    ) -> None:
        """Merges chains of small segments, erases tokens that no context uses, expires contexts.

        ``context``: compact only its chain; None = the chains of all contexts.
        ``segment_tokens``: wanted length of segments. Shorter neighbours that the same contexts use
        are merged into segments of at most this length. A search visits each segment, so fewer
        segments take less time. 0: segments below 2048 tokens are merged, into any length. Planes
        and indexes of new segments are built in the background; open sessions then move to the new
        segments. ``progress(bytes_done, bytes_total)`` is called while layers are copied; False
        cancels and raises CancelledError. It must not make calls that wait for a merge, such as
        store, import_context and drop: they raise FailedPreconditionError there.
        """
        name = "" if context is None else context_text(context)
        self._core.compact(name, segment_tokens, progress)

    def build(
        self,
        context: Context,
        index: str,
        *,
        m: int | None = None,
        b: int | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> BuildReport:
        """Builds an index for each of the context's segments that has none, and waits for it.

        Without `build`, the first call of a plan that names the index starts the build. ``index``:
        named as in plans, ``"clustered"``, ``"graph"``, ``"quest"``, ``"infllm"``, ``"wave"``,
        ``"pq"``, ``"pq,m=4,b=8"`` or ``"roargraph,graphs=head"``. ``"static=prefill"`` builds the
        ranking that plans with static tokens read; ``"planes"`` are built for every segment anyway.
        ``m`` and ``b`` are the options of ``"pq"``: ``index="pq", m=4, b=8`` is ``"pq,m=4,b=8"``.
        ``progress(bytes_done, bytes_total)`` is called as work proceeds. False ends the wait and
        raises CancelledError; the builds continue.
        """
        settings = "".join(f",{key}={n}" for key, n in (("m", m), ("b", b)) if n is not None)
        return BuildReport(**self._core.build(context_text(context), index + settings, progress))

    def wait_for_background(
        self, *, progress: Callable[[int, int], object] | None = None
    ) -> None:
        """Waits until the background has no more work: planes of stored segments are on disk.

        Results are right without waiting; until then plans read more. ``progress(bytes_done,
        bytes_total)`` is called as work proceeds; False ends the wait and raises CancelledError.
        """
        self._core.wait_for_background(progress)

    def machine(self, measure: bool = False) -> MachineProfile:
        """Returns the times of this machine by which plans are priced. With `measure`, measures
        them now if the store does not know them yet (a few hundred milliseconds)."""
        return MachineProfile(**self._core.machine(measure))

    def stats(self) -> Stats:
        return Stats(**self._core.stats())

    def check_place(self) -> None:
        """Raises IoError unless the store's files are where they were opened."""
        self._core.check_place()

    # Closing, and Python's protocols.

    def close(self) -> None:
        """Closes this handle. The handle of attndb.open also closes its sessions and its tenants'
        handles, so that another process may write to the store afterwards."""
        if self._is_root:
            self._family.close()
        self._core.close()

    @property
    def closed(self) -> bool:
        return self._core.closed

    def __enter__(self) -> DB:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __len__(self) -> int:
        """The number of the tenant's contexts."""
        return self.stats().num_contexts

    def __bool__(self) -> bool:
        return True  # A store without contexts is true, too, although its length is 0.

    def __contains__(self, context: object) -> bool:
        """Whether the tenant has this context, by name, "#id" or id."""
        try:
            self.describe(context)  # type: ignore[arg-type]
        except (InvalidArgumentError, NotFoundError):
            return False
        return True

    def __copy__(self) -> DB:
        raise InvalidArgumentError("a DB can't be copied: it is one open store; pass it as it is")

    def __deepcopy__(self, memo: object) -> DB:
        return self.__copy__()

    def __reduce__(self) -> str:
        raise InvalidArgumentError("a DB can't be pickled: open its path where it is needed")

    def _repr_html_(self) -> str:
        """The contexts as a table, for notebooks."""
        return contexts_html(repr(self), [] if self.closed else self.list())

    def __repr__(self) -> str:
        state = " closed" if self.closed else f" tenant {self.tenant!r}"
        return f"<attndb.DB {self._path!r}{state}>"
