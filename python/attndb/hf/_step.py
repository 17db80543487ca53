"""One forward of a model over the sessions of a cache: layer by layer, append and attend.

Threads: only the thread that began the step.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from attndb._errors import (
    Error,
    FailedPreconditionError,
    InvalidArgumentError,
    UnsupportedError,
)
from attndb._session import Session, attend_batch
from attndb.hf._attention import Arguments, Consumer
from attndb.hf._masks import MaskRequest, MasksSeen, made_itself
from attndb.hf._observe import ObservedLayer
from attndb.hf._step_plan import StepPlan


class Step(Consumer):
    """A consumer of _attention.py. `begins[r]`: the first new column that is a token of
    `sessions[r]`. Columns before it are padding, whose output is 0. `owner`: the cache."""

    def __init__(
        self,
        owner: Any,
        sessions: Sequence[Session],
        begins: list[int],
        num_new: int,
        layers: Sequence[ObservedLayer],
        masks: MasksSeen,
        configs: list[Any],
    ) -> None:
        self.owner = weakref.ref(owner)
        self.configs = configs
        self.num_new = num_new
        self.thread_id = threading.get_ident()
        self.plan: StepPlan | None = None  # The code that ends the step reads it.
        self.on_queries: Callable[[int, torch.Tensor], None] | None = None
        self.awaits = False  # Whether to wait for derived objects of plans with await=1.
        self.is_last = True  # No piece of the same forward follows.
        self.earlier: list[Any] = []  # Outputs of earlier pieces of the same forward.
        self._sessions = sessions
        self._begins = begins
        self._has_padding = any(begins)
        self._layers = layers
        self._masks = masks
        self._updated: set[int] = set()
        self._attended: set[int] = set()

    def has_updated(self, layer: int) -> bool:
        return layer in self._updated

    def on_mask(self, request: MaskRequest) -> torch.Tensor | None:
        return self._masks.mask_of_step(request)

    def on_update(self, layer: int, key: torch.Tensor, value: torch.Tensor) -> None:
        seen = self._layers[layer]
        self._check_states(layer, "keys", key, seen.num_kv_heads, seen.head_dim)
        self._check_states(layer, "values", value, seen.num_kv_heads, seen.v_head_dim)
        if layer in self._updated:
            raise UnsupportedError(f"layer {layer} keeps keys twice in one forward")
        if threading.get_ident() != self.thread_id:
            raise FailedPreconditionError("a forward of this cache runs in another thread")
        self._updated.add(layer)

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: Any,
        arguments: Arguments,
    ) -> torch.Tensor:
        if mask is not None:
            raise made_itself(layer, mask)
        seen = self._layers[layer]
        if arguments != seen.arguments:
            raise UnsupportedError(
                f"layer {layer}: {arguments}, expected {seen.arguments} as attndb.hf.use saw it"
            )
        if layer in self._attended:
            raise UnsupportedError(f"the keys of layer {layer} are attended to twice (shared KV)")
        self._check_states(layer, "queries", query, seen.num_q_heads, seen.head_dim)
        if query.requires_grad or key.requires_grad or value.requires_grad:
            out: torch.Tensor = _WithoutGradient.apply(query, key, value, self, layer)
        else:
            out = self.run(layer, query, key, value)
        self._attended.add(layer)
        return out

    def run(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> torch.Tensor:
        """Appends and attends. The sessions read the tensors and fill the output without copies."""
        # Views [B, heads, n, dim] as the sessions' [n, heads, dim], by row.
        queries, keys, values = (states.transpose(1, 2) for states in (query, key, value))
        if self.on_queries is not None:
            self.on_queries(layer, queries)
        if self.awaits:
            self._await_derived(layer)
        out = torch.empty((*queries.shape[:3], value.shape[3]), dtype=query.dtype)
        if len(self._sessions) > 1 and not self._has_padding:
            return self._run_batch(layer, queries, keys, values, out)
        for r, (session, begin) in enumerate(zip(self._sessions, self._begins, strict=True)):
            q, k, v, row = queries[r], keys[r], values[r], out[r]
            if begin:
                row[:begin] = 0
                q, k, v, row = q[begin:], k[begin:], v[begin:], row[begin:]
            if begin < self.num_new:
                session.append(layer, k, v)
                session.attend(layer, q, out=row)
        return out

    def _await_derived(self, layer: int) -> None:
        """Waits for derived objects. Errors do not fail the forward, because attend reads tokens
        without such objects exactly."""
        for session in self._sessions:
            if not session.awaits_derived(layer):
                continue
            try:
                session.await_derived(layer)
            except InvalidArgumentError:
                raise
            except Error:
                pass

    def _check_states(
        self, layer: int, name: str, states: torch.Tensor, num_heads: int, dim: int
    ) -> None:
        expected = (len(self._sessions), num_heads, self.num_new, dim)
        if states.shape != expected or not states.is_cpu:
            raise UnsupportedError(
                f"layer {layer}: expected {name} of shape {list(expected)} on cpu, found "
                f"{list(states.shape)} on {states.device}"
            )

    def _run_batch(
        self,
        layer: int,
        queries: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        out: torch.Tensor,
    ) -> torch.Tensor:
        for r, session in enumerate(self._sessions):
            session.append(layer, keys[r], values[r])
        num_rows = [self.num_new] * len(self._sessions)
        attend_batch(
            self._sessions, num_rows, layer, queries.flatten(0, 1), out=out.flatten(0, 1)
        )
        return out

    def check_complete(self) -> None:
        """Raises UnsupportedError if a layer did not attend through attndb."""
        missing = sorted(set(range(len(self._layers))) - self._attended)
        if missing:
            raise UnsupportedError(
                f"layers {missing} did not attend through attndb: the attention implementation was "
                "changed during the forward, or layers were left out or ran without their cache"
            )


class _WithoutGradient(torch.autograd.Function):
    """Attention that runs with gradients on, and raises an error at a backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        step: Step,
        layer: int,
    ) -> torch.Tensor:
        return step.run(layer, query.detach(), key.detach(), value.detach())

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise UnsupportedError(
            "attention in attndb has no gradient: train without an AttndbCache, or run under "
            "torch.no_grad()"
        )
