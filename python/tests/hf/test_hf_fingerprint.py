"""A fingerprint names content: equal in every process, other after any change that gives other
keys, and read again only then."""

from __future__ import annotations

import gc
import hashlib
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

import attndb
import attndb.hf
from attndb.hf import _fingerprint
from hf_models import make_model, make_prompt


@pytest.fixture
def num_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of each piece that was hashed."""
    reads: list[int] = []

    def counting(piece: memoryview) -> bytes:
        reads.append(piece.nbytes)
        return hashlib.sha256(piece).digest()

    monkeypatch.setattr(_fingerprint, "_sha256", counting)
    return reads


def test_it_is_equal_in_another_process_and_by_another_path(tmp_path: Path) -> None:
    model = make_model("llama")
    expected = attndb.hf.fingerprint(model)
    assert len(expected) == 32
    code = (
        "import attndb.hf; from hf_models import make_model;"
        "print(attndb.hf.fingerprint(make_model('llama')).hex())"
    )
    out = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        check=True,
        capture_output=True,
        text=True,
    )
    assert out.stdout.split()[-1] == expected.hex()
    for folder in ("one", "two"):
        model.save_pretrained(tmp_path / folder)
        loaded = AutoModelForCausalLM.from_pretrained(
            tmp_path / folder, attn_implementation="sdpa", dtype=torch.float32
        )
        assert attndb.hf.fingerprint(loaded) == expected


def test_the_number_of_threads_does_not_matter() -> None:
    model = make_model("llama")
    first = attndb.hf.fingerprint(model)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(4)
        assert attndb.hf.fingerprint(model, refresh=True) == first
    finally:
        torch.set_num_threads(before)


def _change_in_place(model: Any) -> None:
    model.model.layers[1].mlp.up_proj.weight[3, 5] += 1e-3


def _change_through_data(model: Any) -> None:
    model.model.layers[1].mlp.up_proj.weight.data.mul_(1.001)


def _replace(model: Any) -> None:
    norm = model.model.norm
    norm.weight = torch.nn.Parameter(norm.weight * 1.001)


def _change_buffer(model: Any) -> None:
    model.model.rotary_emb.inv_freq.mul_(1.1)


def _change_config(model: Any) -> None:
    model.config.rms_norm_eps *= 2


def _to_half(model: Any) -> None:
    model.half()


CHANGES = [
    _change_in_place,
    _change_through_data,
    _replace,
    _change_buffer,
    _change_config,
    _to_half,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__.strip("_"))
def test_a_change_is_noticed(change: Any) -> None:
    model = make_model("llama")
    before = attndb.hf.fingerprint(model)
    with torch.no_grad():
        change(model)
    after = attndb.hf.fingerprint(model)
    assert after != before
    assert attndb.hf.fingerprint(model, refresh=True) == after


def test_it_is_read_once_while_nothing_changes(num_reads: list[int]) -> None:
    model = make_model("llama", tie_word_embeddings=True)
    first = attndb.hf.fingerprint(model)
    num_bytes = sum(p.nbytes for p in model.parameters()) + sum(b.nbytes for b in model.buffers())
    assert sum(num_reads) == num_bytes, "tied weights are read once"
    model(make_prompt(5))
    model.config.use_cache = False
    model.config.pad_token_id = 3
    model.set_attn_implementation("sdpa")
    assert attndb.hf.fingerprint(model) == first
    assert sum(num_reads) == num_bytes


def test_weights_made_in_inference_mode_are_read_each_time(num_reads: list[int]) -> None:
    """They have no version counter that would tell."""
    with torch.inference_mode():
        model = make_model("llama")
        attndb.hf.fingerprint(model)
        once = len(num_reads)
        attndb.hf.fingerprint(model)
    assert len(num_reads) == 2 * once


def test_large_tensors_are_hashed_in_pieces(
    num_reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_fingerprint, "_PIECE_BYTES", 1000)
    attndb.hf.fingerprint(make_model("llama"))
    assert max(num_reads) == 1000


def test_models_are_not_kept_alive() -> None:
    model = make_model("llama")
    attndb.hf.use(model)
    attndb.hf.fingerprint(model)
    watched = weakref.ref(model)
    del model
    gc.collect()
    assert watched() is None


class _Adapter(torch.nn.Module):
    """As PEFT's layers: a base layer, named adapters, a scaling by name."""

    def __init__(self, base: torch.nn.Linear) -> None:
        super().__init__()
        self.base_layer = base
        self.delta = torch.nn.ParameterDict(
            {name: torch.nn.Parameter(torch.zeros_like(base.weight)) for name in ("a", "b")}
        )
        self.scaling = {"a": 1.0, "b": 1.0}
        self.active_adapters = ["a"]
        self.disable_adapters = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.base_layer(x)
        if not self.disable_adapters:
            for name in self.active_adapters:
                out = out + self.scaling[name] * (x @ self.delta[name].T)
        return out


