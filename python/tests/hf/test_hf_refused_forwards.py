"""What a forward can't honour raises before any token is made, and the cache says where it stands.

Refusals before the forward begins leave the cache as it was; failures inside ask for crop or reset.
"""

from __future__ import annotations

import copy
import inspect
import threading
from typing import Any

import pytest
import torch
from transformers import DynamicCache, EncoderDecoderCache

import attndb
import attndb.hf
from hf_models import generate, make_model, make_prompt

PREFIX = 20


@pytest.fixture(scope="module")
def model() -> Any:
    return attndb.hf.use(make_model("llama"))


@pytest.fixture
def ids() -> torch.Tensor:
    return make_prompt(30)


@pytest.fixture
def cache(db: attndb.DB, model: Any, ids: torch.Tensor) -> Any:
    """Holds the first PREFIX tokens of `ids`."""
    cache, _ = attndb.hf.create_session(db, model, ids)
    with torch.no_grad():
        model(ids[:, :PREFIX], past_key_values=cache)
    return cache


def _arguments(ids: torch.Tensor, **changes: Any) -> dict[str, Any]:
    return {"input_ids": ids[:, PREFIX:], **changes}


def _mask(*zeros: int) -> torch.Tensor:
    mask = torch.ones(1, 30, dtype=torch.int64)
    mask[0, list(zeros)] = 0
    return mask


POSITIONS = torch.arange(PREFIX, 30)[None]
FOUR_D = torch.ones(1, 1, 10, 30, dtype=torch.bool)
REFUSED: dict[str, tuple[dict[str, Any], type[attndb.Error], str]] = {
    "weights asked for": (
        {"output_attentions": True},
        attndb.UnsupportedError,
        "output_attentions",
    ),
    "a mask of four dimensions": ({"attention_mask": FOUR_D}, attndb.UnsupportedError, "1, 1, 10"),
    "a mask by layer type": (
        {"attention_mask": {"full_attention": FOUR_D}},
        attndb.UnsupportedError,
        "expected .batch, columns. of 0 and 1, found dict",
    ),
    "a mask of other values": (
        {"attention_mask": _mask() * -1e9},
        attndb.UnsupportedError,
        "expected 0 and 1, found other values",
    ),
    "a hole in the mask": (
        {"attention_mask": _mask(0, 1, 7)},
        attndb.UnsupportedError,
        "row 0 has a hole",
    ),
    "padding on the right": (
        {"attention_mask": _mask(28, 29)},
        attndb.UnsupportedError,
        "row 0 has padding on the right",
    ),
    "nothing but padding": (
        {"attention_mask": _mask(*range(30))},
        attndb.InvalidArgumentError,
        "row 0 masks all its tokens",
    ),
    "padding that was not there": (
        {"attention_mask": _mask(0, 1)},
        attndb.InvalidArgumentError,
        "row 0 has 2 columns of padding; the cache was made with 0",
    ),
    "a mask of the wrong length": (
        {"attention_mask": torch.ones(1, 25)},
        attndb.InvalidArgumentError,
        r"expected \[1, 30\], as the cache holds 20 columns and 10 are given; found \[1, 25\]",
    ),
    "positions that are not the index": (
        {"position_ids": POSITIONS + 1},
        attndb.InvalidArgumentError,
        r"the last ones are \[30\], expected a token's index in its sequence: \[29\]",
    ),
    "positions that jump": (
        {"position_ids": torch.cat([POSITIONS[:, :3], POSITIONS[:, :7] + 3], dim=1).index_fill(
            1, torch.tensor([4]), 3
        )},
        attndb.InvalidArgumentError,
        "row 0 column 4: expected the token's index in its sequence, 24, found 3",
    ),
    "positions of several axes": (
        {"position_ids": POSITIONS.expand(3, 1, 10)},
        attndb.UnsupportedError,
        r"expected \[batch, columns\], found \[3, 1, 10\]",
    ),
    "too few positions": (
        {"position_ids": POSITIONS[:, 5:]},
        attndb.InvalidArgumentError,
        r"expected \[1, 10\], found \[1, 5\]",
    ),
    "attention in both directions": (
        {"is_causal": False},
        attndb.UnsupportedError,
        "is_causal=False",
    ),
    "masked heads": (
        {"head_mask": torch.ones(3, 8)},
        attndb.UnsupportedError,
        "LlamaModel: argument 'head_mask'",
    ),
    "token types": (
        {"token_type_ids": torch.ones(1, 10)},
        attndb.UnsupportedError,
        "LlamaModel: argument 'token_type_ids'",
    ),
    "packed sequences": (
        {"cu_seq_lens_q": torch.tensor([0, 10])},
        attndb.UnsupportedError,
        "LlamaModel: argument 'cu_seq_lens_q'",
    ),
    "ids of another prompt": (
        {"input_ids": make_prompt(10, seed=77)},
        attndb.InvalidArgumentError,
        r"token \d+ is \d+; the cache was made for a prompt with \d+ there",
    ),
    "more rows": (
        {"input_ids": make_prompt(10, batch=3)},
        attndb.InvalidArgumentError,
        "3 rows, the cache has 1; use batch_repeat_interleave",
    ),
    "no column": (
        {"input_ids": make_prompt(10)[:, :0]},
        attndb.InvalidArgumentError,
        "expected one or more columns",
    ),
}


