"""What attndb reports about contexts, sessions, plans and itself: plain values.

Fields are those of include/attndb/stats.h, find.h and tiers.h; times are aware datetimes, sizes
bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta, timezone
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attndb._spec import DType

_SEVERAL = ("tuple", "dict")  # Types of fields that hold more than one value.


@dataclass(frozen=True)
class CompanionInfo:
    """Something on disk that is derived from a segment: its key planes."""

    kind: str
    file_bytes: int


@dataclass(frozen=True)
class SegmentInfo:
    """One segment of a context's chain."""

    segment_id: int
    num_tokens_used: int  # Tokens of the segment that this context uses.
    num_tokens: int
    file_bytes: int
    num_contexts: int  # Contexts that share the segment.
    # Empty, or why it is quarantined, and how many of its first tokens are sound all the same.
    damage: str
    companions: tuple[CompanionInfo, ...]


@dataclass(frozen=True)
class Cut:
    """A moment at which tokens left a session: Session.drop_oldest."""

    at: int  # Tokens that the session had had by then; those that it had lost count, too.
    dropped: tuple[tuple[int, int], ...]  # What left then: (begin, end), without end.


def cuts_of(rows: list[tuple[int, list[tuple[int, int]]]]) -> tuple[Cut, ...]:
    """Cuts, from what the binding gives."""
    return tuple(Cut(at, tuple(dropped)) for at, dropped in rows)


@dataclass(frozen=True)
class ContextInfo:
    """A stored context."""

    id: int
    name: str  # Empty if unnamed.
    num_tokens: int
    kv_bytes: int  # K and V of its tokens.
    # Bytes of all its segments, shared ones counted in full, of their companions, and of its note.
    file_bytes: int
    own_bytes: int  # Bytes of its note, and of the segments that it alone uses.
    companion_bytes: int  # Bytes of companions, a part of file_bytes.
    derived_bytes: dict[str, int] = field(hash=False)  # companion_bytes, by CompanionInfo.kind.
    num_pending_companions: int  # Segments that lack planes, or an index that was asked for.
    retained_bytes: int  # Bytes in its segments of tokens that no context uses (until compact).
    query_sample_bytes: int
    created: datetime
    last_access: datetime
    ttl: timedelta | None  # Since the last access; None = for ever.
    pinned: bool
    expired: bool  # Its time to live was over when this was read: it is not served.
    damaged: bool  # It needs tokens of a segment that are damaged: it is not served.
    first_position: int
    kv_dtype: DType
    unrotated_keys: bool  # ModelSpec.unrotated_keys.
    fingerprint: bytes
    # ModelSpec.name and path of the last session that stored with the model; "" = not known.
    model_name: str
    model_path: str
    num_layers: int
    rope_scaling: str  # Rope.scaling of its first layer that has one; "" = none.
    non_finite_heads: tuple[str, ...]  # "layer 3 head 1" where K or V has NaN or Inf.
    # When tokens left what was computed (Session.drop_oldest), and which. Filled by describe only.
    cuts: tuple[Cut, ...]
    num_dropped: int  # Tokens that have left, of num_tokens. Filled by describe only.
    segments: tuple[SegmentInfo, ...]  # Oldest first. Filled by describe only.
    # What the text is to a chat template, and whose words its tokens are, as store was told:
    # "document user:3-90"; "" = not known. Filled by describe only.
    text_layout: str = ""
    title: str = ""  # One line for people, as store was told; "" = none.
    # Id of the context whose tokens this one begins with, all of them, and which it went on from.
    continues: int | None = None


def contexts_html(title: str, contexts: Sequence[ContextInfo]) -> str:
    """Contexts as a table of HTML."""
    rows = "".join(
        f"<tr><td>{escape(info.name or f'#{info.id}')}</td><td>{info.num_tokens:,}</td>"
        f"<td>{info.file_bytes / 2**20:,.1f} MiB</td>"
        f"<td>{info.last_access:%Y-%m-%d %H:%M}</td></tr>"
        for info in contexts
    )
    head = "<tr><th>context</th><th>tokens</th><th>size</th><th>used</th></tr>"
    return f"<p>{escape(title)}</p><table>{head}{rows}</table>"


def contexts_frame(contexts: Sequence[ContextInfo]) -> Any:
    """Contexts as a pandas.DataFrame: a row each, of the fields that are one value."""
    try:
        import pandas  # type: ignore[import-untyped, unused-ignore, import-not-found]
    except ImportError:
        raise ImportError("to_pandas needs pandas: pip install pandas", name="pandas") from None
    names = [each.name for each in fields(ContextInfo) if not str(each.type).startswith(_SEVERAL)]
    rows = [{name: getattr(info, name) for name in names} for info in contexts]
    return pandas.DataFrame(rows, columns=names)


