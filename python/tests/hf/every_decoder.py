"""Tries every causal language model that transformers lists: every_decoder.py [--write] [MODEL...]

A small model with random weights (small_configs.py) is given to attndb: 19 tokens are run and
stored, and the store is closed. A second process makes the model anew and opens the store, as after
a restart; a prompt of 29 tokens goes on from there, and the tokens and all logits that generate()
makes are compared with those of transformers' own cache in this process, which ran on. Prints a
line a model, and exits with 1 if one differs; --write makes docs/models.md of it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers

import attndb
import attndb.hf
from hf_models import fast_folder, generate, make, make_prompt
from small_configs import NO_DECODER, build, class_name, model_types, small_config

TABLE = Path(__file__).parents[3] / "docs" / "models.md"
# Largest difference of logits, over the largest logit, by which a model is held. float32 rounds so
# much; a forgotten context makes FORGOTTEN at least.
TOLERANCE = 3e-5
FORGOTTEN = 0.05
PROMPT, STORED = 29, 19  # Tokens; more than two windows of small_configs.py.
_OPTIONS = {"max_new_tokens": 12, "eos_token_id": None}
_HEAD = """# Models of transformers

What attndb does with each of the {count} model types for which transformers {version} lists a
causal language model ([huggingface.md](huggingface.md)). Each was built small, with random weights,
in float32: four layers, of each kind that its config has, windows of 8 tokens, a decoder's form
where the type has several. 19 tokens were run and stored, and the store was closed. Another process
made the model anew and opened the store, as after a restart, and generate() went on from there over
a prompt of 29 tokens.

- **held**: the same tokens as with transformers' own cache in a run that nothing interrupted, and
  all logits within 3e-5 of the largest one; the number is the largest difference, as a part of the
  largest logit, where this page was written.
- **refused**: `attndb.hf.use` raises `UnsupportedError` with this reason, before any token is run.
- **not tried**: transformers makes it only with a library that the tests do not install.
- **does not build**: transformers itself can't make it.
- **no decoder**: it can't run alone.

`python/tests/hf/every_decoder.py MODEL...` tries models again and prints a line each;
with `--write` it writes this page, which `python/tests/hf/test_hf_every_decoder.py` holds against
what is found.

{summary}

| type | class | outcome |
|---|---|---|
"""


class Outcome(NamedTuple):
    """What came of a model. `kind`: held, refused, not tried, does not build, no decoder, or
    WRONG."""

    kind: str
    reason: str = ""
    # Where a model is held: difference of its logits, relative to the largest.
    difference: float = 0.0

    def __str__(self) -> str:
        if self.kind == "held":
            return f"held, {self.difference:.1e}"
        return f"{self.kind}: {self.reason}"


class Generated(NamedTuple):
    """What generate() gave of one prompt, and where."""

    process: int
    num_reused: int
    tokens: np.ndarray[Any, Any]
    logits: np.ndarray[Any, Any]  # [steps, vocabulary]


def other_process() -> ProcessPoolExecutor:
    """A Python of its own, which inherits nothing: what it knows of a context is in the store. It
    serves any number of models, as starting it takes longer than most of them."""
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _be_quiet)


def try_model(model_type: str, other: Executor, plan: str | None = None) -> Outcome:
    """`other`: where the model resumes, with `plan`. Raises what no outcome is: anything but
    UnsupportedError where attndb is asked."""
    if model_type in NO_DECODER:
        return Outcome("no decoder", NO_DECODER[model_type])
    try:
        model = _make(model_type)
    except Exception as error:
        missing = re.search(r"requires the (\S+) library", str(error))
        if isinstance(error, ImportError) and missing:
            return Outcome("not tried", f"needs {missing[1]}")
        return Outcome("does not build", _one_line(f"{type(error).__name__}: {error}"))
    try:
        attndb.hf.use(model)
    except attndb.UnsupportedError as error:
        return Outcome("refused", _one_line(str(error)))
    return _compare(model_type, model, other, plan)


def _make(model_type: str) -> Any:
    """The same model in every process."""
    return make(lambda config: build(model_type, config), small_config(model_type))


def _compare(model_type: str, model: Any, other: Executor, plan: str | None) -> Outcome:
    """A model that is in use against transformers' own cache."""
    ids = make_prompt(PROMPT)
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        _store(model, ids, Path(folder) / "store")
        resumed = other.submit(_resume, model_type, Path(folder) / "store", plan)
        theirs = _generated(model, ids, 0)
        # Control: another stored part must show.
        changed = torch.cat([ids[:, :STORED].roll(1, dims=1), ids[:, STORED:]], dim=1)
        with torch.no_grad():
            control = model(changed).logits[0, -1].numpy()
        ours = resumed.result()
    largest = np.abs(theirs.logits).max()
    difference = float(np.abs(ours.logits - theirs.logits).max() / largest)
    shown = float(np.abs(control - theirs.logits[0]).max() / largest)
    wrong = None
    if ours.process == theirs.process:
        wrong = "was resumed by the process that stored it"
    elif ours.num_reused != STORED:
        wrong = f"{ours.num_reused} of {STORED} tokens were reused"
    elif not np.array_equal(ours.tokens, theirs.tokens):
        wrong = f"other tokens; logits differ by {difference:.1e}"
    elif not difference <= TOLERANCE:
        wrong = f"logits differ by {difference:.1e}"
    elif not shown >= FORGOTTEN:
        wrong = f"tells nothing: another context changes logits by {shown:.1e}"
    return Outcome("WRONG", wrong, difference) if wrong else Outcome("held", "", difference)