@pytest.mark.parametrize("reason", sorted(REFUSED))
def test_a_forward_is_refused_and_the_cache_stays_as_it_was(
    model: Any, cache: Any, ids: torch.Tensor, reason: str
) -> None:
    changes, kind, message = REFUSED[reason]
    with torch.no_grad():
        with pytest.raises(kind, match=message):
            model(**_arguments(ids, **changes), past_key_values=cache)
        assert cache.get_seq_length() == PREFIX and cache.session.num_tokens == PREFIX
        assert model.config._attn_implementation == "eager"
        logits = model(**_arguments(ids), past_key_values=cache).logits
        assert (logits - model(ids).logits[:, PREFIX:]).abs().max() <= 1e-4


def test_mask_and_positions_that_disagree_are_refused(
    model: Any, cache: Any, ids: torch.Tensor
) -> None:
    with pytest.raises(attndb.InvalidArgumentError, match="disagree"), torch.no_grad():
        model(ids, position_ids=torch.arange(30)[None], attention_mask=torch.ones(1, 50),
              past_key_values=cache)


def test_given_ids_must_be_those_that_are_held(model: Any, cache: Any, ids: torch.Tensor) -> None:
    other = ids.clone()
    other[0, 4] += 1
    with pytest.raises(attndb.InvalidArgumentError, match="token 4 is .*; the cache holds"):
        model(other, attention_mask=torch.ones(1, 30), past_key_values=cache)


def test_attentions_asked_for_by_generate_or_config_are_refused(
    db: attndb.DB, ids: torch.Tensor
) -> None:
    model = attndb.hf.use(make_model("llama"))
    cache, given = attndb.hf.create_session(db, model, ids)
    with pytest.raises(attndb.UnsupportedError, match="output_attentions"):
        model.generate(
            **given, past_key_values=cache, return_dict_in_generate=True, output_attentions=True
        )
    model.config.output_attentions = True
    with pytest.raises(attndb.UnsupportedError, match="output_attentions"), torch.no_grad():
        model(**given, past_key_values=cache)


def test_dropout_in_training_is_refused(db: attndb.DB, ids: torch.Tensor) -> None:
    model = attndb.hf.use(make_model("llama", attention_dropout=0.1))
    cache, given = attndb.hf.create_session(db, model, ids)
    model.train()
    with pytest.raises(attndb.UnsupportedError, match="layer 0: attention dropout 0.1"):
        model(**given, past_key_values=cache)
    assert cache.session.num_tokens == 0


