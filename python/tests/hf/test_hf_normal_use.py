"""A model that attndb is used with does everything else as before, to the bit."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import threading
from typing import Any

import pytest
import torch
from transformers import DynamicCache

import attndb
import attndb.hf
from hf_models import IS_OLD, generate, make_model, make_prompt


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_forwards_without_an_attndb_cache_are_bit_identical(
    db: attndb.DB, name: str, implementation: str
) -> None:
    plain, used = make_model(name), attndb.hf.use(make_model(name))
    for model in (plain, used):
        model.set_attn_implementation(implementation)
    ids = make_prompt(40)
    mask = torch.ones(2, 40, dtype=torch.int64)
    mask[1, :9] = 0
    batch = make_prompt(40, batch=2)
    for _ in range(2):
        outputs = []
        for model in (plain, used):
            with torch.no_grad():
                logits = [
                    model(ids).logits,
                    model(ids, use_cache=False).logits,
                    model(ids, past_key_values=DynamicCache(config=model.config)).logits,
                    model(batch, attention_mask=mask).logits,
                    *generate(model, batch, attention_mask=mask, num_beams=2).logits,
                ]
                if name == "llama" or not IS_OLD:
                    lookup = {"prompt_lookup_num_tokens": 3, "eos_token_id": 1}
                    logits += generate(model, ids, **lookup).logits
                outputs.append(logits)
        assert all(torch.equal(a, b) for a, b in zip(*outputs, strict=True))
        assert used.config._attn_implementation == implementation
        cache, _ = attndb.hf.create_session(db, used, ids)
        generate(used, ids, past_key_values=cache)


def test_attentions_and_gradients_of_normal_use_are_there(db: attndb.DB) -> None:
    model = attndb.hf.use(make_model("llama"))
    ids = make_prompt(12)
    attentions = model(ids, output_attentions=True).attentions
    assert len(attentions) == 3 and attentions[0].shape == (1, 8, 12, 12)
    model(ids, labels=ids).loss.backward()
    assert model.model.layers[0].self_attn.k_proj.weight.grad.abs().sum() > 0


def test_forwards_of_two_threads_do_not_disturb_each_other(db: attndb.DB) -> None:
    """One runs under attndb while others use the model as ever: the config they share is turned to
    attndb and back in the middle of their forwards."""
    model = attndb.hf.use(make_model("gemma3"))
    ids = make_prompt(40)
    expected = generate(model, ids, max_new_tokens=60)
    stop = threading.Event()
    wrong: list[str] = []

    def use_normally() -> None:
        while not stop.is_set():
            out = generate(model, ids, max_new_tokens=12)
            if not torch.equal(torch.cat(out.logits), torch.cat(expected.logits[:12])):
                wrong.append("normal use")

    threads = [threading.Thread(target=use_normally) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            cache, given = attndb.hf.create_session(db, model, ids)
            out = generate(model, ids, past_key_values=cache, max_new_tokens=60)
            assert torch.equal(out.sequences, expected.sequences)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong
    assert model.config._attn_implementation == "eager"


def test_two_caches_in_two_threads_agree(db: attndb.DB) -> None:
    model = attndb.hf.use(make_model("llama"))
    prompts = [make_prompt(length, seed=length) for length in (30, 41)]
    expected = [generate(model, prompt).sequences for prompt in prompts]
    results: dict[int, torch.Tensor] = {}

    def run(number: int) -> None:
        for _ in range(3):
            cache, _ = attndb.hf.create_session(db, model, prompts[number])
            results[number] = generate(model, prompts[number], past_key_values=cache).sequences

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(results[i], expected[i]) for i in range(2))


def test_stop_takes_everything_back(db: attndb.DB) -> None:
    model = make_model("llama")
    before = _hooks(model)
    attndb.hf.stop(model)
    attndb.hf.use(model)
    attndb.hf.use(model)
    assert _hooks(model) == [before[0] + 2, before[1] + 1]
    cache, given = attndb.hf.create_session(db, model, make_prompt(10))
    with torch.no_grad():
        model(**given, past_key_values=cache)
    attndb.hf.stop(model)
    assert _hooks(model) == before
    with pytest.raises(attndb.FailedPreconditionError, match="use"), torch.no_grad():
        model(make_prompt(1), past_key_values=cache)
    with pytest.raises(attndb.FailedPreconditionError, match="use"):
        attndb.hf.create_session(db, model, make_prompt(10))
    cache.crop(0)
    assert cache.store() == 1


def _hooks(model: Any) -> list[int]:
    hooks = sum(len(part._forward_pre_hooks) + len(part._forward_hooks) for part in model.modules())
    wrapped = sum("prepare_inputs_for_generation" in part.__dict__ for part in model.modules())
    return [hooks, wrapped]


def test_nothing_is_left_in_the_config(tmp_path: Any) -> None:
    model = make_model("llama")
    before = model.config.to_json_string()
    attndb.hf.use(model)
    assert model.config.to_json_string() == before
    model.save_pretrained(tmp_path / "model")
    assert "attndb" not in json.dumps(json.loads((tmp_path / "model/config.json").read_text()))


def test_a_deep_copy_of_the_model_is_used_on_its_own(db: attndb.DB) -> None:
    model = attndb.hf.use(make_model("llama"))
    copied = copy.deepcopy(model)
    ids = make_prompt(20)
    cache, _ = attndb.hf.create_session(db, copied, ids)
    ours = generate(copied, ids, past_key_values=cache)
    assert torch.equal(ours.sequences, generate(model, ids).sequences)
    with pytest.raises(attndb.InvalidArgumentError, match="another model object"):
        generate(model, torch.cat([ours.sequences, ids], dim=1), past_key_values=cache)


def test_the_name_alone_set_by_hand_is_refused() -> None:
    model = make_model("llama")
    attndb.hf.spec(model)  # Registers the functions.
    model.set_attn_implementation("attndb")
    with pytest.raises(attndb.FailedPreconditionError, match="set by name"), torch.no_grad():
        model(make_prompt(10))


def test_the_base_model_alone_can_be_used(db: attndb.DB) -> None:
    base = attndb.hf.use(make_model("llama").model)
    ids = make_prompt(20)
    cache, given = attndb.hf.create_session(db, base, ids)
    with torch.no_grad():
        ours = base(given["input_ids"], given["attention_mask"], past_key_values=cache)
        assert (ours.last_hidden_state - base(ids).last_hidden_state).abs().max() <= 1e-4


@pytest.mark.parametrize("backend", ["eager"])
def test_a_compiled_model_agrees_or_raises(db: attndb.DB, backend: str) -> None:
    model = attndb.hf.use(make_model("llama"))
    ids = make_prompt(20)
    expected = model(ids).logits
    cache, given = attndb.hf.create_session(db, model, ids)
    compiled = torch.compile(model, backend=backend)
    with torch.no_grad():
        try:
            ours = compiled(**given, past_key_values=cache).logits
        except Exception:  # noqa: BLE001: whatever the compiler says; not wrong logits.
            return
    assert (ours - expected).abs().max() <= 1e-4


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        ("sys.modules['torch'] = None", "attndb.hf needs torch: pip install torch"),
        (
            "sys.modules['transformers'] = None",
            "attndb.hf needs transformers: pip install transformers",
        ),
        (
            "sys.modules['transformers'] = types.SimpleNamespace(__version__='4.57.1')",
            "attndb.hf needs transformers >= 5.12, found 4.57.1",
        ),
    ],
    ids=["torch", "transformers", "old transformers"],
)
def test_what_is_missing_is_asked_for_by_name(prepare: str, message: str) -> None:
    code = f"import sys, types; import attndb; {prepare}; import attndb.hf"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 1 and run.stderr.strip().endswith(f"ImportError: {message}")
