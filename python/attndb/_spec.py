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
    """The rotary position embedding that the engine applies to q and k before attndb sees them.

    ``layout``: "half" pairs channels i and i + rope_dims/2 (Hugging Face, ggml NEOX), "interleaved"
    pairs 2i and 2i + 1 (ggml NORM). ``rope_dims``: leading channels that are rotated; 0 = all.
    ``scaling``: canonical text of a scaling with its parameters. It is part of the identity.
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
    # One logit per q head, whose exp is added to the softmax's denominator (GPT-OSS's learned
    # sinks, ``s_aux``). It acts like a token of value 0 that every row sees. lse includes it.
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
    """The layers of a model, the dtype of its stored K and V, and its identity.

    ``fingerprint``: identity of weights, adapters and tokenizer: 1 to 256 bytes, for example a
    SHA-256. KV is reused under an equal fingerprint only. ``unrotated_keys``: the store keeps keys
    as they were before RoPE and rotates them at each read ([AS] 3.4), for comparison. Callers still
    give and get rotated keys. ``name`` and ``path``: the model's name and the place of its files,
    at most 256 and 4096 bytes. They are no part of the identity: contexts keep them, and messages
    name the model by them.
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
        """Returns the spec of a model whose layers are all alike."""
        layer = LayerSpec(
            num_q_heads, num_kv_heads, head_dim, v_head_dim=v_head_dim, scale=scale, rope=rope
        )
        return ModelSpec([layer] * num_layers, kv_dtype, fingerprint, unrotated_keys)

    @property
    def num_layers(self) -> int:
        return len(self.layers)
