"""Goal:   one model, two engines: what llama.cpp read serves transformers, and the other way round,
        once the fingerprints are declared equal; not before.
Method: SmolLM2 and the shipped text. The command line imports it; transformers goes on from there.
        transformers stores the same ids; the command line answers from them. llama.cpp multiplies
        4-bit weights by activations rounded to 8 bits, transformers uses float32: logits differ by
        that noise, so they are held against what keys of the wrong RoPE layout would do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import attndb
import attndb.hf
from smollm2 import FILE, MODELS, load_model, load_tokenizer

pytestmark = pytest.mark.skipif(not (MODELS / FILE).exists(), reason="`make setup` gets SmolLM2")

TEXT = Path(__file__).resolve().parents[3] / "examples" / "data" / "lighthouse.md"
QUESTION = "Who is the captain of the Petrel?"
ANSWER = "Tom Garrick"
NAME = b"SmolLM2 in float32"


def run_attndb(store: Path, *words: str) -> Any:
    run = subprocess.run(
        [sys.executable, "-m", "attndb", *words, "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, "ATTNDB_PATH": str(store), "ATTNDB_MODELS": str(MODELS)},
    )
    assert run.returncode == 0, run.stderr + run.stdout
    return json.loads(run.stdout)


@pytest.fixture(scope="module")
def model() -> Any:
    loaded = load_model()
    attndb.hf.use(loaded, fingerprint=NAME, kv_dtype="float16")
    return loaded


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which llama.cpp read the text: here, or before in the one that ATTNDB_TEST_STORE
    names, where the import then finds it."""
    store = tmp_path_factory.mktemp("interchange") / "llama"
    if "ATTNDB_TEST_STORE" in os.environ:
        shutil.copytree(os.environ["ATTNDB_TEST_STORE"], store)
    run_attndb(store, "import", str(TEXT), "--name", "text")
    return store


def question_ids() -> torch.Tensor:
    return load_tokenizer()(f"\n\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n").input_ids


@torch.inference_mode()
def continue_from(model: Any, db: attndb.DB, text: list[int]) -> tuple[torch.Tensor, int]:
    """Logits of the question's tokens, and how many of the text's were not run."""
    ids = torch.tensor([text + question_ids()])
    cache, given = attndb.hf.create_session(db, model, ids)
    with cache:
        logits = model(**given, past_key_values=cache).logits[0, -len(question_ids()) :]
        return logits, cache.num_reused


@torch.inference_mode()
def test_transformers_goes_on_from_what_llama_cpp_read(
    model: Any, imported: Path, tmp_path: Path
) -> None:
    with attndb.open(imported) as db:
        text = db.tokens("text").tolist()
        logits, num_reused = continue_from(model, db, text)
        assert num_reused == 0
        db.declare_equal(db.describe("text").fingerprint, NAME)
        from_llama, num_reused = continue_from(model, db, text)
        assert num_reused == len(text) > 2000
        wrong = _with_interleaved_keys(model, db, tmp_path / "wrong")
    with wrong:
        from_wrong, num_reused = continue_from(model, wrong, text)
        assert num_reused == len(text)
    distance = (from_llama - logits).abs().mean()
    assert distance < 0.05 * (from_wrong - logits).abs().mean()
    agree = from_llama.argmax(-1) == logits.argmax(-1)
    assert agree.float().mean() >= 0.9


def _with_interleaved_keys(model: Any, db: attndb.DB, store: Path) -> attndb.DB:
    """The control: the same keys, as if nobody had converted them."""
    spec, text = attndb.hf.spec(model), db.tokens("text")
    session = db.create_session(spec, [*text, 0]).session  # One more: all of the text is reused.
    layers = []
    for layer in range(spec.num_layers):
        k, v = session.read_kv(layer)
        halves = np.stack([k[..., :32], k[..., 32:]], axis=-1).reshape(k.shape)
        layers.append((halves, v))
    wrong = attndb.open(store)
    wrong.import_context(spec, text, layers)
    return wrong


def test_llama_cpp_answers_from_what_transformers_read(
    model: Any, imported: Path, tmp_path: Path
) -> None:
    with attndb.open(imported, read_only=True) as db:
        text, fingerprint = db.tokens("text"), db.describe("text").fingerprint
    store = tmp_path / "transformers"
    with attndb.open(store) as db, torch.inference_mode():
        cache, given = attndb.hf.create_session(db, model, torch.tensor(text)[None])
        model(**given, past_key_values=cache, logits_to_keep=1)
        cache.store(name="text")
        db.declare_equal(NAME, fingerprint)
    answer = run_attndb(store, "ask", "--context", "text", QUESTION)
    assert ANSWER in answer["answer"]
    # The text ends in a line's end, which the whole prompt has in one token with what follows.
    assert answer["reused_tokens"] == len(text) - 1