def test_gradient_checkpointing_is_refused_by_name(db: attndb.DB, ids: torch.Tensor) -> None:
    model = attndb.hf.use(make_model("llama"))
    model.gradient_checkpointing_enable()
    cache, given = attndb.hf.create_session(db, model, ids)
    with torch.no_grad():
        expected = model(**given, past_key_values=cache).logits  # Not in use while it evaluates.
        cache.reset()
        model.train()
        with pytest.raises(attndb.UnsupportedError, match="gradient checkpointing.*_disable"):
            model(**given, past_key_values=cache)
        assert cache.session.num_tokens == 0
        model.gradient_checkpointing_disable()
        assert torch.equal(model(**given, past_key_values=cache).logits, expected)


@pytest.mark.parametrize(
    ("position_ids", "found"),
    [
        (torch.arange(30), r"\[30\]"),
        (torch.arange(30).expand(3, 1, 30), r"\[3, 1, 30\]"),
        (list(range(30)), "list"),
    ],
    ids=["one dimension", "several axes", "a list"],
)
def test_positions_of_another_shape_are_refused_on_an_unused_cache(
    db: attndb.DB, model: Any, ids: torch.Tensor, position_ids: Any, found: str
) -> None:
    cache, given = attndb.hf.create_session(db, model, ids, reuse=False)
    with torch.no_grad(), cache:
        message = rf"position_ids: expected \[batch, columns\], found {found}"
        with pytest.raises(attndb.UnsupportedError, match=message):
            model(**given, position_ids=position_ids, past_key_values=cache)
        message = r"expected \[1, 30\], found \[1, 29\]"
        with pytest.raises(attndb.InvalidArgumentError, match=message):
            model(**given, position_ids=torch.arange(29)[None], past_key_values=cache)
        assert cache.session.num_tokens == 0


