"""Reports about contexts, sessions, plans and the store: plain values.

The fields are those of include/attndb/stats.h, find.h and tiers.h. Times are datetimes with a time
zone, and sizes are bytes.
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
    """A file on disk that is derived from a segment: planes or an index."""

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
    # Empty, or the reason of the quarantine and the number of first tokens that are still sound.
    damage: str
    companions: tuple[CompanionInfo, ...]


@dataclass(frozen=True)
class Cut:
    """A moment at which a session dropped tokens: Session.drop_oldest."""

    at: int  # Tokens of the session at that moment; tokens that had left before count, too.
    dropped: tuple[tuple[int, int], ...]  # Ranges that left then: (begin, end), without end.


def cuts_of(rows: list[tuple[int, list[tuple[int, int]]]]) -> tuple[Cut, ...]:
    """Makes Cuts of the binding's rows."""
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
    num_pending_companions: int  # Segments that lack planes, or the index that `open` names.
    retained_bytes: int  # Bytes of tokens in its segments that no context uses (until compact).
    query_sample_bytes: int
    created: datetime
    last_access: datetime
    ttl: timedelta | None  # Since the last access; None = for ever.
    pinned: bool
    expired: bool  # The time to live had ended at the time of the read. It is not served.
    damaged: bool  # The context needs damaged tokens of a segment. It is not served.
    first_position: int
    kv_dtype: DType
    unrotated_keys: bool  # ModelSpec.unrotated_keys.
    fingerprint: bytes
    # ModelSpec.name and path of the tenant's last session that stored with the model; "" = unknown.
    model_name: str
    model_path: str
    num_layers: int
    rope_scaling: str  # Rope.scaling of its first layer that has one; "" = none.
    non_finite_heads: tuple[str, ...]  # "layer 3 head 1" where K or V has NaN or Inf.
    # The cuts of the context (Session.drop_oldest). Filled by describe only.
    cuts: tuple[Cut, ...]
    num_dropped: int  # How many of num_tokens the cuts dropped. Filled by describe only.
    segments: tuple[SegmentInfo, ...]  # Oldest first. Filled by describe only.
    # The role of the text in a chat template, and the author of each token range, as given to
    # store: "document user:3-90"; "" = unknown. Filled by describe only.
    text_layout: str = ""
    title: str = ""  # One line for people, as given to store; "" = none.
    # Id of the context that this one continues: this one begins with all tokens of that context.
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
    """Contexts as a pandas.DataFrame: one row per context, without fields of several values."""
    try:
        import pandas  # type: ignore[import-untyped, unused-ignore, import-not-found]
    except ImportError:
        raise ImportError("to_pandas needs pandas: pip install pandas", name="pandas") from None
    names = [each.name for each in fields(ContextInfo) if not str(each.type).startswith(_SEVERAL)]
    rows = [{name: getattr(info, name) for name in names} for info in contexts]
    return pandas.DataFrame(rows, columns=names)


@dataclass(frozen=True)
class CriticalTokens:
    """The tokens between sink and window that a search selected for one q head, in no order. Empty
    if the head attends to all tokens."""

    tokens: NDArray[np.uint32]  # [n]
    scores: NDArray[np.float32]  # [n]: q . k, unscaled, exact.