@dataclass(frozen=True)
class CriticalTokens:
    """What a search chose for one q head: tokens between sink and window, in no order; none where
    the head reads all."""

    tokens: NDArray[np.uint32]  # [n]
    scores: NDArray[np.float32]  # [n]: q . k, unscaled, exact.


@dataclass(frozen=True)
class Substitute:
    """Something that a plan asks for and that does not run, or not for all tokens: an index that is
    not built, or a query in place of which a rule reads everything."""

    ran: str  # What runs instead, in words of the plan: "index=flat", "full".
    wanted: str  # What the plan asks for: "index=graph", "bits=8", "topk".
    because: str  # Why: "not built", "too few tokens: one segment needs 2,048".
    # For which share of what the calls chose among, tokens times rows times kv heads; in (0, 1].
    share: float
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class HeadExplain:
    """How one kv head of a layer was, or would be, attended to: its physical plan."""

    kv_head: int
    plan: str  # Plan text of the head, with all that `auto` left open settled.
    ran: str  # As LayerExplain.ran.
    reason: str  # What decided that: a rule, or which cost less; empty if it was asked for.
    predicted_selected: float  # Critical tokens per q head; -1 = unknown before a run.
    predicted_bytes: int  # K and V bytes read per row of q.
    predicted_us: float  # Microseconds per row of q, of one thread.
    other_us: float  # Predicted for the alternative that was not taken; -1 = there was none.
    selected_mean: float  # Critical tokens per row and q head, over the session so far.
    # Work of an index that does not score every key. Per row and q head: keys that were scored. Per
    # row, for the whole group: clusters or blocks whose keys were read; reads that waited for
    # another.
    visited_mean: float
    clusters_mean: float
    hops_mean: float
    num_full_scans: int  # Searches of the group that scored every key instead.
    # A draw in two phases serves the whole group: it weighs tokens by codes, reads the keys of some
    # of them, and the values of some of these. Means per row of these three numbers.
    weighed_mean: float
    drawn_keys_mean: float
    drawn_values_mean: float
    # Where an index draws: estimated share of the attention mass in what it never looked at, from
    # blocks that were scored only to check; a mean. -1 = not estimated.
    missed_mass: float
    bytes_touched: int  # K and V bytes that the last attend read.
    time_us: float  # Time of the last attend, summed over threads.
    error: float  # Estimated relative error of the output, a mean; -1 = not estimated.
    mass_left: float  # Estimated share of the attention mass that was not selected; -1 = unknown.
    # Where the plan has exact_fallback: hard upper bounds of mass_left, and of |out - out of full|;
    # means over rows and q heads, where those that fell back count 0. -1 = no bounds.
    mass_bound: float
    out_bound: float
    # Pairs of row and q head that attended to all tokens instead, because their bound or their
    # draw's estimated error was too large, or that scored all tokens exactly, because a mass by
    # estimates might have missed its share; and draws that the group repeated with a larger sample.
    num_fallbacks: int
    num_redraws: int
    # Bounds for the newest row of the last attend, by q head of the group.
    last_mass_bounds: tuple[float, ...]
    last_out_bounds: tuple[float, ...]


@dataclass(frozen=True)
class LayerExplain:
    """How one layer was, or would be, attended to."""

    layer: int
    plan: str  # Canonical plan text of this layer.
    # Plan text of what ran since the plan was set, or before the first call would run: `plan` with
    # all settled, in which a substitute stands for each part that never ran.
    ran: str
    # What of the plan did not run, or not for all tokens. Calls of more than dense_query_tokens
    # rows are exact under every plan, and are not counted. Empty: all ran as planned.
    substitutes: tuple[Substitute, ...]
    reason: str  # Why something else than the plan runs; empty if it does not.
    num_tokens: int  # Visible to the newest token.
    num_middle: int  # Neither sink, nor window, nor tail.
    predicted_selected: float  # Critical tokens per q head; -1 = unknown before a run.
    predicted_bytes: int  # K and V bytes read per token of q.
    predicted_us: float  # Per token of q, all heads, by the threads of the session.
    notes: str  # What the rules found, as partial reuse.
    num_queries: int  # Rows of q over the session so far; zero before the first attend.
    selected_mean: float  # Critical tokens per row and q head.
    candidates_mean: float  # Tokens that estimates chose to be scored exactly, per row and q head.
    bytes_touched: int  # K and V bytes that the last attend read, all heads.
    score_us: float  # Time in the last attend, summed over threads: scoring.
    select_us: float  # Selecting, likewise.
    attend_us: float  # Attending and merging, likewise.
    append_us: float  # Time of the last append.
    heads: tuple[HeadExplain, ...]


