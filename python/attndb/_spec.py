"""The identity of KV data: keys and values made under one spec are never used under another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

DType = Literal["float32", "float16", "bfloat16"]
RopeLayout = Literal["half", "interleaved"]


@dataclass(frozen=True)
class Rope:
    """Rotary position embedding as it was applied to q and k before attndb sees them.

    ``layout``: "half" pairs channels i and i + rope_dims/2 (Hugging Face, ggml NEOX), "interleaved"
    pairs 2i and 2i + 1 (ggml NORM). ``rope_dims``: leading channels that are rotated; 0 = all.
    ``scaling``: canonical text of a scaling with its parameters; part of the identity only.
    """

    base: float = 10000.0
    layout: RopeLayout = "half"
    scaling: str | None = None
    rope_dims: int = 0


@dataclass(frozen=True)
class LayerSpec:
    """One attention layer. q head h reads kv head h // (num_q_heads // num_kv_heads)."""

    num_q_heads: int
    num_kv_heads: int
    head_dim: int
    v_head_dim: int | None = None  # None = head_dim.
    scale: float | None = None  # logit = scale * (q . k); None = 1 / sqrt(head_dim).
    soft_cap: float | None = None  # logit = soft_cap * tanh(logit / soft_cap).
    sliding_window: int | None = None  # Token i sees (i - sliding_window, i].
    rope: Rope | None = None  # None: keys are not rotated.
    # For each q head: adds exp(it) to the softmax's denominator, as a token of value 0 would that
    # every row sees (GPT-OSS's learned sinks, ``s_aux``). None = none. lse includes it.
    denominator_logits: Sequence[float] | None = None


@dataclass(frozen=True)
class ModelSpec:
    """The layers of a model, the dtype of its stored K and V, and who it is.

    ``fingerprint``: identity of weights, adapters and tokenizer: any bytes, 1 to 256 of them (a
    SHA-256, say). KV is reused under an equal fingerprint only.
    """

    layers: Sequence[LayerSpec]
    kv_dtype: DType = "float16"
    fingerprint: bytes = field(default=b"", repr=False)

    @staticmethod
    def uniform(
        num_layers: int,
        num_q_heads: int,
        num_kv_heads: int,
        head_dim: int,
        *,
        v_head_dim: int | None = None,
        kv_dtype: DType = "float16",
        scale: float | None = None,
        rope: Rope | None = None,
        fingerprint: bytes,
    ) -> ModelSpec:
        """A model whose layers are all alike."""
        layer = LayerSpec(
            num_q_heads, num_kv_heads, head_dim, v_head_dim=v_head_dim, scale=scale, rope=rope
        )
        return ModelSpec([layer] * num_layers, kv_dtype, fingerprint)

    @property
    def num_layers(self) -> int:
        return len(self.layers)