@dataclass(frozen=True)
class Substitute:
    """A part of the plan that did not run, or not for all tokens. Examples: an index that is not
    built, or a query that a rule replaced by reading everything."""

    ran: str  # The part that ran instead, in words of the plan: "index=flat", "full".
    wanted: str  # The part that the plan asks for: "index=graph", "bits=8", "topk".
    because: str  # The reason: "not built", "too few tokens: one segment needs 2,048".
    # Share of the calls' choices that it concerns (tokens times rows times kv heads); in (0, 1].
    share: float
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class HeadExplain:
    """The physical plan of one kv head of a layer."""

    kv_head: int
    plan: str  # Plan text of the head; all values that `auto` leaves open are settled.
    ran: str  # See LayerExplain.ran.
    reason: str  # The rule or the costs that decided; empty if the plan asked for it.
    predicted_selected: float  # Critical tokens per q head; -1 = unknown before a run.
    predicted_bytes: int  # K and V bytes read per row of q.
    predicted_us: float  # Microseconds per row of q, of one thread.
    other_us: float  # Predicted for the rejected alternative; -1 = there was none.
    selected_mean: float  # Critical tokens per row and q head, over the session so far.
    # Work of an index that does not score every key. visited_mean: keys that were scored, per row
    # and q head. For the whole group, per row: clusters or blocks whose keys were read
    # (clusters_mean), and reads that waited for another read (hops_mean).
    visited_mean: float
    clusters_mean: float
    hops_mean: float
    num_full_scans: int  # Searches of the group that scored every key instead.
    # A draw in two phases serves the whole group. It weighs tokens by codes, reads the keys of some
    # of these, and reads the values of some of the latter. The three numbers are means per row.
    weighed_mean: float
    drawn_keys_mean: float
    drawn_values_mean: float
    # If an index draws: estimated share of the attention mass in blocks that it never looked at,
    # from blocks that were scored only to check; a mean. -1 = not estimated.
    missed_mass: float
    bytes_touched: int  # K and V bytes that the last attend read.
    time_us: float  # Time of the last attend, summed over threads.
    error: float  # Estimated relative error of the output, a mean; -1 = not estimated.
    mass_left: float  # Estimated share of the attention mass that was not selected; -1 = unknown.
    # If the plan has exact_fallback: hard upper bounds of mass_left, and of |out - out of full|.
    # Means over rows and q heads; those that fell back count 0. -1 = no bounds.
    mass_bound: float
    out_bound: float
    # num_fallbacks counts pairs of row and q head that attended to all tokens, because their bound
    # or their draw's estimated error was too large. It also counts pairs that scored all tokens
    # exactly, because a mass by estimates might have missed its share. num_redraws counts draws
    # that the group repeated with a larger sample.
    num_fallbacks: int
    num_redraws: int
    # Bounds for the newest row of the last attend, by q head of the group.
    last_mass_bounds: tuple[float, ...]
    last_out_bounds: tuple[float, ...]


@dataclass(frozen=True)
class LayerExplain:
    """The physical plan of one layer."""

    layer: int
    plan: str  # Canonical plan text of this layer.
    # Plan text of the parts that ran since the plan was set; before the first call, of the parts
    # that would run. It is `plan` with all values settled; a substitute stands for each part that
    # never ran.
    ran: str
    # The parts of the plan that did not run, or not for all tokens. Empty: all ran as planned.
    # Calls of more than dense_query_tokens rows are exact under every plan, and are not counted.
    substitutes: tuple[Substitute, ...]
    reason: str  # Why another plan runs than the one asked for; empty if the plan runs.
    num_tokens: int  # Visible to the newest token.
    num_middle: int  # Neither sink nor window, nor in an exact tail.
    predicted_selected: float  # Critical tokens per q head; -1 = unknown before a run.
    predicted_bytes: int  # K and V bytes read per token of q.
    predicted_us: float  # Per token of q, all heads, by the threads of the session.
    notes: str  # Findings of the rules, such as partial reuse.
    num_queries: int  # Rows of q over the session so far; zero before the first attend.
    selected_mean: float  # Critical tokens per row and q head.
    candidates_mean: float  # Tokens that estimates chose to be scored exactly, per row and q head.
    bytes_touched: int  # K and V bytes that the last attend read, all heads.
    score_us: float  # Time in the last attend, summed over threads: scoring.
    select_us: float  # Selecting, in the same unit.
    attend_us: float  # Attending and merging, in the same unit.
    append_us: float  # Time of the last append.
    heads: tuple[HeadExplain, ...]


@dataclass(frozen=True)
class SessionContext:
    """One of several contexts in a session: DB.create_session_over."""

    id: int
    name: str  # Its name, or "#id".
    # Tokens [begin, end) of the session that the context adds to earlier ones; may be empty.
    begin: int
    end: int
    # Index in the context of the token at `begin`. The session shares earlier tokens with an
    # earlier context.
    first_token: int


