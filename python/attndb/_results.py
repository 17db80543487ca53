"""What attndb reports about contexts, sessions, plans and itself: plain values.

Fields are those of include/attndb/stats.h; times are aware datetimes, sizes bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from attndb._spec import DType


@dataclass(frozen=True)
class CompanionInfo:
    """Something on disk that is derived from a segment: its key planes."""

    kind: str
    generation: int
    file_bytes: int


@dataclass(frozen=True)
class SegmentInfo:
    """One segment of a context's chain."""

    segment_id: int
    num_tokens_used: int  # Of the segment's tokens, those that this context has.
    num_tokens: int
    file_bytes: int
    num_contexts: int  # That share it.
    damage: str  # Empty, or why it is quarantined.
    companions: tuple[CompanionInfo, ...]


@dataclass(frozen=True)
class ContextInfo:
    """A stored context."""

    id: int
    name: str  # Empty if unnamed.
    num_tokens: int
    kv_bytes: int  # K and V of its tokens.
    file_bytes: int  # Of all its segments, shared ones counted in full; of companions.
    own_bytes: int  # Of the segments that no other context uses.
    companion_bytes: int  # Of file_bytes, those of its segments' companions.
    derived_bytes: dict[str, int] = field(hash=False)  # companion_bytes, by CompanionInfo.kind.
    num_pending_companions: int  # Segments that lack planes, or an index that was asked for.
    retained_bytes: int  # In its segments, of tokens that no context uses (until compact).
    query_sample_bytes: int
    created: datetime
    last_access: datetime
    ttl: timedelta | None  # Since the last access; None = for ever.
    pinned: bool
    damaged: bool  # A segment is quarantined: the context is not served.
    first_position: int
    kv_dtype: DType
    fingerprint: bytes
    num_layers: int
    non_finite_heads: tuple[str, ...]  # "layer 3 head 1" where K or V has NaN or Inf.
    segments: tuple[SegmentInfo, ...]  # Oldest first. Filled by describe only.


@dataclass(frozen=True)
class CriticalTokens:
    """What a search chose for one q head: tokens between sink and window, in no order; none where
    the head reads all."""

    tokens: NDArray[np.uint32]  # [n]
    scores: NDArray[np.float32]  # [n]: q . k, unscaled, exact.


@dataclass(frozen=True)
class HeadExplain:
    """How one kv head of a layer was, or would be, attended to: its physical plan."""

    kv_head: int
    plan: str  # What it runs: plan text, with all that `auto` left open settled.
    reason: str  # What decided that: a rule, or which cost less; empty if it was asked for.
    predicted_selected: float  # Critical tokens per q head; -1 = unknown before a run.
    predicted_bytes: int  # K and V bytes read per row of q.
    predicted_us: float  # Per row of q, of one thread.
    other_us: float  # The same of what was not chosen; -1 = there was no choice.
    selected_mean: float  # Critical tokens per row and q head, over the session so far.
    # Of an index that does not score every key: keys looked at per row and q head; clusters
    # visited, and reads that waited for the one before, per row of the whole group.
    visited_mean: float
    clusters_mean: float
    hops_mean: float
    num_full_scans: int  # Searches of the group that scored every key instead, all in all.
    # Of draws in two phases, per row of the whole group: tokens weighed by codes, those whose keys
    # were drawn, and of these those whose values were.
    weighed_mean: float
    drawn_keys_mean: float
    drawn_values_mean: float
    missed_mass: float  # Of draws by an index: estimated share of the mass left unseen; -1: none.
    bytes_touched: int  # By the last attend.
    time_us: float  # Of the last attend, summed over threads.
    error: float  # Estimated, of the output, in the mean; -1 = not estimated.
    mass_left: float  # Estimated share of the mass that was not chosen; -1 = unknown.
    mass_bound: float  # Hard bound of that share, in the mean; -1: the plan has no exact_fallback.
    out_bound: float  # Hard bound of the norm of what the output is off by, in the mean; -1 too.
    # Rows and q heads that attended to all tokens instead, because their bound (0 then) or the
    # error of their draw was too large; and how often the group drew again, for a larger sample.
    num_fallbacks: int
    num_redraws: int
    last_mass_bounds: tuple[float, ...]  # Of the last attend's newest row, by q head of the group.
    last_out_bounds: tuple[float, ...]


