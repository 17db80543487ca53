"""The identity of KV data: keys and values made under one spec are never used under another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from attndb._checked import U32, checked
from attndb._errors import InvalidArgumentError

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


@checked
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

    def __post_init__(self) -> None:
        for name in ("num_q_heads", "num_kv_heads", "head_dim"):
            value = getattr(self, name)
            if value < 1:
                raise InvalidArgumentError(f"{name}: expected 1 or more, found {value!r}")
        if self.num_q_heads % self.num_kv_heads != 0:
            raise InvalidArgumentError(
                f"num_q_heads: expected a multiple of num_kv_heads, {self.num_kv_heads}, "
                f"found {self.num_q_heads}"
            )


@checked
@dataclass(frozen=True)
class ModelSpec:
    """The layers of a model, the dtype of its stored K and V, and who it is.

    ``fingerprint``: identity of weights, adapters and tokenizer: any bytes, 1 to 256 of them (a
    SHA-256, say). KV is reused under an equal fingerprint only. ``unrotated_keys``: keys are stored
    as they were before RoPE and turned each time that they are read ([AS] 3.4), for comparison;
    callers give and get rotated keys as ever. ``name`` and ``path``: what people call the model and
    where its files are, no part of the identity; they are kept with its contexts, and messages name
    it by them. At most 256 and 4096 bytes.
    """

    layers: Sequence[LayerSpec]
    kv_dtype: DType = "float16"
    fingerprint: bytes = field(default=b"", repr=False)
    unrotated_keys: bool = False
    name: str = field(default="", compare=False)
    path: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not len(self.layers):
            raise InvalidArgumentError("layers: expected one LayerSpec or more, found none")

    def __repr__(self) -> str:
        layer = self.layers[0]
        alike = all(other == layer for other in self.layers)
        shape = f"{layer.num_q_heads}/{layer.num_kv_heads} heads of {layer.head_dim}"
        return (
            f"ModelSpec({len(self.layers)} layers of {shape if alike else 'several shapes'}, "
            f"{self.kv_dtype}, fingerprint {self.fingerprint[:4].hex()}...)"
        )

    @staticmethod
    def uniform(
        num_layers: U32,
        num_q_heads: int,
        num_kv_heads: int,
        head_dim: int,
        *,
        v_head_dim: int | None = None,
        kv_dtype: DType = "float16",
        scale: float | None = None,
        rope: Rope | None = None,
        fingerprint: bytes,
        unrotated_keys: bool = False,
    ) -> ModelSpec:
        """A model whose layers are all alike."""
        layer = LayerSpec(
            num_q_heads, num_kv_heads, head_dim, v_head_dim=v_head_dim, scale=scale, rope=rope
        )
        return ModelSpec([layer] * num_layers, kv_dtype, fingerprint, unrotated_keys)

    @property
    def num_layers(self) -> int:
        return len(self.layers)
