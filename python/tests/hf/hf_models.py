"""Tiny random models, equal in every process, and what the tests do with them.

Weights are large enough that logits differ by whole units and attention matters: a session that
forgets is far off (test_hf_agreement.py has the control).
"""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.cache_utils import Cache

VOCABULARY = 97
# transformers 5.12: crop takes the length to keep, chunked prefill starts at 0 again, speculative
# decoding knows neither windows nor remaining ids.
IS_OLD = "max_length" in inspect.signature(Cache.crop).parameters
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "pad_token_id": None,  # Else generate() takes such an id in a prompt for a hole.
    "bos_token_id": 1,
    "eos_token_id": None,
    "tie_word_embeddings": False,  # Else each token would be followed by itself.
}
_GEMMA = {"head_dim": 16, "query_pre_attn_scalar": 24, "sliding_window": 12}
_GEMMA3 = {
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 4.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    },
}
# Every other layer slides, the first too; YaRN as the config has it.
_GPT_OSS = {"head_dim": 16, "sliding_window": 12, "num_local_experts": 4, "num_experts_per_tok": 2}
# Name: (model class, config class, what differs from SIZES).
ZOO: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "llama": (LlamaForCausalLM, LlamaConfig, {}),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config, {}),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, {"head_dim": 16}),
    "mistral": (MistralForCausalLM, MistralConfig, {"sliding_window": 12, "head_dim": 8}),
    "gemma2": (Gemma2ForCausalLM, Gemma2Config, {**_GEMMA, "attn_logit_softcapping": 20.0}),
    "gemma3": (Gemma3ForCausalLM, Gemma3TextConfig, {**_GEMMA, **_GEMMA3}),
    "gpt_oss": (GptOssForCausalLM, GptOssConfig, _GPT_OSS),
}


def make_model(name: str, dtype: torch.dtype = torch.float32, seed: int = 0, **changes: Any) -> Any:
    """The model of the zoo, in evaluation mode, with attention `eager` (soft caps need it)."""
    kind, config_kind, different = ZOO[name]
    return make(kind, config_kind(**{**SIZES, **different, **changes}), dtype, seed)


def make(kind: Any, config: Any, dtype: torch.dtype = torch.float32, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    config._attn_implementation = "eager"
    model = kind(config).eval()
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed" in name:
                parameter.normal_(0.0, 0.1, generator=generator)
            elif name.endswith("sinks"):  # From little to most of the mass.
                parameter.normal_(2.0, 2.0, generator=generator)
            elif parameter.ndim > 1:
                parameter.normal_(0.0, 1.6 / parameter.shape[-1] ** 0.5, generator=generator)
            else:
                parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return model.to(dtype)


def make_prompt(length: int, seed: int = 3, batch: int = 1) -> torch.Tensor:
    """Ids [batch, length] without the padding's; with runs that come again, as text has."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(2, VOCABULARY, (batch, length), generator=generator)
    if length >= 40:
        ids[:, 30:38] = ids[:, 5:13]
    return ids


def generate(model: Any, ids: torch.Tensor, **options: Any) -> Any:
    """generate() with all logits; greedy unless said."""
    options = {"max_new_tokens": 24, "do_sample": False, **options}
    return model.generate(
        input_ids=ids, return_dict_in_generate=True, output_logits=True, **options
    )


def largest_difference(a: Any, b: Any) -> float:
    """Between two tuples of logits."""
    assert len(a) == len(b), f"{len(a)} steps and {len(b)}"
    return max((x.float() - y.float()).abs().max().item() for x, y in zip(a, b, strict=True))


def assert_same(ours: Any, theirs: Any, tolerance: float = 1e-4) -> None:
    """Equal tokens, and all logits within `tolerance`."""
    assert torch.equal(ours.sequences, theirs.sequences)
    assert largest_difference(ours.logits, theirs.logits) <= tolerance


def in_new_process(
    script: str, *arguments: str, folder: Path, num_threads: int = 1
) -> dict[str, np.ndarray]:
    """What `script` of this folder saves: it is run with the path of an .npz and `arguments`."""
    result = folder / "result.npz"
    here = Path(__file__).parent
    subprocess.run(
        [sys.executable, str(here / script), str(result), *arguments],
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": str(num_threads), "TOKENIZERS_PARALLELISM": "false"},
    )
    with np.load(result) as saved:
        return dict(saved)


def fast_folder() -> str | None:
    """Where a test's small store lies best: in memory, as waiting for a disk shows nothing of
    transformers. None = wherever temporary files lie."""
    memory = "/dev/shm"
    try:
        return memory if shutil.disk_usage(memory).free >= 64 << 20 else None
    except OSError:
        return None


def save_result(path: str, **arrays: Any) -> None:
    np.savez(path, **{name: np.asarray(value) for name, value in arrays.items()})