@dataclass(frozen=True)
class LayerExplain:
    """How one layer was, or would be, attended to."""

    layer: int
    plan: str  # Canonical plan text of this layer.
    reason: str  # Why something else than the plan runs; empty if it does not.
    num_tokens: int  # Visible to the newest token.
    num_middle: int  # Neither sink, nor window, nor tail.
    predicted_selected: float  # Critical tokens per q head; -1 = unknown before a run.
    predicted_bytes: int  # K and V bytes read per token of q.
    predicted_us: float  # Per token of q, all heads, by the threads of the session.
    notes: str  # What the rules found, as partial reuse.
    num_queries: int  # Rows of q over the session so far; zero before the first attend.
    selected_mean: float  # Critical tokens per row and q head.
    candidates_mean: float  # Tokens that estimates brought up to be scored exactly; same unit.
    bytes_touched: int  # By the last attend, all heads.
    score_us: float  # Last attend, summed over threads: scoring,
    select_us: float  # ... choosing,
    attend_us: float  # ... attending and merging,
    append_us: float  # ... and the last append.
    heads: tuple[HeadExplain, ...]


@dataclass(frozen=True)
class SessionContext:
    """One of the contexts that a session holds beside others: DB.create_session_over."""

    id: int
    name: str  # Or "#id".
    begin: int  # Tokens [begin, end) of the session: what it adds to the contexts before it.
    end: int
    first_token: int  # Of the context, at `begin`; those before it are an earlier one's, too.


@dataclass(frozen=True)
class Explain:
    """Plan, prediction and what the last call of each layer cost. ``print(it)`` is a table."""

    plan: str
    num_tokens: int
    num_reused: int
    num_segments: int
    memory_bytes: int
    predicted_us: float  # Attention of one token in all layers.
    tpot_error: float  # Of auto(tpot=...): the error that is kept; 0 = no such plan.
    unreachable: bool  # The time can't be met, whatever the error.
    contexts: tuple[SessionContext, ...]  # As Session.contexts.
    layers: tuple[LayerExplain, ...]
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
    measured: bool  # False: fixed prices, not of this machine.
    one_thread_bytes_per_ns: float  # Streamed from memory, GB/s,
    all_threads_bytes_per_ns: float  # ... by all threads together.
    attend_ns: tuple[float, ...]  # K and V of a token.
    score_ns: tuple[float, ...]  # K of a token.
    scan8_ns: tuple[float, ...]  # A key of the planes, at 8 bits,
    scan4_ns: tuple[float, ...]  # ... and at 4.
    select_ns: float  # A token that one q head compares.
    row_ns: float  # A row here and there, for one q head.
    hop_ns: float  # A read that waits for the one before.


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

    kind: str  # Of the companions, as describe names them.
    num_built: int  # By this call, or meanwhile,
    num_present: int  # ... there before,
    num_too_short: int  # ... shorter than what has one: their keys are read,
    num_missing: int  # ... not built: damaged, or no room on disk.
    file_bytes: int  # Of those that are there now.


@dataclass(frozen=True)
class Passage:
    """Stored tokens that a question's heads attend to."""

    context: str  # Its name, or "#id".
    context_id: int
    begin: int  # Of the context's tokens, the first,
    end: int  # ... and the one behind the last.
    score: float  # An ordinary passage of the same answer has 0.
    head_scores: tuple[float, ...]  # By head, if asked for.


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
    num_contexts: int  # That were looked through,
    num_tokens: int  # ... their tokens, shared ones once,
    num_passages: int  # ... and in how many passages, overlaps counted.
    key_bytes: int  # Of keys, that were read.


@dataclass(frozen=True)
class Stats:
    """Counts and sizes of a store, as one tenant sees it."""

    path: str
    read_only: bool
    format_version: int
    num_contexts: int
    num_segments: int
    num_tokens: int  # Sum over segments: shared ones once.
    file_bytes: int  # Of the tenant's segments and their companions.
    num_companions: int
    companion_bytes: int  # Of file_bytes.
    num_pending_companions: int  # Segments that lack planes, or an index that was asked for.
    quota_bytes: int  # 0 = none.
    memory_bytes: int  # Segment data held in memory, all tenants.
    memory_limit_bytes: int
    num_sessions: int  # Open in this process, all tenants.
    num_damaged_segments: int
    # Since open.
    num_lookups: int
    num_prompt_tokens: int
    num_reused_tokens: int
    num_stores: int
    num_evictions: int
    bytes_written: int  # Segments sealed by store and import_context,
    bytes_merged: int  # ... and those written again by merging.
    # In the background since open, all tenants.
    num_companions_built: int
    background_seconds: float