@dataclass(frozen=True)
class SessionContext:
    """One of the contexts that a session holds beside others: DB.create_session_over."""

    id: int
    name: str  # Its name, or "#id".
    # Tokens [begin, end) of the session that the context adds to earlier ones; may be empty.
    begin: int
    end: int
    # Index in the context of its token at `begin`; those before it are shared with an earlier
    # context.
    first_token: int


@dataclass(frozen=True)
class Explain:
    """Plan, prediction and what the last call of each layer cost. ``print(it.summary)`` is a few
    lines, ``print(it)`` are tables."""

    plan: str
    num_tokens: int
    num_reused: int
    # Tokens that have left (Session.drop_oldest), and tokens that stay in front of a gap, whose
    # rows are read exactly with q turned for them. Both are among num_tokens.
    num_dropped: int
    num_moved: int
    num_segments: int
    memory_bytes: int
    kv_bytes: int  # K and V of its tokens in all layers: what `full` reads for a row.
    predicted_us: float  # Microseconds of attention of one token in all layers.
    # With auto(tpot=...): the error that the plan keeps, and whether even that exceeds the time
    # that was asked for. 0 and False with other plans.
    tpot_error: float
    unreachable: bool
    contexts: tuple[SessionContext, ...]  # As Session.contexts.
    layers: tuple[LayerExplain, ...]
    # What of the plan did not run, over all layers: those that say the same are one, and its share
    # is that of all layers. The largest share first.
    substitutes: tuple[Substitute, ...]
    summary: str
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class MachineProfile:
    """What a machine takes for the steps of attention: what plans are priced by.

    Nanoseconds of one thread for rows of 128 elements of 16 bits; tuples are for 1, 2, 4 and 8 q
    rows a pass.
    """

    cpu: str
    isa: str
    num_threads: int
    measured: bool  # False: fixed prices, those of no machine.
    one_thread_bytes_per_ns: float  # Memory read by one thread, in GB/s.
    all_threads_bytes_per_ns: float  # Memory read by all threads together, in GB/s.
    attend_ns: tuple[float, ...]  # Attending to K and V of a token.
    score_ns: tuple[float, ...]  # Scoring K of a token.
    scan8_ns: tuple[float, ...]  # Scoring a key by its planes at 8 bits.
    scan4_ns: tuple[float, ...]  # Scoring a key by its planes at 4 bits.
    select_ns: float  # Comparing a token's score, for one q head.
    row_ns: float  # Reading a row at a random place, for one q head.
    hop_ns: float  # Reading a row whose place the read before told.


@dataclass(frozen=True)
class RoomReport:
    """What a store would need that has room: DB.check_room."""

    num_reused: int  # Tokens that are stored already, and need not be run.
    new_bytes: int  # Bytes on disk of what is not, without what is derived from it.
    evicted: tuple[str, ...]  # Contexts that would be evicted for it, by name or "#id".


@dataclass(frozen=True)
class PrefixExplain:
    """Why a prompt's prefix was or was not reused."""

    num_prompt_tokens: int
    num_reused: int  # What create_session would reuse.
    context: str  # From this context: its name, or "#id".
    reasons: tuple[str, ...]  # In words.
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Damage:
    """One finding of verify."""

    segment_id: int
    file: str  # Relative to the store.
    message: str  # Names object, expected and found.
    contexts: tuple[str, ...]  # That can't be served because of it.


@dataclass(frozen=True)
class VerifyReport:
    """What verify read, and what of it is damaged."""

    num_segments: int
    num_bytes: int
    damages: tuple[Damage, ...]

    @property
    def ok(self) -> bool:
        return not self.damages


@dataclass(frozen=True)
class BuildReport:
    """What build found and made, in segments of the context."""

    kind: str  # Kind of the companions, as in CompanionInfo.
    num_built: int  # Built by this call, or by another meanwhile.
    num_present: int  # Present before the call.
    num_too_short: int  # Too short to have one: their keys are read.
    num_missing: int  # Without one still: damaged, or no room on disk.
    file_bytes: int  # Bytes of the companions that are there now.
    seconds: float  # Seconds that the caller waited, for what the background did before, too.


@dataclass(frozen=True)
class Passage:
    """Stored tokens that a question's heads attend to."""

    context: str  # Its name, or "#id".
    context_id: int
    begin: int  # Tokens [begin, end) of the context.
    end: int
    score: float  # An ordinary passage of the same answer has 0.
    head_scores: tuple[float, ...]  # By head of the question, if asked for; their mean is `score`.


@dataclass(frozen=True)
class SkippedContext:
    """What was not looked through, or not to its end."""

    context: str
    reason: str


