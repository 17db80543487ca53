"""Writes the q, k and v that a model computes for a text to one file, for measurements."""

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

    ``model``: a transformers model, or the path of a GGUF file, which llama.cpp runs in another
    process; "smollm2" is the demo's model. ``text_or_tokens``: a transformers model needs a
    ``tokenizer`` for a text. ``layers``: write only these. A file of some layers can be read and
    measured, but not imported. ``num_queries``: write q of this many last tokens; None = of all.

    Two options reach lengths beyond the model's. ``plan`` also holds for the prefill, so
    "window(sink=16, window=1024)" keeps every distance within the model's range. ``rope_scaling``,
    "linear:4" or "yarn:4", slows the rotation of a GGUF model; a transformers model has its scaling
    in its config.

    Memory: K, V and q of the chosen layers. ``progress(tokens_done, tokens_total)`` is called for a
    transformers model; for a GGUF model, the command line shows a bar on stderr.
    ``ubatch_tokens``: rows of one forward of a transformers model.

    Raises InvalidArgumentError, AlreadyExistsError (a file is never replaced), UnsupportedError
    (the model), and the errors of the model's run. Returns the open file.
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
    """Returns a text as UTF-8, as notes of a file must be: the path of a model may be no UTF-8."""
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
    """Returns the command line's words for a GGUF model. The command reads the text or the ids from
    its standard input."""
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
    """Runs the command line. Its progress bar goes to our stderr if stderr is a terminal."""
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
    """Makes the command line's JSON error the exception that the library would raise."""
    try:
        error = json.loads(output)["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        return InternalError(f"attndb capture failed without saying why: {output!r}")
    kinds = {kind.code: kind for kind in BY_CODE}
    return kinds.get(code.replace("_", " "), Error)(message)
