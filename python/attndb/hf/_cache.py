"""A transformers Cache whose keys and values lie in attndb: one session per row of the batch."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace as changed
from types import TracebackType
from typing import Any, overload

import torch
from transformers.cache_utils import Cache

from attndb._checked import checked_late
from attndb._db import DB
from attndb._errors import FailedPreconditionError, InvalidArgumentError
from attndb._results import Explain, LayerExplain
from attndb._session import Session
from attndb._spec import ModelSpec
from attndb._units import Ttl
from attndb.hf import _switch
from attndb.hf._attention import Consumer
from attndb.hf._fingerprint import fingerprint
from attndb.hf._observe import TaggingLayer
from attndb.hf._step import Step
from attndb.hf._step_plan import UNKNOWN, Given, Row, StepPlan, plan_step
from attndb.hf._window import Window


@checked_late
class AttndbCache(Cache):
    """A cache made by :func:`attndb.hf.create_session`; a context manager.

    Pass the cache to ``model.generate`` or to a forward as ``past_key_values``. The cache holds no
    tensor: a forward appends its new tokens to the sessions, and all layers attend there. After N
    generated tokens the cache holds the prompt and N - 1 tokens, because the model has not run the
    last token.

    After a failed or interrupted forward only ``crop``, ``reset`` and ``close`` are legal:
    ``crop(0)`` restores the state before the forward. One thread at a time may use a cache.
    """

    def __init__(
        self,
        binding: Any,
        model: weakref.ref[Any],
        db: DB,
        spec: ModelSpec,
        rows: list[Row],
        num_columns: int,
        window: Window | None = None,
    ) -> None:
        super().__init__(layers=[TaggingLayer(self, i) for i in range(spec.num_layers)])
        self.spec = spec
        self._binding = binding
        self._model = model
        self._db = db
        self._rows = rows
        self._num_columns = num_columns
        self._num_columns_reused = num_columns
        self._window = window
        self._weights = binding.weights_stamp()
        # Each forward calls it with (layer, q [batch, n, num_q_heads, head_dim]); q is a view.
        self.on_queries: Callable[[int, torch.Tensor], None] | None = None
        # A forward has run, or crop has shortened the cache, since it was made or reset.
        self._has_run = False
        self._failed = False
        # While a forward runs in pieces: _num_columns and _has_run at its start, and its thread.
        self._start: tuple[int, bool, int] | None = None
        self._runs_piece = False  # The next step is a piece that other pieces follow.
        self._step: Step | None = None
        self._lock = threading.Lock()  # Guards the change of _step.

    # The contents of the cache.

    @property
    def sessions(self) -> list[Session]:
        """The sessions, one per row."""
        return [row.session for row in self._rows]

    @property
    def session(self) -> Session:
        """The session of the only row. Raises InvalidArgumentError if there are several rows."""
        return self._only_row().session

    @property
    def num_reused(self) -> int | list[int]:
        """The number of tokens that the store had, so that the model does not run them. A list if
        there are several rows."""
        counts = [row.num_reused for row in self._rows]
        return counts[0] if len(counts) == 1 else counts

    def token_ids(self, row: int = 0) -> list[int]:
        """Ids of the tokens that the row's session holds; -1 for a token given as an embedding."""
        return list(self._row(row).ids)

    @overload
    def explain(self, *, row: int = ...) -> Explain: ...
    @overload
    def explain(self, layer: int, *, row: int = ...) -> LayerExplain: ...
    def explain(self, layer: int | None = None, *, row: int = 0) -> Explain | LayerExplain:
        """Returns the plan and the cost of the row's last step, for all layers or for `layer`."""
        session = self._row(row).session
        return session.explain() if layer is None else session.explain(layer)

    def set_plan(self, plan: str) -> None:
        """Sets the plan of all rows for later steps."""
        for row in self._rows:
            row.session.set_plan(plan)

    # Storing.

    def store(
        self,
        output_ids: Any = None,
        *,
        row: int | None = None,
        name: str | Sequence[str] | None = None,
        replace: bool = False,
        drop_base: bool = False,
        ttl: Ttl = None,
        pin: bool = False,
    ) -> int | list[int]:
        """Stores the tokens of each row as a context, which is durable when `store` returns.

        Returns the context's id; a list of ids for several rows. ``output_ids``: the result of
        ``generate``, which `store` compares with the ids that the model ran. ``row``: store only
        this row. ``name``: one name per row. Other options: see :meth:`attndb.DB.store`.

        Raises InvalidArgumentError (`output_ids` or `name` do not fit), FailedPreconditionError
        (tokens given as embeddings have no ids; the model's weights changed; a failed forward), and
        the errors of :meth:`attndb.DB.store`. Rows before the failing row are stored then.

        ``generate`` adds padding to a row of a batch that ended early. `store` leaves this padding
        out and stores the row up to its end token. The model's ``generation_config`` names the
        padding id and the end ids.
        """
        self._check_usable()
        self._check_same_content()
        chosen = self._rows if row is None else [self._row(row)]
        numbers = range(len(chosen)) if row is None else [row]
        names = _names(name, len(chosen))
        outputs = _output_rows(output_ids, len(chosen))
        for r, each, output in zip(numbers, chosen, outputs, strict=True):
            if UNKNOWN in each.ids:
                raise FailedPreconditionError(
                    f"store: row {r} was given token {each.ids.index(UNKNOWN)} as an embedding "
                    "(inputs_embeds), so its id is unknown"
                )
            if output is not None:
                _check_output(each, output, self._num_columns_reused, r)
        stored = [
            self._store_row(
                each, name=each_name, replace=replace, drop_base=drop_base, ttl=ttl, pin=pin
            )
            for each, each_name in zip(chosen, names, strict=True)
        ]
        return stored[0] if len(stored) == 1 else stored

    # The interface of transformers' Cache.

    def get_max_length(self, layer_idx: int | None = None) -> int:  # transformers 5.23
        return -1

    def get_max_cache_shape(self, layer_idx: int = 0) -> int:  # transformers 5.12
        return -1

    @property
    def max_cache_len(self) -> int:
        return -1

    @property
    def batch_size(self) -> int:
        return len(self._rows)

    max_batch_size = batch_size

    @property
    def is_initialized(self) -> bool:
        return True

    @property
    def is_croppable(self) -> bool:
        return True

    def crop(self, tokens_to_remove: int) -> None:
        """Removes columns at the end, and makes the cache usable again after a failed forward.

        `tokens_to_remove` = n: if n is zero or less, removes the last -n columns (transformers
        5.23). If n is positive, keeps the first n columns (5.12)."""
        self.drop_leftover_step()
        held = self._num_columns
        keep = min(tokens_to_remove, held) if tokens_to_remove > 0 else held + tokens_to_remove
        if keep < 0:
            raise InvalidArgumentError(
                f"crop: {-tokens_to_remove} columns to remove, the cache holds {held}"
            )
        for row in self._rows:
            num_tokens = row.num_tokens(keep)
            if self._failed or num_tokens < len(row.ids):
                row.session.crop(num_tokens)
            if num_tokens < len(row.ids):
                del row.ids[num_tokens:]
                del row.prompt[num_tokens:]
        self._has_run = self._has_run or keep < held
        self._num_columns = keep
        self._failed = False

    def reset(self) -> None:
        """Forgets all tokens, also reused ones. The next forward may run any prompt."""
        self.drop_leftover_step()
        for row in self._rows:
            row.session.reset()
            row.ids, row.prompt, row.pad, row.num_reused, row.num_beside = [], [], 0, 0, 0
        self._num_columns = self._num_columns_reused = 0
        self._has_run = False
        self._failed = False

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Makes row i continue row ``beam_idx[i]``, for beam search. Rows share a tail until one
        of them grows."""
        self._select(beam_idx.tolist())

    def batch_repeat_interleave(self, repeats: int) -> None:
        self._select([r for r in range(len(self._rows)) for _ in range(repeats)])

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        chosen = torch.as_tensor(indices)
        if chosen.dtype is torch.bool:
            chosen = chosen.nonzero().flatten()
        self._select(chosen.tolist())

    def fork(self) -> AttndbCache:
        """Returns a second cache with the same tokens. ``copy.deepcopy`` does the same."""
        self._check_usable()
        rows = [_fork_row(row) for row in self._rows]
        other = AttndbCache(
            self._binding, self._model, self._db, self.spec, rows, self._num_columns, self._window
        )
        other._num_columns_reused = self._num_columns_reused
        other._has_run, other._weights = self._has_run, self._weights
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> AttndbCache:
        return self.fork()

    def __copy__(self) -> AttndbCache:
        return self.fork()

    # Closing, and Python's protocols.

    def close(self) -> None:
        """Closes the sessions. Stored contexts stay."""
        self.drop_leftover_step()
        for row in self._rows:
            row.session.close()

    def __enter__(self) -> AttndbCache:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = ", failed" if self._failed else ""
        return (
            f"<attndb.hf.AttndbCache {len(self._rows)} rows, {self._num_columns} columns, "
            f"{self.num_reused} reused{state}>"
        )

    # The steps of a forward. _binding.py and the layers call them.

    def piece_of(self, binding: Any, given: Given) -> int | None:
        """Returns how many columns run before a row has to drop tokens; None = all columns.

        The tokens of a prompt run at once. Each token behind the prompt makes its own room, as if
        it had its own forward, because a rejected draft must not make other tokens leave. Raises
        the errors of `begin_step`, and InvalidArgumentError for a too long prompt.
        """
        window = self._window
        if window is None:
            return None
        self._check_forward(binding)
        rows = [self._rows[r] for r in self._rows_for(given.batch)]
        plan = plan_step(rows, self._num_columns, given, self._has_run)
        num_columns = plan.num_new
        for r, (row, begin) in enumerate(zip(rows, plan.begins, strict=True)):
            num_held = row.session.num_tokens - row.session.num_dropped
            if num_held + plan.num_new - begin <= window.max_length:
                continue
            at_once = min(len(row.prompt) - len(row.ids), plan.num_new - begin)
            if at_once > 0:
                window.check(num_held, at_once, r)
            else:
                at_once = window.num_at_once(num_held)
            num_columns = min(num_columns, begin + at_once)
        return None if num_columns == plan.num_new else plan.num_dropped + num_columns

    @contextlib.contextmanager
    def running_piece(self) -> Iterator[None]:
        """Surrounds the forward of a piece that other pieces follow. If one fails, all fail."""
        if self._start is None:
            self._start = (self._num_columns, self._has_run, threading.get_ident())
        self._runs_piece = True
        try:
            yield
        finally:
            self._runs_piece = False

    def end_pieces(self) -> None:
        """Marks the whole forward as failed after one of its pieces ran and the rest could not."""
        if self._start is not None and self._start[2] == threading.get_ident():
            self.drop_leftover_step()
            self._fail()

    def begin_step(self, binding: Any, given: Given) -> tuple[Step, StepPlan]:
        """Plans a forward, and makes its step the cache's current step.

        Raises the errors of :func:`plan_step`, and FailedPreconditionError. After an error the
        cache is unchanged."""
        self._check_forward(binding)
        chosen = self._rows_for(given.batch)
        rows = [self._rows[r] for r in chosen]
        plan = plan_step(rows, self._num_columns, given, self._has_run)
        if len(chosen) != len(self._rows):
            self._select(chosen)
        for row, pad in zip(self._rows, plan.pads, strict=True):
            row.pad = pad
            if row.session.num_tokens != len(row.ids):
                raise FailedPreconditionError(
                    f"past_key_values: a session has {row.session.num_tokens} tokens, the cache "
                    f"gave it {len(row.ids)}; it was used without the cache"
                )
        self._make_room(plan)
        step = Step(
            self,
            self.sessions,
            plan.begins,
            plan.num_new,
            binding.layers,
            binding.masks,
            binding.configs,
        )
        step.on_queries = self.on_queries
        step.awaits = plan.num_new == 1 and self._has_run  # From the second token on.
        step.is_last = not self._runs_piece
        with self._lock:
            if self._step is not None:
                raise _in_another_thread()
            self._step = step
        return step, plan

    def end_step(self, step: Step, plan: StepPlan | None) -> None:
        """Ends a forward. `plan`: the plan of a forward that succeeded; None = it failed."""
        with self._lock:
            self._step = None
        if plan is None:
            self._fail()
            return
        for row, ids in zip(self._rows, plan.ids, strict=True):
            row.ids.extend(ids)
        self._num_columns += step.num_new
        self._has_run = True
        if step.is_last:
            self._start = None

    def _fail(self) -> None:
        """Removes earlier pieces from the cache's counts; `crop` removes them from sessions."""
        self._failed = True
        if self._start is None:
            return
        self._num_columns, self._has_run, _ = self._start
        self._start = None
        for row in self._rows:
            del row.ids[row.num_tokens(self._num_columns) :]

    def drop_leftover_step(self) -> None:
        """Marks a forward as failed if an interrupt ended it before its hooks ran."""
        step = self._step
        if step is None:
            return
        others = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}
        if step.thread_id in others:
            raise _in_another_thread()
        _switch.remove(step)
        _switch.leave(step.configs)
        self.end_step(step, None)

    @property
    def step(self) -> Step | None:
        """The step of the running forward; None outside of a forward."""
        return self._step

    def on_update(self, layer: int, key: torch.Tensor, value: torch.Tensor) -> Consumer:
        step = self._step
        if step is None:
            raise FailedPreconditionError(
                "past_key_values: this forward does not run under attndb; call "
                "attndb.hf.use(model) for this model, and pass the cache itself"
            )
        step.on_update(layer, key, value)
        return step

    def layer_length(self, layer: int) -> int:
        step = self._step
        is_ahead = step is not None and step.has_updated(layer)
        return self._num_columns + (step.num_new if step is not None and is_ahead else 0)

    def check_begins_with(self, input_ids: torch.Tensor) -> None:
        """Raises InvalidArgumentError if `input_ids` [B, n], all ids of a prompt, differ from the
        ids that the cache holds."""
        rows = self._rows_for(input_ids.shape[0])
        for r, chosen in enumerate(rows):
            row = self._rows[chosen]
            ids = input_ids[r, row.pad : self._num_columns].tolist()
            for at, (held, given) in enumerate(zip(row.ids, ids, strict=False)):
                if held not in (given, UNKNOWN):
                    raise InvalidArgumentError(
                        f"input_ids: row {r} token {at} is {given}; the cache holds {held} there. "
                        "Make a new cache with attndb.hf.create_session"
                    )

    # Internals.

    def _check_forward(self, binding: Any) -> None:
        self.drop_leftover_step()
        self._check_usable()
        if binding is not self._binding:
            raise InvalidArgumentError(
                "past_key_values: this cache was made for another model object; call "
                "attndb.hf.create_session with this one"
            )
        if self._weights != binding.weights_stamp():
            raise FailedPreconditionError(
                "past_key_values: the model's weights changed since create_session"
            )

    def _store_row(self, row: Row, **options: Any) -> int:
        num_tokens = len(row.ids)
        if len(self._rows) > 1:
            num_tokens = tokens_to_store(row, *_end_and_padding(self._model()))
        if num_tokens == len(row.ids):
            return self._db.store(row.session, row.ids, **options)
        with row.session.fork() as session:
            session.crop(num_tokens)
            return self._db.store(session, row.ids[:num_tokens], **options)

    def _make_room(self, plan: StepPlan) -> None:
        """Drops the oldest tokens of rows that outgrow max_length. REQUIRES: `piece_of`."""
        window = self._window
        if window is None:
            return
        for row, begin in zip(self._rows, plan.begins, strict=True):
            window.make_room(row.session, plan.num_new - begin)

    def _rows_for(self, batch: int) -> list[int]:
        """Returns the indices of the cache's rows on which a forward of `batch` rows runs. Before
        the first forward, generate() may repeat each row several times, one per beam."""
        num_rows = len(self._rows)
        if batch == num_rows:
            return list(range(num_rows))
        if not self._has_run and batch % num_rows == 0:
            return [r for r in range(num_rows) for _ in range(batch // num_rows)]
        raise InvalidArgumentError(
            f"input_ids: {batch} rows, the cache has {num_rows}; use batch_repeat_interleave or "
            "batch_select_indices to change it"
        )

    def _select(self, indices: list[int]) -> None:
        self._check_usable()
        rows: list[Row] = []
        taken: set[int] = set()
        for index in indices:
            row = self._rows[index]
            rows.append(_fork_row(row) if index in taken else row)
            taken.add(index)
        for index, row in enumerate(self._rows):
            if index not in taken:
                row.session.close()
        self._rows = rows

    def _row(self, row: int) -> Row:
        if not 0 <= row < len(self._rows):
            raise InvalidArgumentError(f"row: expected 0 to {len(self._rows) - 1}, found {row}")
        return self._rows[row]

    def _only_row(self) -> Row:
        if len(self._rows) != 1:
            raise InvalidArgumentError(f"the cache has {len(self._rows)} rows: use sessions[i]")
        return self._rows[0]

    def _check_usable(self) -> None:
        if any(row.session.closed for row in self._rows):
            raise FailedPreconditionError("past_key_values: the cache is closed")
        if self._step is not None:
            raise _in_another_thread()
        if self._failed:
            raise FailedPreconditionError(
                "past_key_values: the last forward failed in the middle; call cache.crop(0) to go "
                "back to where it began, or cache.reset()"
            )

    def _check_same_content(self) -> None:
        model = self._model()
        if model is None or self._binding.fingerprint is not None:
            return
        if fingerprint(model, self._binding.tokenizer) != self.spec.fingerprint:
            raise FailedPreconditionError(
                "store: the model's weights or config changed since create_session"
            )


def _in_another_thread() -> FailedPreconditionError:
    return FailedPreconditionError(
        "past_key_values: a forward of this cache runs in another thread"
    )


def _fork_row(row: Row) -> Row:
    return changed(
        row, session=row.session.fork(), ids=list(row.ids), prompt=list(row.prompt)
    )


def _end_and_padding(model: Any) -> tuple[list[int], int | None]:
    """Returns the ids of end tokens, and the id with which generate() pads an ended row."""
    config = getattr(model, "generation_config", None)
    end = getattr(config, "eos_token_id", None)
    ends = [] if end is None else [end] if isinstance(end, int) else list(end)
    padding = getattr(config, "pad_token_id", None)
    return ends, padding if padding is not None else next(iter(ends), None)


def tokens_to_store(row: Row, ends: Sequence[int], padding: int | None) -> int:
    """Returns the number of tokens before the padding that follows a generated end token."""
    for at in range(len(row.prompt), len(row.ids)):
        if row.ids[at] in ends:
            is_padded = all(token == padding for token in row.ids[at + 1 :])
            if is_padded:
                return at + 1
    return len(row.ids)


def _names(name: str | Sequence[str] | None, num_rows: int) -> list[str | None]:
    if name is None:
        return [None] * num_rows
    names = [name] if isinstance(name, str) else list(name)
    if len(names) != num_rows:
        raise InvalidArgumentError(f"name: expected {num_rows}, one a row, found {len(names)}")
    return list(names)


def _output_rows(output_ids: Any, num_rows: int) -> list[list[int] | None]:
    if output_ids is None:
        return [None] * num_rows
    ids = torch.as_tensor(getattr(output_ids, "sequences", output_ids))
    if ids.ndim == 1:
        ids = ids[None]
    if ids.ndim != 2 or ids.shape[0] != num_rows:
        raise InvalidArgumentError(
            f"output_ids: expected {num_rows} rows, found shape {list(ids.shape)}"
        )
    return [row.tolist() for row in ids]


def _check_output(row: Row, output: list[int], num_columns_reused: int, r: int) -> None:
    """Compares `output` with the row. `output` has all columns, or only the new ones."""
    for cut in (0, num_columns_reused):
        begin, held = max(row.pad - cut, 0), row.ids[row.num_tokens(cut) :]
        if output[begin : begin + len(held)] == held:
            return
    raise InvalidArgumentError(
        f"output_ids: row {r} is not what was run: {len(row.ids)} tokens are held, "
        f"{len(output)} given with {row.pad} of padding, and they differ"
    )
