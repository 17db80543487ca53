"""Files with tokens, K, V and q of a model (docs/formats/import.md), for captures and imports."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from attndb import _core
from attndb._arrays import Array, Tokens, token_ids
from attndb._checked import I64, U32, U64, Path, checked
from attndb._errors import InvalidArgumentError
from attndb._results import Cut, cuts_of
from attndb._spec import DType, LayerSpec, ModelSpec

Floats = NDArray[np.float32]


@checked
class KvFile:
    """An open safetensors file of one context, or of some of its layers.

    Arrays are numpy float32 ``[n, heads, dim]``, after RoPE in the layout that ``spec`` names. The
    constructor checks everything except K, V and q, which the methods read. It raises
    InvalidArgumentError, UnsupportedError (a newer version), NotFoundError, IoError. Any thread may
    read.
    """

    def __init__(self, path: Path) -> None:
        self.path = os.fsdecode(path)
        self._core = _core.KvFileReader.open(os.fsencode(path))
        contents = self._core.contents()
        self.spec: ModelSpec = contents["spec"]
        self.tokens: NDArray[np.int32] = np.array(contents["tokens"], np.int32)
        self.first_position: int = contents["first_position"]  # Position of token 0 under RoPE.
        # When tokens were dropped, and which (Session.drop_oldest).
        self.cuts: tuple[Cut, ...] = cuts_of(contents["cuts"])
        self.layers: tuple[int, ...] = tuple(contents["layers"])  # Layers that the file has.
        self.num_queries: int = contents["num_queries"]  # Number of last tokens with q; 0 = none.
        self.notes: dict[str, str] = contents["notes"]

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)

    @property
    def positions(self) -> NDArray[np.int64]:
        return self.first_position + np.arange(self.num_tokens, dtype=np.int64)

    def read_kv(
        self, layer: U32, begin: U64 = 0, end: U64 | None = None
    ) -> tuple[Floats, Floats]:
        """Reads K and V of tokens [begin, end) of `layer`."""
        last = self.num_tokens if end is None else end
        shape = self._layer(layer)
        n = max(last - begin, 0)
        k = np.empty((n, shape.num_kv_heads, shape.head_dim), np.float32)
        v = np.empty((n, shape.num_kv_heads, shape.v_head_dim or shape.head_dim), np.float32)
        self._core.read_kv(layer, begin, last, k, v)
        return k, v

    def read_queries(
        self, layer: U32, begin: U64 | None = None, end: U64 | None = None
    ) -> Floats:
        """Reads q of tokens [begin, end) of `layer`. All must be among the last num_queries."""
        first = self.num_tokens - self.num_queries if begin is None else begin
        last = self.num_tokens if end is None else end
        shape = self._layer(layer)
        q = np.empty((max(last - first, 0), shape.num_q_heads, shape.head_dim), np.float32)
        self._core.read_queries(layer, first, last, q)
        return q

    def _layer(self, layer: int) -> LayerSpec:
        if layer not in self.layers:
            raise InvalidArgumentError(f"{self.path}: layer {layer}: the file has {self.layers}")
        return self.spec.layers[layer]

    def __repr__(self) -> str:
        return (
            f"<attndb.KvFile {self.path!r}: {self.num_tokens} tokens, {len(self.layers)} of "
            f"{self.spec.num_layers} layers, q of {self.num_queries}>"
        )


@checked
def write_kv_file(
    path: Path,
    spec: ModelSpec,
    tokens: Tokens,
    layers: Mapping[int, Sequence[Array]] | Sequence[Sequence[Array]],
    *,
    first_position: I64 = 0,
    cuts: Sequence[Cut] = (),
    query_dtype: DType = "float32",
    notes: Mapping[str, str] | None = None,
) -> None:
    """Writes a new file: ``layers[i] = (k, v)`` or ``(k, v, q)``, of all layers or of some.

    ``cuts``: when tokens were dropped, and which (:attr:`Session.cuts`).

    Shapes: ``[num_tokens, heads, dim]``; q of the last n tokens, the same n in each layer. K and V
    are rounded to the spec's kv_dtype. The file is whole and durable when the call returns. A
    failed call leaves no file.

    Raises AlreadyExistsError (a file is never replaced), InvalidArgumentError (shapes, dtypes, an
    overflow), IoError, ResourceExhaustedError.
    """
    rows = dict(layers) if isinstance(layers, Mapping) else dict(enumerate(layers))
    if not rows:
        raise InvalidArgumentError("layers: expected one or more, found none")
    for layer, arrays in rows.items():
        if len(arrays) not in (2, 3):
            raise InvalidArgumentError(
                f"layers: expected (k, v) or (k, v, q), found {len(arrays)} arrays for {layer!r}"
            )
    counts = {len(arrays[2]) if len(arrays) > 2 else 0 for arrays in rows.values()}
    if len(counts) != 1:
        raise InvalidArgumentError(f"layers: q of unequal numbers of tokens: {sorted(counts)}")
    writer = _core.KvFileWriter.create(
        os.fsencode(path),
        spec,
        token_ids(tokens).tolist(),
        first_position=first_position,
        cuts=[(cut.at, list(cut.dropped)) for cut in cuts],
        layers=sorted(rows),
        num_queries=counts.pop(),
        query_dtype=query_dtype,
        notes=dict(notes or {}),
    )
    for layer in sorted(rows):
        k, v, *rest = rows[layer]
        writer.write_layer(layer, k, v, rest[0] if rest else None)
    writer.finish()
