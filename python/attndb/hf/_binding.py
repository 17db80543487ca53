"""The two hooks that `use` puts on a model's decoder. They make a forward with an AttndbCache a
step of that cache, and leave every other forward alone."""

from __future__ import annotations

import functools
import inspect
import itertools
import operator
import os
import types
from collections.abc import Iterator
from typing import Any

import torch
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from attndb._checked import checked
from attndb._errors import InvalidArgumentError, UnsupportedError
from attndb._spec import DType, ModelSpec
from attndb.hf import _attention, _switch
from attndb.hf._cache import AttndbCache
from attndb.hf._fingerprint import fingerprint as content_fingerprint
from attndb.hf._fingerprint import version_stamp
from attndb.hf._model_spec import (
    DTYPES,
    check_config,
    collect_configs,
    default_kv_dtype,
    find_decoder,
    layer_specs,
)
from attndb.hf._observe import observe
from attndb.hf._step import Step
from attndb.hf._step_plan import Given

# Arguments of a decoder that change neither a token's keys nor its attention.
_PASSED = frozenset(
    {
        "attention_mask",
        "input_ids",
        "inputs_embeds",
        "is_causal",
        "labels",
        "logits_to_keep",
        "num_items_in_batch",
        "output_hidden_states",
        "output_router_logits",
        "past_key_values",
        "position_ids",
        "return_dict",
        "use_cache",
    }
)


@checked
def use(
    model: Any,
    *,
    plan: str | None = None,
    tokenizer: Any = None,
    fingerprint: bytes | None = None,
    kv_dtype: DType | None = None,
    unrotated_keys: bool = False,
) -> Any:
    """Prepares `model` for caches of :func:`attndb.hf.create_session`, and returns it.

    Runs a forward of two tokens and a forward of one token, to observe the attention layers. A
    second call changes the options of later caches. Forwards without an AttndbCache stay the same.

    ``plan``: for sessions that name none; None = the store's plan. ``tokenizer``: becomes part of
    the fingerprint. ``fingerprint``: replaces the fingerprint of the content
    (:func:`attndb.hf.fingerprint`). ``kv_dtype``: dtype of stored keys and values; None = the dtype
    of the model's keys. ``unrotated_keys``: see :class:`attndb.ModelSpec`.

    Raises UnsupportedError, which names the reason: no transformers model, several models in one,
    weights not on the CPU, encoder-decoder, linear attention, recurrence, convolutions, shared KV,
    attention sinks, ALiBi, attention that is chunked or not causal, cross-attention, RoPE that
    depends on the length, position_ids that have no effect, several token ids at each position, a
    cache of transformers that forgets tokens that the model attends to, attention that is not
    called through transformers' AttentionInterface.
    """
    decoder = find_decoder(model)
    binding = _binding_of(decoder)
    if binding is None:
        binding = Binding(decoder)
        decoder.register_forward_pre_hook(binding.before_forward, with_kwargs=True)
        decoder.register_forward_hook(binding.after_forward, with_kwargs=True, always_call=True)
    if kv_dtype is not None and kv_dtype not in DTYPES.values():
        raise InvalidArgumentError(f"kv_dtype: expected {list(DTYPES.values())}, found {kv_dtype}")
    binding.plan = plan
    binding.tokenizer = tokenizer
    binding.fingerprint = fingerprint
    binding.kv_dtype = kv_dtype or binding.model_kv_dtype
    binding.unrotated_keys = unrotated_keys
    for part in model.modules():
        if isinstance(part, PreTrainedModel) and hasattr(part, "prepare_inputs_for_generation"):
            _check_prompts_of_generate(part)
    return model


@checked
def stop(model: Any) -> None:
    """Takes back :func:`use`. Does nothing if `use` was not called. Caches of the model can still
    be stored, but the model can't run them any more."""
    decoder = find_decoder(model)
    for hooks in (decoder._forward_pre_hooks, decoder._forward_hooks):
        for handle_id, hook in list(hooks.items()):
            if isinstance(getattr(hook, "__self__", None), Binding):
                del hooks[handle_id]
                decoder._forward_pre_hooks_with_kwargs.pop(handle_id, None)
                decoder._forward_hooks_with_kwargs.pop(handle_id, None)
                decoder._forward_hooks_always_called.pop(handle_id, None)
    for part in model.modules():
        part.__dict__.pop("prepare_inputs_for_generation", None)


@checked
def spec(model: Any) -> ModelSpec:
    """Returns the spec under which contexts of `model` are stored. Pass it to
    ``db.import_context``, ``db.explain_prefix`` or ``db.create_session``.

    Works without :func:`use`, and raises the same UnsupportedError.
    """
    decoder = find_decoder(model)
    return (_binding_of(decoder) or Binding(decoder)).spec(model)


