"""q, k and v that a model computes for a text, in one file: what measurements start from."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

from attndb._arrays import Tokens, token_ids
from attndb._checked import U32, Path, checked, found
from attndb._errors import (
    BY_CODE,
    Error,
    InternalError,
    InvalidArgumentError,
    UnsupportedError,
)
from attndb._kv_file import KvFile
from attndb._program import program_path

Progress = Callable[[int, int], object]


@checked
def capture(
    model: Any,
    text_or_tokens: str | Tokens,
    path: Path,
    *,
    layers: Sequence[U32] | None = None,
    num_queries: U32 | None = None,
    tokenizer: Any = None,
    plan: str | None = None,
    rope_scaling: str | None = None,
    ubatch_tokens: U32 = 512,
    progress: Progress | None = None,
) -> KvFile:
    """Runs a text through a model and writes q, k, v, after RoPE, to a new safetensors file.

    ``model``: a transformers model, or the path of a GGUF file ("smollm2": the demo's), which runs
    through llama.cpp in another process. ``text_or_tokens``: a text wants a ``tokenizer`` with a
    transformers model. ``layers``: only these; a file of some layers can be read and measured, not
    imported. ``num_queries``: q of so many last tokens; None = of all.

    To reach lengths beyond the model's: ``plan`` holds for the prefill too, so "window(sink=16,
    window=1024)" keeps every distance within what the model knows; ``rope_scaling``, "linear:4" or
    "yarn:4", turns the angles of a GGUF model slower (a transformers model has it in its config).

    Memory: K, V and q of the chosen layers. ``progress(tokens_done, tokens_total)``: of a
    transformers model; a GGUF model has the command line's bar on stderr. ``ubatch_tokens``: rows
    of one forward of a transformers model.

    Raises InvalidArgumentError, AlreadyExistsError (a file is never replaced), UnsupportedError
    (the model), and what running the model raises. Returns the file, open.
    """
    if isinstance(model, (str, bytes, os.PathLike)):
        words = _words(model, text_or_tokens, path, layers, num_queries, plan, rope_scaling)
        _run(words, text_or_tokens)
        return KvFile(path)
    if rope_scaling is not None:
        raise UnsupportedError(
            "rope_scaling: a transformers model has it in its config: load it with rope_parameters"
        )
    if not hasattr(model, "config"):
        raise InvalidArgumentError(
            f"model: expected a transformers model or the path of a GGUF file, found {found(model)}"
        )
    from attndb.hf._capture import capture_model

    if not ubatch_tokens:
        raise InvalidArgumentError("ubatch_tokens: expected 1 or more, found 0")
    tokens = _tokenize(text_or_tokens, tokenizer)
    num_layers = model.config.get_text_config().num_hidden_layers
    chosen = sorted(set(range(num_layers) if layers is None else layers))
    if not chosen or chosen[0] < 0 or chosen[-1] >= num_layers:
        raise InvalidArgumentError(
            f"layers: expected some of 0 to {num_layers - 1}, found {layers}"
        )
    if num_queries is not None and not 0 < num_queries <= len(tokens):
        raise InvalidArgumentError(
            f"num_queries: expected 1 to {len(tokens)}, the number of tokens, found {num_queries}"
        )
    capture_model(
        model,
        tokens,
        path,
        layers=chosen,
        num_queries=len(tokens) if num_queries is None else num_queries,
        plan=plan,
        notes={"model": _note(str(model.config.name_or_path or type(model).__name__))},
        ubatch_tokens=ubatch_tokens,
        progress=progress,
    )
    return KvFile(path)


def _note(text: str) -> str:
    """A note of a file, which is UTF-8: the path of a model need not be."""
    return text.encode(errors="replace").decode()


def _tokenize(text_or_tokens: str | Tokens, tokenizer: Any) -> list[int]:
    if isinstance(text_or_tokens, str):
        if tokenizer is None:
            raise InvalidArgumentError("tokenizer: a text needs one; or give token ids")
        text_or_tokens = tokenizer(text_or_tokens)["input_ids"]
    ids: list[int] = token_ids(text_or_tokens).tolist()
    if not ids:
        raise InvalidArgumentError("text_or_tokens: no token")
    return ids


def _words(
    model: Path,
    text_or_tokens: str | Tokens,
    path: Path,
    layers: Sequence[int] | None,
    num_queries: int | None,
    plan: str | None,
    rope_scaling: str | None,
) -> list[str]:
    """The command line's words for a GGUF model. The text, or the ids, come on its input."""
    words = ["capture", "--json", "--raw", "--model", os.fsdecode(model)]
    words += ["--output", os.fsdecode(path)]
    if not isinstance(text_or_tokens, str):
        words.append("--token-ids")
    if layers is not None:
        words += ["--layers", ",".join(str(layer) for layer in layers)]
    if num_queries is not None:
        words += ["--queries", str(num_queries)]
    if plan is not None:
        words += ["--plan", plan]
    if rope_scaling is not None:
        words += ["--rope-scaling", rope_scaling]
    return [*words, "-"]


def _run(words: list[str], text_or_tokens: str | Tokens) -> None:
    """Runs the command line; its progress bar is on our stderr, if that is a terminal."""
    if isinstance(text_or_tokens, str):
        given = text_or_tokens
    else:
        given = " ".join(str(token) for token in token_ids(text_or_tokens))
    done = subprocess.run(
        [str(program_path()), *words], input=given, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        raise _error(done.stdout)


def _error(output: str) -> Error:
    """What the command line says in JSON, as the exception that the library would raise."""
    try:
        error = json.loads(output)["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        return InternalError(f"attndb capture failed without saying why: {output!r}")
    kinds = {kind.code: kind for kind in BY_CODE}
    return kinds.get(code.replace("_", " "), Error)(message)
