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
    """What create_session gives."""

    session: Session
    rest: NDArray[np.int32]  # The prompt's tokens that are not reused: at least one.


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
    """Opens or creates the store in folder `path`; what a crash left unfinished is removed.

    ``read_only``: beside a writer of another process. ``plan``: of sessions that name none.
    ``query_sample``: rows of q kept per stored key and kv head. ``dense_query_tokens``: an attend
    of more rows than this runs `full`. ``num_threads``: of one attend; 0 = all cores that
    the process may use.
    ``host_memory_bytes``: limit of segment data in memory, e.g. ``"8GiB"``; 0 = three quarters of
    what is free.
    ``background_builds``: planes of what is stored are built by a thread of low priority, and kept
    on disk. ``background_threads``: of one build, all of low priority; 0 = all cores.
    ``measure_machine``: `auto` is priced by what this machine takes; else by fixed prices, so that
    every run decides alike. ``index``: what is built of each segment behind its planes, as in
    plans, e.g. ``"pq"`` or ``"pq,m=4,b=8"``; empty = nothing, until a plan asks for one.
    ``kmeans_iterations``: of product codes and wave indexes; 0 = 8 and 10. ``roar_keys_per_query``,
    ``roar_max_degree``, ``roar_search_window``: N_q, M and L of RoarGraph; 0 = 100, 35 and 500.
    ``max_training_queries``: rows of q that train a graph at most; 0 = two for five of its keys, up
    to 32768; 2**32 - 1 = all that are kept. ``grow_graphs``: graphs of merged segments go on from
    that of the first of these instead of being built anew.
    ``import_segment_tokens``: the length of segments that an import ends with, which stores pieces
    of 4096 tokens first and then merges them; at most 4096: they stay.
    ``custom_indexes``: types of the program's own, by the names that plans have for them.

    Raises BusyError (another process writes), NotFoundError, UnsupportedError (made by a newer
    attndb), CorruptionError (the catalog itself), IoError.
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
    """Made by :func:`attndb.open`; a context manager. Any thread may use it.

    Acknowledged = durable: what store and import_context returned survives a crash. A damaged
    context is quarantined and listed; the others work, those too that share a segment's first
    tokens with it, if these are whole.
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
        """The same store for tenant `name` (1 to 64 of [A-Za-z0-9._-]), which sees nothing of the
        others."""
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
        """A session that reuses the longest stored prefix of `tokens`, exact to the token, that
        leaves at least one token to run: the pair ``(session, rest)``. A list of prompts gives a
        list of pairs.

        ``context``: reuse only this one. ``reuse=False``: start from nothing. ``truncated``: also
        reuse what was computed after tokens had left (:meth:`Session.drop_oldest`), where that is
        longest; the session has lost them, too (:attr:`Session.cuts`). ``first_position``: of token
        0 under RoPE; contexts are reused at equal positions only.

        Raises InvalidArgumentError (empty prompt, bad spec or plan), NotFoundError,
        FailedPreconditionError (the named context: unknown; of another model), CorruptionError.
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
        """A session over whole contexts, one beside the other: questions to a library.

        It holds the tokens of `contexts` in that order and attends to all of them; no key or value
        is copied. Each context keeps the positions at which it was stored, and what is appended
        begins at :attr:`Session.next_position`, behind the longest of them (Parallel Context
        Windows, arXiv:2212.10947). The tokens with which a context begins like an earlier one are
        held once. What is appended saw contexts that never saw each other, so `store` refuses it.
        A single context is continued as by :meth:`create_session`.

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
        """Why create_session would reuse what it would. Touches no access time."""
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
        """Whether a store of these tokens would find room: asked before a model runs them.

        Reckons as ``store`` does with the quota, what is pinned, in use and shared, and the disk.
        Writes and reserves nothing. ``checkpoint_tokens``: tokens after which what was run is
        stored each time; 0 = once, in the end. Raises ResourceExhaustedError.
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
        """Seals the session's tail and makes its tokens a context; durable when it returns.

        ``tokens``: the ids of all tokens that the session holds. Returns the context's id. The
        session goes on upon it with an empty tail. ``replace``: take the name from the context that
        has it, and drop that one. ``drop_base``: drop the unnamed context that the session went on
        from. ``ttl``: since the last use. ``pin``: never evicted. ``text_layout``: ContextInfo's.
        ``title``: one line, 256 bytes at most. ``note``: bytes that :meth:`note` gives back, 16 MiB
        at most. A context that takes the place of its base keeps both unless it is given others.

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
        """:meth:`store` behind the session: the future's result is the context's id.

        What the session holds now will be durable. The session may be used and closed meanwhile; it
        moves to the stored context in its first step after that. ``close`` waits for what was
        submitted. Raises what needs no disk at once; the future raises the rest.
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
        """Stores a KV cache computed elsewhere ([Alaya] DB.import). Returns the context's id.

        ``layers``: ``layers[i] = (k, v)``, each ``[num_tokens, num_kv_heads, head_dim]`` after RoPE
        in the spec's layout, any strides; or a transformers ``DynamicCache`` of batch size 1.
        ``queries``: per layer ``[n, num_q_heads, head_dim]``, q of the last n tokens.

        A list of prompts takes lists of one item a prompt as ``layers``, and, where they are given,
        ``queries`` and ``name``, and gives a list of ids. Prompts are imported in their order: if
        one fails, those before it stay, and the exception names it and them.
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

        ``fingerprint``: instead of the file's. Raises InvalidArgumentError (not such a file; layers
        are missing), CorruptionError (it became shorter while it was read), NotFoundError, and what
        store raises. Nothing is stored then.
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
        """The stored passages that a question's heads attend to most; no context is run again.

        ``heads``: pairs (layer, q head). ``q``: one array a head, ``[num_tokens, head_dim]``, of
        the question's tokens run by themselves, after RoPE; that of row 0 is ``first_position``.
        ``contexts``: look through these only. ``passage_tokens``: an even number. ``head_scores``:
        tell what each head says, too, which is how heads that retrieve are found.

        Raises InvalidArgumentError (heads, q, options), NotFoundError (a named context),
        ResourceExhaustedError (memory). What can't be read is in ``skipped``.
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

    # The rest that a database has.

    def list(self) -> list[ContextInfo]:
        """The tenant's contexts, oldest first."""
        return [context_info(fields) for fields in self._core.list_contexts()]

    def to_pandas(self) -> Any:
        """The contexts as a pandas.DataFrame, a row each. Needs pandas."""
        return contexts_frame(self.list())

    def describe(self, context: Context) -> ContextInfo:
        """One context by name, "#id" or id, with its segments."""
        return context_info(self._core.describe(context_text(context)))

    def tokens(self, context: Context) -> NDArray[np.int32]:
        """The token ids of a context."""
        return np.array(self._core.tokens(context_text(context)), np.int32)

    def note(self, context: Context) -> bytes:
        """The note that a context was stored with; ``b""`` if it has none."""
        return self._core.note(context_text(context))

    def pin(self, context: Context, pinned: bool = True) -> None:
        """A pinned context is never evicted and never expires."""
        self._core.pin(context_text(context), pinned)

    def set_ttl(self, context: Context, ttl: Ttl) -> None:
        """Time to live since the last access: seconds, timedelta or ``"7d"``; None = for ever."""
        self._core.set_ttl(context_text(context), seconds_of(ttl))

    def rename(self, context: Context, name: str) -> None:
        """Calls a context otherwise; sessions upon it go on. Raises AlreadyExistsError."""
        self._core.rename(context_text(context), name)

    def drop(self, context: Context) -> None:
        """Deletes a context; sessions upon it go on."""
        self._core.drop(context_text(context))

    def set_quota(self, num_bytes: Size) -> None:
        """Limit of the tenant's bytes on disk, e.g. ``"20GiB"``; 0 = none. Store evicts what was
        used longest ago."""
        self._core.set_quota(bytes_of("num_bytes", num_bytes))

    def declare_equal(self, fingerprint_a: bytes, fingerprint_b: bytes) -> None:
        """KV of one fingerprint may be used for the other, of this tenant's contexts."""
        self._core.declare_equal(fingerprint_a, fingerprint_b)

    def revoke_equal(self, fingerprint_a: bytes, fingerprint_b: bytes) -> None:
        """Takes declare_equal back. What was stored meanwhile stays. Raises NotFoundError."""
        self._core.revoke_equal(fingerprint_a, fingerprint_b)

    def verify(
        self,
        context: Context | None = None,
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> VerifyReport:
        """Reads and checks every byte. Damage is in the report, and quarantined; not an error.

        ``progress(bytes_done, bytes_total)``, after each segment; False cancels.
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

        ``context``: only its chain; None: those of all.
        ``segment_tokens``: the length that segments should have. Neighbours that are shorter, and
        that the same contexts use, are merged into segments of at most so many tokens. Planes
        and indexes are built for each, and a search asks each of them. 0: those below 2048 are
        merged, into any length. Open sessions keep the segments that they have; planes and indexes
        are built again in the background.
        ``progress(bytes_done, bytes_total)``, as layers are copied; False cancels and raises
        CancelledError. It must not call the store, whose other writers wait.
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
        """Builds an index of each of the context's segments that has none, and waits.

        Else the first call of a plan that names one starts that. ``index``: as in plans,
        ``"clustered"``, ``"graph"``, ``"quest"``, ``"infllm"``, ``"wave"``, ``"pq"``,
        ``"pq,m=4,b=8"`` or ``"roargraph,graphs=head"``; ``"static=prefill"``, what plans with
        that read; or ``"planes"``, which every segment gets by itself. ``m`` and ``b`` are those
        of ``"pq"``: ``index="pq", m=4, b=8`` is ``"pq,m=4,b=8"``.
        ``progress(bytes_done, bytes_total)``, as work goes on; False waits no longer and raises
        CancelledError.
        """
        settings = "".join(f",{key}={n}" for key, n in (("m", m), ("b", b)) if n is not None)
        return BuildReport(**self._core.build(context_text(context), index + settings, progress))

    def wait_for_background(
        self, *, progress: Callable[[int, int], object] | None = None
    ) -> None:
        """Returns when the planes of all that was stored are on disk. Nothing depends on it.

        ``progress(bytes_done, bytes_total)``, as work goes on; False waits no longer and raises
        CancelledError.
        """
        self._core.wait_for_background(progress)

    def machine(self, measure: bool = False) -> MachineProfile:
        """What this machine takes, as the store knows it; with `measure`, measured now if it does
        not (a few hundred milliseconds)."""
        return MachineProfile(**self._core.machine(measure))

    def stats(self) -> Stats:
        return Stats(**self._core.stats())

    def check_place(self) -> None:
        """Raises IoError unless the store's files are where they were opened."""
        self._core.check_place()

    # Life.

    def close(self) -> None:
        """Closes this handle; the one of attndb.open closes its sessions and tenants' handles too,
        so that the store is free for another writer when it returns."""
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
        """How many contexts the tenant has."""
        return self.stats().num_contexts

    def __bool__(self) -> bool:
        return True  # A store without contexts is one all the same.

    def __contains__(self, context: object) -> bool:
        """Whether there is such a context, by name, "#id" or id."""
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