def test_adapters_and_which_of_them_are_on_are_part_of_it() -> None:
    model = make_model("llama")
    seen = {attndb.hf.fingerprint(model)}
    attention = model.model.layers[0].self_attn
    adapter = attention.k_proj = _Adapter(attention.k_proj)
    seen.add(attndb.hf.fingerprint(model))
    with torch.no_grad():
        adapter.delta["b"].add_(0.1)
    seen.add(attndb.hf.fingerprint(model))
    adapter.active_adapters = ["b"]
    seen.add(attndb.hf.fingerprint(model))
    adapter.scaling["b"] = 0.5
    seen.add(attndb.hf.fingerprint(model))
    adapter.disable_adapters = True
    seen.add(attndb.hf.fingerprint(model))
    assert len(seen) == 6


def test_a_prefix_of_another_adapter_is_not_reused(db: attndb.DB) -> None:
    model = make_model("llama")
    attention = model.model.layers[0].self_attn
    adapter = attention.k_proj = _Adapter(attention.k_proj)
    with torch.no_grad():
        adapter.delta["b"].add_(0.1)
    attndb.hf.use(model)
    ids = make_prompt(20)
    cache, given = attndb.hf.create_session(db, model, ids)
    with torch.no_grad():
        model(**given, past_key_values=cache)
    cache.store()
    assert attndb.hf.create_session(db, model, ids)[0].num_reused == 19
    adapter.active_adapters = ["b"]
    assert attndb.hf.create_session(db, model, ids)[0].num_reused == 0
    with pytest.raises(attndb.FailedPreconditionError, match="weights or config changed"):
        cache.store()


def _tokenizer(words: dict[str, int]) -> Any:
    backend = Tokenizer(models.WordLevel(words, unk_token="?"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="?", pad_token="?")


def test_the_tokenizer_is_part_of_it_if_given(db: attndb.DB) -> None:
    model = make_model("llama")
    tokenizer, other = _tokenizer({"?": 0, "a": 1, "b": 2}), _tokenizer({"?": 0, "a": 2, "b": 1})
    first = attndb.hf.fingerprint(model, tokenizer)
    assert first not in (attndb.hf.fingerprint(model), attndb.hf.fingerprint(model, other))
    tokenizer(["a", "a b"], padding=True, truncation=True, max_length=1)  # Sets its state.
    assert attndb.hf.fingerprint(model, tokenizer) == first
    grown = _tokenizer({"?": 0, "a": 1, "b": 2})
    assert attndb.hf.fingerprint(model, grown) == first
    grown.add_tokens(["c"])
    assert attndb.hf.fingerprint(model, grown) != first
    attndb.hf.use(model, tokenizer=tokenizer)
    assert attndb.hf.spec(model).fingerprint == first
    encoded = tokenizer(["a b a", "b"], padding=True, padding_side="left", return_tensors="pt")
    cache, given = attndb.hf.create_session(db, model, encoded)
    with torch.no_grad():
        model(**given, past_key_values=cache)
    assert cache.token_ids(0) == [1, 2, 1] and cache.token_ids(1) == [2]
    assert cache.store()


def test_one_given_to_use_is_taken_as_it_is(db: attndb.DB, num_reads: list[int]) -> None:
    model = attndb.hf.use(make_model("llama"), fingerprint=b"mine")
    cache, given = attndb.hf.create_session(db, model, make_prompt(10))
    with torch.no_grad():
        model(**given, past_key_values=cache)
    assert cache.store() and db.list()[0].fingerprint == b"mine"
    assert not num_reads


def test_tensors_without_bytes_are_refused() -> None:
    model = make_model("llama")
    model.model.norm.weight = torch.nn.Parameter(torch.empty(64, device="meta"))
    with pytest.raises(attndb.UnsupportedError, match=r"use\(model, fingerprint=...\)"):
        attndb.hf.fingerprint(model)