@dataclass(frozen=True)
class Explain:
    """The plan, its prediction, and the cost of each layer's last call.

    ``print(explain.summary)`` prints a few lines, ``print(explain)`` prints tables."""

    plan: str
    num_tokens: int
    num_reused: int
    # num_dropped counts tokens that have left (Session.drop_oldest). num_moved counts tokens that
    # stay in front of a gap; their rows are read exactly, with q rotated for them. num_tokens
    # includes both.
    num_dropped: int
    num_moved: int
    num_segments: int
    memory_bytes: int
    kv_bytes: int  # K and V of its tokens in all layers: the bytes that `full` reads per row.
    predicted_us: float  # Microseconds of attention of one token in all layers.
    # With auto(tpot=...): the error that the plan keeps, and whether even that takes longer than
    # the given time. 0 and False with other plans.
    tpot_error: float
    unreachable: bool
    contexts: tuple[SessionContext, ...]  # See Session.contexts.
    layers: tuple[LayerExplain, ...]
    # The parts of the plan that did not run, over all layers. Equal substitutes of several layers
    # are one, with the share of all layers. The largest share comes first.
    substitutes: tuple[Substitute, ...]
    summary: str
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class MachineProfile:
    """The times of this machine that plans are priced by.

    Unit: nanoseconds of one thread for rows of 128 elements of 16 bits. Tuples have one entry each
    for 1, 2, 4 and 8 q rows in one pass.
    """

    cpu: str
    isa: str
    num_threads: int
    measured: bool  # False: fixed prices, which belong to no machine.
    one_thread_bytes_per_ns: float  # Memory read by one thread, in GB/s.
    all_threads_bytes_per_ns: float  # Memory read by all threads together, in GB/s.
    attend_ns: tuple[float, ...]  # Attending to K and V of a token.
    score_ns: tuple[float, ...]  # Scoring K of a token.
    scan8_ns: tuple[float, ...]  # Scoring a key by its planes at 8 bits.
    scan4_ns: tuple[float, ...]  # Scoring a key by its planes at 4 bits.
    select_ns: float  # Comparing a token's score, for one q head.
    row_ns: float  # Reading a row at a random place, for one q head.
    hop_ns: float  # Reading a row whose place the previous read gave.


@dataclass(frozen=True)
class RoomReport:
    """The needs of a store that has room: DB.check_room."""

    num_reused: int  # Tokens that are stored already and need not be run.
    new_bytes: int  # Bytes on disk of the other tokens, without derived objects.
    # Contexts that would be evicted, by name or "#id", the longest unused first.
    evicted: tuple[str, ...]


@dataclass(frozen=True)
class PrefixExplain:
    """Why a prompt's prefix was or was not reused."""

    num_prompt_tokens: int
    num_reused: int  # Tokens that create_session would reuse.
    context: str  # The context that they would be reused from: its name, or "#id".
    reasons: tuple[str, ...]  # In words.
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Damage:
    """One finding of verify."""

    segment_id: int
    file: str  # Path relative to the store.
    message: str  # Names the object, what was expected and what was found.
    contexts: tuple[str, ...]  # Contexts that the damage makes unusable.


@dataclass(frozen=True)
class VerifyReport:
    """How much verify read, and which damage it found."""

    num_segments: int
    num_bytes: int
    damages: tuple[Damage, ...]

    @property
    def ok(self) -> bool:
        return not self.damages


@dataclass(frozen=True)
class BuildReport:
    """The result of DB.build, counted in segments of the context."""

    kind: str  # Kind of the companions, as in CompanionInfo.
    num_built: int  # Built by this call, or meanwhile by another call.
    num_present: int  # Present before the call.
    num_too_short: int  # Too short to have one: their keys are read instead.
    num_missing: int  # Still without one: damaged, or no room on disk.
    file_bytes: int  # Bytes of the companions that exist now.
    # Seconds that the caller waited: for these builds and for earlier background work.
    seconds: float


@dataclass(frozen=True)
class Passage:
    """Stored tokens that a question's heads attend to."""

    context: str  # Its name, or "#id".
    context_id: int
    begin: int  # Tokens [begin, end) of the context.
    end: int
    score: float  # An ordinary passage has 0; compare scores of one answer only.
    head_scores: tuple[float, ...]  # By head of the question, if asked for; their mean is `score`.


@dataclass(frozen=True)
class SkippedContext:
    """A context that find did not search, or not to its end."""

    context: str
    reason: str


@dataclass(frozen=True)
class FindResult:
    """The result of DB.find."""

    passages: tuple[Passage, ...]  # Best first.
    skipped: tuple[SkippedContext, ...]
    num_contexts: int  # Contexts that were searched.
    num_tokens: int  # Tokens of the searched contexts; shared tokens count once.
    num_passages: int  # Passages of the searched contexts; overlapping passages count each.
    key_bytes: int  # Bytes of keys that were read.