def _source(model: Any) -> tuple[str, str]:
    """Returns the model's name, and the folder from which it was loaded; "" = unknown."""
    name = str(getattr(model, "name_or_path", "") or "")
    path = os.path.abspath(name) if os.path.isdir(name) else ""
    name = os.path.basename(path) or name
    fits = len(name.encode()) <= 256 and name.isprintable()
    return name if fits else "", path if len(path.encode()) <= 4096 and path.isprintable() else ""


def binding_of(model: Any) -> Binding | None:
    """Returns the Binding that `use` put on the model; None if there is none."""
    return _binding_of(find_decoder(model))


class Binding:
    """The attention layers of a decoder and the options of `use`. Its methods are the decoder's
    hooks; a deep copy of the model gets its own. Threads: forwards may overlap."""

    def __init__(self, decoder: Any) -> None:
        check_config(decoder)
        _attention.register()
        self.configs = collect_configs(decoder)
        self.layers, self.masks = observe(decoder, self.configs)
        self.model_kv_dtype = default_kv_dtype(self.layers, type(decoder).__name__)
        self.kv_dtype: DType = self.model_kv_dtype
        self.unrotated_keys = False
        self.plan: str | None = None
        self.tokenizer: Any = None
        self.fingerprint: bytes | None = None
        self._weights = _Weights(decoder)
        self._argument_names = list(inspect.signature(decoder.forward).parameters)
        self._layer_specs = layer_specs(decoder, self.layers)

    def spec(self, model: Any) -> ModelSpec:
        """Returns the present spec of `model`, which may be another model around the decoder."""
        content = self.fingerprint or content_fingerprint(model, self.tokenizer)
        return ModelSpec(
            self._layer_specs, self.kv_dtype, content, self.unrotated_keys, *_source(model)
        )

    def weights_stamp(self) -> int:
        """Returns a stamp that changes with the weights. Cheap enough for every forward."""
        return self._weights.stamp()

    def before_forward(self, module: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        self._drop_leftover()
        named = {**dict(zip(self._argument_names, args, strict=False)), **kwargs}
        cache = named.get("past_key_values")
        if isinstance(getattr(cache, "self_attention_cache", None), AttndbCache):
            raise UnsupportedError(
                f"past_key_values: an AttndbCache inside of {type(cache).__name__}"
            )
        if not isinstance(cache, AttndbCache):
            return None
        _check_arguments(module, named)
        earlier = self._run_first_pieces(module, cache, named)
        try:
            step, plan = cache.begin_step(self, _given(named))
        except BaseException:
            cache.end_pieces()
            raise
        step.plan, step.earlier = plan, earlier
        _switch.enter(step.configs)
        _switch.push(step)
        if plan.position_ids is not None:
            named["position_ids"] = plan.position_ids
        elif plan.num_dropped and named.get("position_ids") is not None:
            named["position_ids"] = named["position_ids"][:, plan.num_dropped :]
        if plan.num_dropped:
            for name in ("input_ids", "inputs_embeds"):
                if named.get(name) is not None:
                    named[name] = named[name][:, plan.num_dropped :]
        return (), named

    def _run_first_pieces(
        self, module: Any, cache: AttndbCache, named: dict[str, Any]
    ) -> list[Any]:
        """Runs the first columns in forwards of their own if tokens have to leave in the middle of
        a forward. Leaves the other columns in `named`, and returns the outputs."""
        outputs = []
        try:
            while (num_columns := cache.piece_of(self, _given(named))) is not None:
                piece = _first_columns(module, named, num_columns)
                with cache.running_piece():
                    outputs.append(module(**piece))
        except BaseException:
            cache.end_pieces()
            raise
        return outputs

    def _drop_leftover(self) -> None:
        """Ends a step of this decoder that an interrupt left behind. torch calls no hooks after
        KeyboardInterrupt, and a decoder never runs inside itself."""
        step = _switch.active()
        if isinstance(step, Step) and step.configs is self.configs:
            cache = step.owner()
            if cache is not None:
                cache.drop_leftover_step()
            else:
                _switch.remove(step)
                _switch.leave(step.configs)

    def after_forward(self, module: Any, args: Any, kwargs: dict[str, Any], output: Any) -> Any:
        cache = kwargs.get("past_key_values")
        if not isinstance(cache, AttndbCache):
            return None
        step = cache.step
        if step is None or step is not _switch.active():
            return None  # The forward was refused before it began.
        _switch.remove(step)
        _switch.leave(step.configs)
        succeeded = False
        try:
            if output is not None:  # None: an exception is on its way.
                step.check_complete()
                succeeded = True
        finally:
            cache.end_step(step, step.plan if succeeded else None)
        return _joined([*step.earlier, output]) if succeeded and step.earlier else None


class _Weights:
    """The modules and parameters of a decoder at the last look. A program may replace them (by an
    assignment or load_state_dict(assign=True)) or add some (an adapter)."""

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder
        self._num_changes = 0
        self._see()

    def stamp(self) -> int:
        """Returns a stamp that changes with the weights. Takes tens of microseconds."""
        # `...` ends both lists, so that an added or a removed entry is noticed, too.
        if not all(map(operator.is_, itertools.chain(self._members(), (...,)), self._seen)):
            self._num_changes += 1
            self._see()
        return hash((self._num_changes, version_stamp(self._parameters)))

    def _see(self) -> None:
        # The dicts in which torch keeps a module's parameters and children, by name.
        self._dicts = [
            members
            for module in self._decoder.modules()
            for members in (module._parameters, module._modules)
        ]
        self._seen = [*self._members(), ...]
        self._parameters = list(self._decoder.parameters())

    def _members(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(map(dict.values, self._dicts))


def _binding_of(decoder: Any) -> Binding | None:
    for hook in decoder._forward_pre_hooks.values():
        owner = getattr(hook, "__self__", None)
        if isinstance(owner, Binding):
            return owner
    return None


def _first_columns(module: Any, named: dict[str, Any], num_columns: int) -> dict[str, Any]:
    """Takes the first columns out of a forward's arguments."""
    if named.get("output_router_logits") or getattr(module.config, "output_router_logits", False):
        raise UnsupportedError(
            "output_router_logits: tokens leave in the middle of this forward (max_length), which "
            "then has none; run one token at a time"
        )
    piece = dict(named)
    num_all = _given(named).num_columns
    for name in ("input_ids", "inputs_embeds", "position_ids"):
        if named.get(name) is not None:
            piece[name], named[name] = named[name][:, :num_columns], named[name][:, num_columns:]
    mask = named.get("attention_mask")
    if mask is not None:
        piece["attention_mask"] = mask[:, : mask.shape[1] - (num_all - num_columns)]
    return piece


def _joined(parts: list[Any]) -> Any:
    """Joins the outputs of a forward's pieces. Tensors are [batch, columns, ...]."""
    last = parts[-1]
    if isinstance(last, ModelOutput):
        return type(last)(**{name: _joined([part[name] for part in parts]) for name in last})
    if isinstance(last, torch.Tensor):
        return torch.cat(parts, dim=1)
    if isinstance(last, (tuple, list)):
        return type(last)(_joined(list(of_parts)) for of_parts in zip(*parts, strict=True))
    return last


def _check_arguments(module: Any, named: dict[str, Any]) -> None:
    if module.training and any(
        getattr(part, "gradient_checkpointing", False) for part in module.modules()
    ):
        raise UnsupportedError(
            "gradient checkpointing runs layers without their cache: call "
            "model.gradient_checkpointing_disable(), or model.eval()"
        )
    wants_attentions = named.get("output_attentions")
    if wants_attentions is None:
        wants_attentions = getattr(module.config, "output_attentions", False)
    if wants_attentions:
        raise UnsupportedError("output_attentions: attndb keeps no attention weights")
    if named.get("is_causal", getattr(module.config, "is_causal", None)) is False:
        raise UnsupportedError("is_causal=False: attndb's attention is causal")
    for name, value in named.items():
        if name not in _PASSED and value is not None and value is not False:
            raise UnsupportedError(
                f"{type(module).__name__}: argument {name!r} in a forward with an AttndbCache"
            )


def _given(named: dict[str, Any]) -> Given:
    input_ids, embeds = named.get("input_ids"), named.get("inputs_embeds")
    tokens = input_ids if input_ids is not None else embeds
    expected = 2 if input_ids is not None else 3
    if not isinstance(tokens, torch.Tensor) or tokens.ndim != expected or tokens.shape[1] == 0:
        raise InvalidArgumentError(
            "input_ids: expected one or more columns, found "
            f"{list(tokens.shape) if isinstance(tokens, torch.Tensor) else tokens}"
        )
    return Given(
        batch=tokens.shape[0],
        num_columns=tokens.shape[1],
        input_ids=input_ids,
        attention_mask=named.get("attention_mask"),
        position_ids=named.get("position_ids"),
    )


def _check_prompts_of_generate(model: Any) -> None:
    """Makes the model's slicing method check the ids. generate() gets all ids and slices off as
    many as the cache holds, without comparing them."""
    kind = type(model)

    @functools.wraps(kind.prepare_inputs_for_generation)
    def prepare(self: Any, input_ids: Any, *args: Any, **kwargs: Any) -> Any:
        cache, kept = kwargs.get("past_key_values"), kwargs.get("next_sequence_length")
        if isinstance(cache, AttndbCache) and kept is not None:
            if kept < 1:
                raise InvalidArgumentError(
                    f"input_ids: {input_ids.shape[1]} columns, the cache holds "
                    f"{cache.get_seq_length()}; give generate() all ids, at least one more than "
                    "that, or the remaining ones with an attention_mask over all"
                )
            if kept + cache.get_seq_length() == input_ids.shape[1]:
                if kwargs.get("is_first_iteration"):
                    cache.check_begins_with(input_ids)
        return kind.prepare_inputs_for_generation(self, input_ids, *args, **kwargs)

    model.prepare_inputs_for_generation = types.MethodType(prepare, model)
