"""The identity of a model by its content: SHA-256 over config, weights, adapters and tokenizer.

Equal content gives equal fingerprints in every process and under any path. The fingerprint leaves
out names that come from a file system or a version. Several threads hash pieces of the tensors
(hashlib frees the interpreter lock); the digests are joined in the order of names.

The model keeps its fingerprint until a tensor changes in address, version counter, shape, dtype or
one of a few sampled values. A write through ``.data`` or a numpy view that misses all samples goes
unnoticed; ``fingerprint(model, refresh=True)`` reads everything.

Threads: safe, if no thread writes to the model meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from attndb._checked import checked
from attndb._errors import UnsupportedError

_FORMAT = b"attndb.hf fingerprint 1"
_PIECE_BYTES = 16 << 20
_NUM_SAMPLES = 5
# Keys of a config that a fingerprint leaves out: the origin of the config, requests for other
# outputs, and ids that only generate() reads.
_VOLATILE = {
    "_attn_implementation",
    "_commit_hash",
    "_experts_implementation",
    "_name_or_path",
    "architectures",
    "attn_implementation",
    "bos_token_id",
    "dtype",
    "eos_token_id",
    "experts_implementation",
    "id2label",
    "label2id",
    "name_or_path",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    "problem_type",
    "return_dict",
    "tokenizer_class",
    "torch_dtype",
    "transformers_version",
    "use_cache",
}

_kept: weakref.WeakKeyDictionary[Any, tuple[Any, bytes]] = weakref.WeakKeyDictionary()
_kept_tokenizers: weakref.WeakKeyDictionary[Any, tuple[int, bytes]] = weakref.WeakKeyDictionary()


@checked
def fingerprint(model: Any, tokenizer: Any = None, *, refresh: bool = False) -> bytes:
    """Returns 32 bytes that identify the model's content: all parameters and buffers, also those of
    adapters, the config, which adapters are on, and the tokenizer if given.

    ``refresh``: read every byte again. Raises UnsupportedError if a tensor has no readable bytes
    (on "meta", or quantised by a subclass). Pass ``attndb.hf.use(model, fingerprint=...)`` then.
    """
    stamp = _stamp(model)
    kept = _kept.get(model)
    if refresh or kept is None or kept[0] != stamp:
        kept = _kept[model] = (stamp, _hash_model(model))
    if tokenizer is None:
        return kept[1]
    return hashlib.sha256(kept[1] + _tokenizer_digest(tokenizer)).digest()


def version_stamp(tensors: list[torch.Tensor]) -> int:
    """Returns a stamp that very likely changes if a tensor is written or replaced. Microseconds."""
    try:
        return hash(tuple([(t.data_ptr(), t._version) for t in tensors]))
    except RuntimeError:  # Tensors made in inference mode have no version counter.
        return hash(tuple([t.data_ptr() for t in tensors]))


def _named_tensors(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    yield from model.named_parameters(remove_duplicate=False)
    yield from model.named_buffers(remove_duplicate=False)


def _stamp(model: Any) -> Any:
    tensors = {}
    for name, tensor in _named_tensors(model):
        # Tensors made in inference mode have no version counter. They never compare equal, so they
        # are read again.
        version = object() if tensor.is_inference() else tensor._version
        place = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        tensors[name] = (place, version, _samples(tensor))
    return tensors, _config_text(model), _adapters_text(model)


def _samples(tensor: torch.Tensor) -> bytes:
    num_values = tensor.numel()
    if num_values == 0 or tensor.device.type != "cpu" or not tensor.is_contiguous():
        return b""
    step = max(1, num_values // _NUM_SAMPLES)
    return bytes(_as_bytes(tensor.detach().view(-1)[::step].contiguous()))


def _hash_model(model: Any) -> bytes:
    digest = hashlib.sha256(_FORMAT)
    for text in (_config_text(model), _adapters_text(model)):
        digest.update(hashlib.sha256(text.encode()).digest())
    tensors = sorted(_named_tensors(model), key=lambda entry: entry[0])
    num_threads = max(1, torch.get_num_threads())
    with ThreadPoolExecutor(num_threads, thread_name_prefix="attndb-fingerprint") as pool:
        hashed: dict[Any, list[Any]] = {}  # Tied weights are read once.
        for _, tensor in tensors:
            key = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
            if key not in hashed:
                hashed[key] = [pool.submit(_sha256, piece) for piece in _pieces(tensor)]
        for name, tensor in tensors:
            key = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
            head = f"\0{name}\0{tensor.dtype}\0{list(tensor.shape)}\0"
            digest.update(head.encode())
            for piece in hashed[key]:
                digest.update(piece.result())
    return digest.digest()


def _pieces(tensor: torch.Tensor) -> list[memoryview]:
    if tensor.numel() == 0:
        return []
    if tensor.device.type == "meta" or type(tensor.data) is not torch.Tensor:
        raise UnsupportedError(
            f"fingerprint: a {type(tensor.data).__name__} on {tensor.device} has no readable "
            "bytes; pass attndb.hf.use(model, fingerprint=...)"
        )
    view = memoryview(_as_bytes(tensor.detach().cpu().contiguous().view(-1)))
    return [view[i : i + _PIECE_BYTES] for i in range(0, view.nbytes, _PIECE_BYTES)]


def _as_bytes(flat: torch.Tensor) -> Any:
    return flat.view(torch.uint8).numpy()


def _sha256(piece: memoryview) -> bytes:
    return hashlib.sha256(piece).digest()


def _config_text(model: Any) -> str:
    return json.dumps(_without_volatile(model.config.to_dict()), sort_keys=True, default=str)


def _without_volatile(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {str(key): _without_volatile(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if key not in _VOLATILE}
    if isinstance(value, (list, tuple)):
        return [_without_volatile(item) for item in value]
    return sorted(value, key=str) if isinstance(value, (set, frozenset)) else value


def _adapters_text(model: Any) -> str:
    """Returns which adapters (PEFT's) are on and their strength. Turning an adapter off changes no
    tensor."""
    states = [
        (
            name,
            getattr(module, "active_adapters", None),
            getattr(module, "disable_adapters", None),
            getattr(module, "merged_adapters", None),
            getattr(module, "scaling", None),
        )
        for name, module in model.named_modules()
        if isinstance(getattr(module, "scaling", None), dict)
    ]
    return repr(states)


def _tokenizer_digest(tokenizer: Any) -> bytes:
    """Returns a digest, which the tokenizer keeps until tokens are added. Other changes of a
    tokenizer give other ids for a text, and attndb compares ids."""
    kept = _kept_tokenizers.get(tokenizer)
    if kept is None or kept[0] != len(tokenizer):
        digest = hashlib.sha256(_tokenizer_text(tokenizer).encode()).digest()
        kept = _kept_tokenizers[tokenizer] = (len(tokenizer), digest)
    return kept[1]


def _tokenizer_text(tokenizer: Any) -> str:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return json.dumps(sorted(tokenizer.get_vocab().items(), key=str))
    content = json.loads(backend.to_str())
    for changed_by_use in ("padding", "truncation"):
        content.pop(changed_by_use, None)
    return json.dumps(content, sort_keys=True)