@dataclass(frozen=True)
class Stats:
    """Counts and sizes of a store, as one tenant sees it."""

    path: str
    read_only: bool
    format_version: int
    num_contexts: int
    num_segments: int
    num_tokens: int  # Sum over segments: shared ones count once.
    file_bytes: int  # Segments of the tenant, their companions, and the notes of contexts.
    num_companions: int
    companion_bytes: int  # A part of file_bytes.
    num_pending_companions: int  # Segments that lack planes, or the index that `open` names.
    quota_bytes: int  # 0 = none.
    # Bytes in memory for all tenants: K and V, derived objects, sampled q, and scratch. 0 for
    # handles of tenants.
    memory_bytes: int
    memory_limit_bytes: int
    num_sessions: int  # Sessions open in this process.
    num_damaged_segments: int
    # Counted since the store was opened. The handle of attndb.open counts all tenants.
    num_lookups: int
    num_prompt_tokens: int
    num_reused_tokens: int
    num_stores: int
    num_evictions: int
    evicted: tuple[str, ...]  # Names or "#id" of this tenant's evicted contexts: the newest 64.
    bytes_written: int  # Segments that store and import_context sealed.
    bytes_merged: int  # Segments that merges wrote again.
    num_companions_built: int  # By background work.
    background_seconds: float  # For all tenants. 0 for handles of tenants.


@dataclass(frozen=True)
class SimulatedModel:
    """The size of a model's KV, and the times of the GPUs that serve the model."""

    name: str
    kv_bytes_per_token: int
    window_tokens: int  # Tokens that a context holds; a full context drops its oldest half.
    prefill_tokens_per_second: float
    decode_seconds: float  # GPU time of a turn's answer.
    num_gpus: int


@dataclass(frozen=True)
class SimulatedRun:
    """One policy with one size of memory and disk: means over the seeds, after the warm-up."""

    policy: str
    memory_bytes: int
    disk_bytes: int
    hit_rate: float  # Share of all turns whose KV was kept; first turns count, too.
    hit_deviation: float  # Standard deviation of hit_rate over the seeds.
    memory_hit_rate: float
    disk_hit_rate: float  # Unfinished fetches from disk count here.
    return_hit_rate: float  # Hit rate without the first turns of conversations.
    reused_rate: float  # Share of prompt tokens, history included, that were not computed.
    bound_hit_rate: float  # hit_rate of Belady's rule; -1 = not asked for.
    ttft_seconds: float  # Mean time from the start of service to the first token.
    queue_seconds: float  # Mean time in the queue before that.
    first_turn_queue_seconds: float  # Mean time in the queue of first turns.
    queue_length: float  # Jobs that wait, a mean over the served jobs.
    turns_per_second: float
    prefill_tokens_per_second: float  # Prompt tokens, reused ones included, by prefill time.
    answer_tokens_per_second: float
    gpu_hours: float  # GPUs times hours in which they had work.
    hours: float  # From the first counted turn to the end of the last turn.
    disk_write_bytes_per_second: float
    disk_read_bytes_per_second: float
    dollars: float  # GPUs, memory and disk for `hours`.
    storage_dollars: float  # Memory and disk, a part of `dollars`.
    dollars_per_thousand_turns: float


@dataclass(frozen=True)
class SimulateReport:
    """The effect of memory and disk sizes on hits, times and cost. ``print(report)`` is a table."""

    model: SimulatedModel
    workload: str  # In words.
    num_conversations: int
    num_turns: int  # Turns of one seed, a mean.
    num_counted: int  # Turns of one seed after the warm-up, a mean.
    num_seeds: int
    runs: tuple[SimulatedRun, ...]  # By memory, then disk, then policy, in the given orders.
    text: str

    def __str__(self) -> str:
        return self.text


def _segment(fields: dict[str, Any]) -> SegmentInfo:
    companions = tuple(CompanionInfo(**row) for row in fields.pop("companions"))
    return SegmentInfo(companions=companions, **fields)


def context_info(fields: dict[str, Any]) -> ContextInfo:
    """Makes a ContextInfo of the binding's fields."""
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