@dataclass(frozen=True)
class FindResult:
    """What find found, the best first."""

    passages: tuple[Passage, ...]
    skipped: tuple[SkippedContext, ...]
    num_contexts: int  # Contexts that were searched.
    num_tokens: int  # Tokens of these; shared ones count once.
    num_passages: int  # Passages of these; overlapping ones count each.
    key_bytes: int  # Bytes of keys that were read.


@dataclass(frozen=True)
class Stats:
    """Counts and sizes of a store, as one tenant sees it."""

    path: str
    read_only: bool
    format_version: int
    num_contexts: int
    num_segments: int
    num_tokens: int  # Sum over segments: shared ones once.
    file_bytes: int  # Segments of the tenant, their companions, and the notes of contexts.
    num_companions: int
    companion_bytes: int  # A part of file_bytes.
    num_pending_companions: int  # Segments that lack planes, or an index that was asked for.
    quota_bytes: int  # 0 = none.
    # K and V, objects derived from them, and scratch, in memory, for all tenants.
    memory_bytes: int
    memory_limit_bytes: int
    num_sessions: int  # Open in this process, all tenants.
    num_damaged_segments: int
    # Since open.
    num_lookups: int
    num_prompt_tokens: int
    num_reused_tokens: int
    num_stores: int
    num_evictions: int
    evicted: tuple[str, ...]  # Names, or "#ids", of this tenant's evicted contexts: the newest 64.
    bytes_written: int  # Segments that store and import_context sealed.
    bytes_merged: int  # Segments that were written again by merging.
    # In the background since open, all tenants.
    num_companions_built: int
    background_seconds: float


@dataclass(frozen=True)
class SimulatedModel:
    """A model, and the GPUs that serve it, as far as its KV and its times go."""

    name: str
    kv_bytes_per_token: int
    window_tokens: int  # Tokens of a context; the oldest half of a full one is dropped.
    prefill_tokens_per_second: float
    decode_seconds: float  # GPU time of a turn's answer.
    num_gpus: int


@dataclass(frozen=True)
class SimulatedRun:
    """One policy over one memory and disk: means over the seeds, after the warm-up."""

    policy: str
    memory_bytes: int
    disk_bytes: int
    hit_rate: float  # Turns whose KV was kept, of all turns, first ones included.
    hit_deviation: float  # Standard deviation of that over the seeds.
    memory_hit_rate: float
    disk_hit_rate: float  # Fetches that had not ended count here.
    return_hit_rate: float  # Hits of the turns that are not their conversation's first.
    reused_rate: float  # Prompt tokens, history included, that were not computed.
    bound_hit_rate: float  # hit_rate of Belady's rule; -1 = not asked for.
    ttft_seconds: float  # From service to the first token, a mean.
    queue_seconds: float  # Before that, in the queue.
    first_turn_queue_seconds: float  # The same, of first turns.
    queue_length: float  # Jobs that wait, a mean over those that are served.
    turns_per_second: float
    prefill_tokens_per_second: float  # Prompt tokens, reused ones included, by prefill time.
    answer_tokens_per_second: float
    gpu_hours: float  # GPUs times hours in which they had work.
    hours: float  # From the first counted turn to the last one's end.
    disk_write_bytes_per_second: float
    disk_read_bytes_per_second: float
    dollars: float  # GPUs, memory and disk for `hours`.
    storage_dollars: float  # Memory and disk, a part of it.
    dollars_per_thousand_turns: float


@dataclass(frozen=True)
class SimulateReport:
    """What memory and disk buy. ``print(it)`` is a table."""

    model: SimulatedModel
    workload: str  # In words.
    num_conversations: int
    num_turns: int  # One seed's, a mean.
    num_counted: int  # Turns after the warm-up, likewise.
    num_seeds: int
    runs: tuple[SimulatedRun, ...]  # By memory, then disk, then policy, as they were asked for.
    text: str

    def __str__(self) -> str:
        return self.text


def _segment(fields: dict[str, Any]) -> SegmentInfo:
    companions = tuple(CompanionInfo(**row) for row in fields.pop("companions"))
    return SegmentInfo(companions=companions, **fields)


def context_info(fields: dict[str, Any]) -> ContextInfo:
    """A context, from what the binding gives."""
    ttl = fields.pop("ttl_seconds")
    segments = tuple(_segment(row) for row in fields.pop("segments"))
    cuts = cuts_of(fields.pop("cuts"))
    return ContextInfo(
        cuts=cuts,
        created=_datetime(fields.pop("created_us")),
        last_access=_datetime(fields.pop("last_access_us")),
        ttl=None if ttl is None else timedelta(seconds=ttl),
        segments=segments,
        **fields,
    )


def _datetime(us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=us)