def _store(model: Any, ids: torch.Tensor, store: Path) -> None:
    with attndb.open(store) as db, torch.no_grad():
        cache, given = attndb.hf.create_session(db, model, ids[:, :STORED])
        with cache:
            model(**given, past_key_values=cache)
            cache.store()


def _resume(model_type: str, store: Path, plan: str | None) -> Generated:
    """Run by the other process."""
    model = attndb.hf.use(_make(model_type))
    ids = make_prompt(PROMPT)
    with attndb.open(store, read_only=True) as db:
        cache, given = attndb.hf.create_session(db, model, ids, plan=plan)
        with cache:
            num_reused = int(cache.num_reused)
            mask = given["attention_mask"]
            return _generated(model, ids, num_reused, attention_mask=mask, past_key_values=cache)


def _generated(model: Any, ids: torch.Tensor, num_reused: int, **given: Any) -> Generated:
    out = generate(model, ids, **given, **_OPTIONS)
    logits = torch.cat(out.logits).float().numpy()
    return Generated(os.getpid(), num_reused, out.sequences.numpy(), logits)


def _be_quiet() -> None:
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().replace("|", "/")


def read_table() -> tuple[str, dict[str, str]]:
    """The version of transformers that the page is of, and each model type's outcome."""
    text = TABLE.read_text()
    version = re.search(r"transformers ([\d.]+\d)", text)
    rows = re.findall(r"^\| `([^`]+)` \| `[^`]+` \| (.+) \|$", text, re.MULTILINE)
    return version[1] if version else "", dict(rows)


def write_table(outcomes: dict[str, Outcome]) -> None:
    kinds = [outcome.kind for outcome in outcomes.values()]
    counts = [f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(sorted(kinds))]
    rows = [
        f"| `{model_type}` | `{class_name(model_type)}` | {outcome} |\n"
        for model_type, outcome in sorted(outcomes.items())
    ]
    head = _HEAD.format(
        count=len(rows), version=transformers.__version__, summary=f"Together: {', '.join(counts)}."
    )
    TABLE.write_text(head + "".join(rows))


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help="a model type; none: all")
    parser.add_argument("--write", action="store_true", help=f"all, and write {TABLE.name}")
    arguments = parser.parse_args(words)
    _be_quiet()
    outcomes: dict[str, Outcome] = {}
    with other_process() as other:
        for model_type in arguments.models or model_types():
            outcome = outcomes[model_type] = try_model(model_type, other)
            print(f"{model_type}: {outcome}", flush=True)
    if arguments.write and not arguments.models:
        write_table(outcomes)
    return 1 if any(outcome.kind == "WRONG" for outcome in outcomes.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