def test_there_is_no_gradient_through_attention(db: attndb.DB, ids: torch.Tensor) -> None:
    """A forward with gradients on gives its logits; asking for the gradients raises."""
    model = attndb.hf.use(make_model("llama"))
    cache, given = attndb.hf.create_session(db, model, ids)
    logits = model(**given, past_key_values=cache).logits
    assert (logits - model(ids).logits).abs().max() <= 1e-4
    with pytest.raises(attndb.UnsupportedError, match="no gradient"):
        logits.sum().backward()
    model(ids).logits.sum().backward()
    assert model.model.layers[0].self_attn.q_proj.weight.grad is not None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"s_aux": torch.ones(8)}, r"layer 1: Arguments.*denominator_logits=\(1.0, .*, expected"),
        ({"s_aux": torch.ones(7)}, r"layer 1: .* 's_aux' of shape \[8\].*, found \[7\]"),
        ({"s_aux": torch.ones(1, 8, 30, 1)}, r"layer 1: .* 's_aux' of shape \[8\]"),
        ({"sinks": torch.ones(8)}, "layer 1: attention argument 'sinks' .attention sinks that"),
        ({"some_new_thing": 3}, "layer 1: attention argument 'some_new_thing'"),
        ({"is_causal": False}, "layer 1: attention argument 'is_causal'"),
        ({"sliding_window": 4}, "layer 1: Arguments.*sliding_window=4.*, expected"),
        ({"softcap": 30.0}, "layer 1: Arguments.*soft_cap=30.0"),
        ({"scaling": 0.5}, r"layer 1: Arguments.scaling=0.5"),
        ({"attention_mask": FOUR_D}, "layer 1: expected no mask beyond causality"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_attention_arguments_that_use_did_not_see_are_refused(
    db: attndb.DB, ids: torch.Tensor, changes: dict[str, Any], message: str
) -> None:
    """As if the model's code passed them in one layer, from some forward on."""
    model = attndb.hf.use(make_model("llama"))
    cache, given = attndb.hf.create_session(db, model, ids)
    layer = model.model.layers[1].self_attn
    forward = layer.forward

    def changed(*args: Any, **kwargs: Any) -> Any:
        scaling, layer.scaling = layer.scaling, changes.get("scaling", layer.scaling)
        try:
            more = {key: value for key, value in changes.items() if key != "scaling"}
            return forward(*args, **{**kwargs, **more})
        finally:
            layer.scaling = scaling

    layer.forward = changed
    with torch.no_grad():
        with pytest.raises(attndb.UnsupportedError, match=message):
            model(**given, past_key_values=cache)
        layer.forward = forward
        with pytest.raises(attndb.FailedPreconditionError, match=r"call cache.crop\(0\)"):
            model(**given, past_key_values=cache)
        cache.crop(0)
        logits = model(**given, past_key_values=cache).logits
        assert (logits - model(ids).logits).abs().max() <= 1e-4


def test_a_mask_that_use_did_not_see_is_refused(
    db: attndb.DB, ids: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As models do that let blocks of image tokens see each other."""
    import transformers.models.llama.modeling_llama as modeling

    model = attndb.hf.use(make_model("llama"))
    create = modeling.create_causal_mask
    changes = {
        "or_mask_function": lambda b, h, q, k: q == k,
        "and_mask_function": lambda b, h, q, k: q != k + 3,
        "block_sequence_ids": torch.zeros(1, 30, dtype=torch.int64),  # transformers 5.23
    }
    for name in changes.keys() & inspect.signature(create).parameters.keys():
        monkeypatch.setattr(
            modeling,
            "create_causal_mask",
            lambda name=name, **kw: create(**kw, **{name: changes[name]}),
        )
        cache, given = attndb.hf.create_session(db, model, ids)
        with torch.no_grad(), pytest.raises(attndb.UnsupportedError, match="other than causal"):
            model(**given, past_key_values=cache)


def test_a_window_that_use_did_not_see_is_refused(
    db: attndb.DB, ids: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers.models.mistral.modeling_mistral as modeling

    model = attndb.hf.use(make_model("mistral"))
    create = modeling.create_sliding_window_causal_mask

    def with_other_window(**kwargs: Any) -> Any:
        window, kwargs["config"].sliding_window = kwargs["config"].sliding_window, 9
        try:
            return create(**kwargs)
        finally:
            kwargs["config"].sliding_window = window

    monkeypatch.setattr(modeling, "create_sliding_window_causal_mask", with_other_window)
    cache, given = attndb.hf.create_session(db, model, ids)
    with torch.no_grad(), pytest.raises(attndb.UnsupportedError, match="other than causal"):
        model(**given, past_key_values=cache)


def test_a_layer_that_does_not_attend_through_attndb_is_noticed(
    db: attndb.DB, ids: torch.Tensor
) -> None:
    """A silent other implementation would attend to the new tokens only."""
    model = attndb.hf.use(make_model("llama"))
    cache, given = attndb.hf.create_session(db, model, ids)
    layer = model.model.layers[2].self_attn
    layer.config = type(layer.config)(**layer.config.to_dict())
    layer.config._attn_implementation = "sdpa"
    with torch.no_grad(), pytest.raises(attndb.UnsupportedError, match=r"layers \[2\] did not"):
        model(**given, past_key_values=cache)
    with pytest.raises(attndb.FailedPreconditionError, match="failed in the middle"):
        cache.store()


def test_caches_and_models_that_do_not_belong_together_are_refused(
    db: attndb.DB, model: Any, cache: Any, ids: torch.Tensor
) -> None:
    other = make_model("llama", seed=5)
    with torch.no_grad():
        with pytest.raises(attndb.FailedPreconditionError, match=r"attndb.hf.use\(model\)"):
            other(ids[:, PREFIX:], past_key_values=cache)
        attndb.hf.use(other)
        with pytest.raises(attndb.InvalidArgumentError, match="made for another model object"):
            other(ids[:, PREFIX:], past_key_values=cache)
        wrapped = EncoderDecoderCache(cache, DynamicCache(config=model.config))
        with pytest.raises(attndb.UnsupportedError, match="inside of EncoderDecoderCache"):
            model(ids[:, PREFIX:], past_key_values=wrapped)
    with pytest.raises(attndb.FailedPreconditionError, match="use"):
        attndb.hf.create_session(db, make_model("llama"), ids)
    assert cache.get_seq_length() == PREFIX


def test_weights_that_change_under_a_cache_are_noticed(db: attndb.DB, ids: torch.Tensor) -> None:
    model = attndb.hf.use(make_model("llama"))
    cache, given = attndb.hf.create_session(db, model, ids)
    with torch.no_grad():
        model(ids[:, :PREFIX], past_key_values=cache)
        model.model.layers[0].mlp.up_proj.weight.mul_(1.01)
        with pytest.raises(attndb.FailedPreconditionError, match="weights changed"):
            model(ids[:, PREFIX:], past_key_values=cache)
    with pytest.raises(attndb.FailedPreconditionError, match="weights or config changed"):
        cache.store()


def _replace_norm(model: Any) -> None:
    model.model.norm.weight = torch.nn.Parameter(model.model.norm.weight * 1.01)


def _load_by_assignment(model: Any) -> None:
    state = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(state, assign=True)


def _add_bias(model: Any) -> None:
    proj = model.model.layers[-1].mlp.down_proj
    proj.bias = torch.nn.Parameter(torch.ones(proj.out_features))


def _add_adapter(model: Any) -> None:
    attention = model.model.layers[0].self_attn
    attention.v_proj = torch.nn.Sequential(attention.v_proj, torch.nn.Dropout(0.0))


def _add_unused_parameter(model: Any) -> None:
    model.model.norm.register_parameter("extra", torch.nn.Parameter(torch.ones(1)))


@pytest.mark.parametrize(
    "change", [_replace_norm, _load_by_assignment, _add_bias, _add_adapter, _add_unused_parameter]
)
def test_weights_that_are_put_in_others_place_are_noticed(
    db: attndb.DB, ids: torch.Tensor, change: Any
) -> None:
    model = attndb.hf.use(make_model("llama"))
    cache, _ = attndb.hf.create_session(db, model, ids)
    with torch.no_grad():
        model(ids[:, :PREFIX], past_key_values=cache)
        change(model)
        for _ in range(2):
            with pytest.raises(attndb.FailedPreconditionError, match="weights changed"):
                model(ids[:, PREFIX:], past_key_values=cache)
        later, _ = attndb.hf.create_session(db, model, ids)  # One of the model as it is now.
        logits = model(ids, past_key_values=later).logits
        assert (logits - model(ids).logits).abs().max() <= 1e-4


def test_a_deep_copy_of_a_model_notices_its_own_weights(
    db: attndb.DB, ids: torch.Tensor
) -> None:
    model = copy.deepcopy(attndb.hf.use(make_model("llama")))
    cache, _ = attndb.hf.create_session(db, model, ids)
    with torch.no_grad():
        model(ids[:, :PREFIX], past_key_values=cache)
        _replace_norm(model)
        with pytest.raises(attndb.FailedPreconditionError, match="weights changed"):
            model(ids[:, PREFIX:], past_key_values=cache)


def test_a_failure_in_the_middle_asks_for_crop_or_reset(
    model: Any, cache: Any, ids: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = ids[:, PREFIX:]
    with torch.no_grad():
        for error in (MemoryError, KeyboardInterrupt):
            with monkeypatch.context() as patch:
                patch.setattr(model.model.layers[1].mlp, "forward", _raising(error))
                with pytest.raises(error):
                    model(rest, past_key_values=cache)
            for use in (
                lambda: model(rest, past_key_values=cache),
                lambda: cache.store(),
                lambda: cache.fork(),
                lambda: cache.reorder_cache(torch.tensor([0])),
            ):
                with pytest.raises(attndb.FailedPreconditionError, match="crop"):
                    use()
            expected = model(ids).logits[:, PREFIX:]  # Other forwards are not disturbed.
            assert model.config._attn_implementation == "eager"
            assert (expected - make_model("llama")(ids).logits[:, PREFIX:]).abs().max() == 0
            cache.crop(0)
            assert cache.session.num_tokens == cache.get_seq_length() == PREFIX
            logits = model(rest, past_key_values=cache).logits
            assert (logits - expected).abs().max() <= 1e-4
            cache.crop(-10)


def test_an_interrupt_leaves_other_caches_alone(
    model: Any, cache: Any, ids: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even before the interrupted cache is cropped: torch calls no hooks after an interrupt."""
    expected = model(ids).logits
    with monkeypatch.context() as patch, torch.no_grad():
        patch.setattr(model.model.layers[1].mlp, "forward", _raising(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            model(ids[:, PREFIX:], past_key_values=cache)
    with torch.no_grad():
        assert torch.equal(model(ids).logits, expected)
        out = generate(model, ids, max_new_tokens=4)
    untouched = generate(make_model("llama"), ids, max_new_tokens=4)
    assert torch.equal(out.sequences, untouched.sequences)
    cache.reset()
    assert model.config._attn_implementation == "eager"


def test_another_thread_is_refused_while_a_forward_runs(
    model: Any, cache: Any, ids: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[BaseException] = []

    def in_other_thread() -> None:
        try:
            with torch.no_grad():
                model(ids[:, PREFIX:], past_key_values=cache)
        except attndb.Error as error:
            errors.append(error)

    layer = model.model.layers[1].mlp
    forward = layer.forward

    def meanwhile(*args: Any) -> Any:
        monkeypatch.setattr(layer, "forward", forward)
        thread = threading.Thread(target=in_other_thread)
        thread.start()
        thread.join()
        return forward(*args)

    monkeypatch.setattr(layer, "forward", meanwhile)
    with torch.no_grad():
        logits = model(ids[:, PREFIX:], past_key_values=cache).logits
    assert len(errors) == 1 and "another thread" in str(errors[0])
    assert (logits - model(ids).logits[:, PREFIX:]).abs().max() <= 1e-4


def test_a_session_used_without_its_cache_is_noticed(
    model: Any, cache: Any, ids: torch.Tensor
) -> None:
    cache.session.crop(PREFIX - 1)
    with pytest.raises(attndb.FailedPreconditionError, match="used without the cache"):
        model(ids[:, PREFIX:], past_key_values=cache)


def test_a_closed_cache_is_refused(model: Any, cache: Any, ids: torch.Tensor) -> None:
    cache.close()
    with pytest.raises(attndb.FailedPreconditionError, match="the cache is closed"):
        model(ids[:, PREFIX:], past_key_values=cache)


@pytest.mark.parametrize(
    ("input_ids", "mask", "message"),
    [
        (torch.zeros(0, dtype=torch.int64), None, "one or more"),
        (torch.zeros(1, 3), None, "expected integers"),
        (torch.zeros(1, 1, 3, dtype=torch.int64), None, "expected integers"),
        (torch.zeros(1, 3, dtype=torch.int64), torch.ones(1, 4), "as input_ids, found"),
        ([[1, 2], [3]], torch.ones(2, 2), "padded here"),
        (torch.zeros(1, 3, dtype=torch.int64), torch.zeros(1, 3), "masks all its tokens"),
    ],
)
def test_prompts_of_a_wrong_form_are_refused(
    db: attndb.DB, model: Any, input_ids: Any, mask: Any, message: str
) -> None:
    with pytest.raises(attndb.InvalidArgumentError, match=message):
        attndb.hf.create_session(db, model, input_ids, attention_mask=mask)


def test_a_wrong_plan_or_context_closes_what_was_opened(db: attndb.DB, model: Any) -> None:
    with pytest.raises(attndb.InvalidArgumentError, match="plan"):
        attndb.hf.create_session(db, model, [1, 2, 3], plan="fuzzy(3)")
    with pytest.raises(attndb.NotFoundError):
        attndb.hf.create_session(db, model, [1, 2, 3], context="nobody")
    assert db.stats().num_sessions == 0


def test_kv_dtype_must_be_known() -> None:
    with pytest.raises(attndb.InvalidArgumentError, match="kv_dtype"):
        attndb.hf.use(make_model("llama"), kv_dtype="float8")  # type: ignore[arg-type]


def _raising(error: type[BaseException]) -> Any:
    def forward(*args: Any) -> Any:
        raise error

    return forward
