#!/usr/bin/env python3
"""Writes tiny random GGUF models for tests, with nothing but Python's standard library.

The models are float32, seeded, a few MB, and mostly without tokenizer ("no_vocab"): token ids go
in, logits come out. Some are made to be refused: each has one feature that attndb can't honour.

    make_tiny_model.py --kind qwen2 --out tiny.gguf
    make_tiny_model.py --all build/models

Format: GGUF version 3 (github.com/ggml-org/ggml/blob/master/docs/gguf.md); names of keys and
tensors as llama.cpp reads them.
"""

import argparse
import array
import math
import os
import random
import struct
import sys

ALIGNMENT = 32
VOCAB = 320
GGUF_UINT32, GGUF_INT32, GGUF_FLOAT32, GGUF_BOOL, GGUF_STRING, GGUF_ARRAY = 4, 5, 6, 7, 8, 9
GGML_F32 = 0


def _string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value):
    if isinstance(value, bool):
        return struct.pack("<I?", GGUF_BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", GGUF_UINT32, value)
    if isinstance(value, float):
        return struct.pack("<If", GGUF_FLOAT32, value)
    if isinstance(value, str):
        return struct.pack("<I", GGUF_STRING) + _string(value)
    if isinstance(value, list) and isinstance(value[0], str):
        return struct.pack("<IIQ", GGUF_ARRAY, GGUF_STRING, len(value)) + b"".join(
            map(_string, value))
    if isinstance(value, list) and isinstance(value[0], float):
        return struct.pack("<IIQ", GGUF_ARRAY, GGUF_FLOAT32, len(value)) + struct.pack(
            f"<{len(value)}f", *value)
    if isinstance(value, list):  # Integers, which llama.cpp takes as either kind.
        return struct.pack("<IIQ", GGUF_ARRAY, GGUF_INT32, len(value)) + struct.pack(
            f"<{len(value)}i", *value)
    raise TypeError(f"no GGUF type for {value!r}")


class Model:
    """Metadata and tensors of one file. Shapes are in ggml's order: the fastest dimension first."""

    def __init__(self, arch, seed, context=4096, **keys):
        self.arch = arch
        self.random = random.Random(seed)
        self.meta = {"general.architecture": arch, "general.name": f"tiny {arch}",
                     "tokenizer.ggml.model": "no_vocab"}
        self.tensors = []
        self.keys(vocab_size=VOCAB, context_length=context, **keys)

    def keys(self, **keys):
        """Sets `<arch>.<key>`; a double underscore stands for a dot."""
        for key, value in keys.items():
            self.meta[f"{self.arch}.{key.replace('__', '.')}"] = value

    def tensor(self, name, *shape, mean=0.0, deviation=None):
        """Adds a normal random tensor; by default its rows have a norm of about 1."""
        deviation = 1 / math.sqrt(shape[0]) if deviation is None else deviation
        gauss = self.random.gauss
        values = array.array("f", (gauss(mean, deviation) for _ in range(math.prod(shape))))
        self.tensors.append((name, shape, values))

    def norm(self, name, size):
        self.tensor(name, size, mean=1.0, deviation=0.1)

    def write(self, path):
        header = struct.pack("<4sIQQ", b"GGUF", 3, len(self.tensors), len(self.meta))
        for key, value in self.meta.items():
            header += _string(key) + _value(value)
        offset = 0
        for name, shape, values in self.tensors:
            header += _string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape,
                                                  GGML_F32, offset)
            offset += _padded(4 * len(values))
        temporary = f"{path}.{os.getpid()}.tmp"
        with open(temporary, "wb") as file:
            file.write(header + bytes(_padded(len(header)) - len(header)))
            for _, _, values in self.tensors:
                if sys.byteorder == "big":
                    values.byteswap()
                data = values.tobytes()
                file.write(data + bytes(_padded(len(data)) - len(data)))
        os.replace(temporary, path)


def _padded(size):
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def _decoder(arch, seed, layers=3, embed=256, q_heads=8, kv_heads=2, head_dim=32, ff=320,
             bias=False, tied=False, qk_norm=False, post_norm=False, rms=True, **keys):
    """A decoder of the usual form: attention (wq, wk, wv, wo) and a gated feed-forward network.

    Queries and keys are twice as large as they would be at the start of a training, so that
    attention is peaked and a mistake in it shows in the logits.
    """
    model = Model(arch, seed, block_count=layers, embedding_length=embed, feed_forward_length=ff,
                  attention__head_count=q_heads, attention__head_count_kv=kv_heads,
                  attention__key_length=head_dim, attention__value_length=head_dim,
                  rope__dimension_count=head_dim, rope__freq_base=10000.0, **keys)
    epsilon = "layer_norm_rms_epsilon" if rms else "layer_norm_epsilon"
    model.keys(**{f"attention__{epsilon}": 1e-5})
    model.tensor("token_embd.weight", embed, VOCAB, deviation=1.0 / math.sqrt(embed))
    model.norm("output_norm.weight", embed)
    if not tied:
        model.tensor("output.weight", embed, VOCAB, deviation=2.0 / math.sqrt(embed))
    for i in range(layers):
        _attention(model, f"blk.{i}.", embed, q_heads * head_dim, kv_heads * head_dim, bias)
        model.norm(f"blk.{i}.attn_norm.weight", embed)
        model.norm(f"blk.{i}.ffn_norm.weight", embed)
        if qk_norm:
            model.norm(f"blk.{i}.attn_q_norm.weight", head_dim)
            model.norm(f"blk.{i}.attn_k_norm.weight", head_dim)
        if post_norm:
            model.norm(f"blk.{i}.post_attention_norm.weight", embed)
            model.norm(f"blk.{i}.post_ffw_norm.weight", embed)
        model.tensor(f"blk.{i}.ffn_gate.weight", embed, ff)
        model.tensor(f"blk.{i}.ffn_up.weight", embed, ff)
        model.tensor(f"blk.{i}.ffn_down.weight", ff, embed)
    return model


def _attention(model, prefix, embed, q_width, kv_width, bias):
    peaked = 2.0 / math.sqrt(embed)
    model.tensor(prefix + "attn_q.weight", embed, q_width, deviation=peaked)
    model.tensor(prefix + "attn_k.weight", embed, kv_width, deviation=peaked)
    model.tensor(prefix + "attn_v.weight", embed, kv_width)
    model.tensor(prefix + "attn_output.weight", q_width, embed)
    if bias:
        model.tensor(prefix + "attn_q.bias", q_width, deviation=0.5)
        model.tensor(prefix + "attn_k.bias", kv_width, deviation=2.0)
        model.tensor(prefix + "attn_v.bias", kv_width, deviation=0.2)


def llama(seed):
    """RoPE of neighbouring channels, 8 q heads on 2 kv heads of 32."""
    return _decoder("llama", seed)


def llama_yarn(seed):
    """The same with YaRN scaling and heads of 64, tied output."""
    return _decoder("llama", seed, head_dim=64, q_heads=4, kv_heads=4, tied=True,
                    rope__scaling__type="yarn", rope__scaling__factor=4.0,
                    rope__scaling__original_context_length=1024)


def qwen2(seed):
    """RoPE of channel halves, biased keys."""
    return _decoder("qwen2", seed, bias=True, tied=True)


def qwen3(seed):
    """RoPE of channel halves, normalised queries and keys, heads wider than embed / q_heads."""
    return _decoder("qwen3", seed, head_dim=64, qk_norm=True)


def gemma2(seed):
    """Soft cap of the logits; every other layer has a sliding window of 40 tokens."""
    return _decoder("gemma2", seed, layers=4, q_heads=4, kv_heads=2, head_dim=64, tied=True,
                    post_norm=True, attention__sliding_window=40, attn_logit_softcapping=20.0,
                    final_logit_softcapping=30.0)


def gemma3(seed):
    """One kv head of 256; two of three layers have a window of 24 and their own RoPE base."""
    return _decoder("gemma3", seed, q_heads=2, kv_heads=1, head_dim=256, tied=True, post_norm=True,
                    qk_norm=True, attention__sliding_window=24,
                    attention__sliding_window_pattern=3, rope__freq_base_swa=1000.0)


def gpt_oss(seed):
    """A learned sink in each q head's softmax, of little to most of it; every other layer has a
    window of 24; YaRN; experts."""
    layers, embed, ff, experts, head_dim, q_heads, kv_heads = 4, 64, 32, 4, 32, 4, 2
    model = Model("gpt-oss", seed, block_count=layers, embedding_length=embed,
                  feed_forward_length=ff, expert_feed_forward_length=ff,
                  expert_count=experts, expert_used_count=2,
                  attention__head_count=q_heads, attention__head_count_kv=kv_heads,
                  attention__key_length=head_dim, attention__value_length=head_dim,
                  attention__sliding_window=24, attention__layer_norm_rms_epsilon=1e-5,
                  rope__dimension_count=head_dim, rope__freq_base=150000.0,
                  rope__scaling__type="yarn", rope__scaling__factor=8.0,
                  rope__scaling__original_context_length=512)
    model.tensor("token_embd.weight", embed, VOCAB)
    model.norm("output_norm.weight", embed)
    model.tensor("output.weight", embed, VOCAB, deviation=2.0 / math.sqrt(embed))
    for i in range(layers):
        prefix = f"blk.{i}."
        _attention(model, prefix, embed, q_heads * head_dim, kv_heads * head_dim, bias=True)
        model.norm(prefix + "attn_norm.weight", embed)
        model.norm(prefix + "post_attention_norm.weight", embed)
        model.tensor(prefix + "attn_sinks.weight", q_heads, mean=2.0, deviation=2.0)
        model.tensor(prefix + "attn_output.bias", embed)
        model.tensor(prefix + "ffn_gate_inp.weight", embed, experts)
        model.tensor(prefix + "ffn_gate_inp.bias", experts)
        for name, (rows, columns) in {"gate": (embed, ff), "up": (embed, ff),
                                      "down": (ff, embed)}.items():
            model.tensor(f"{prefix}ffn_{name}_exps.weight", rows, columns, experts)
            model.tensor(f"{prefix}ffn_{name}_exps.bias", columns, experts)
    return model


# Kinds of tokens, as GGUF numbers them.
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6


def _sentence_pieces(pieces):
    """Metadata of a vocabulary as SentencePiece makes it, filled up to VOCAB with `pieces`."""
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    kinds = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256
    pieces = pieces[:VOCAB - len(tokens)]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens + pieces,
        "tokenizer.ggml.scores": [0.0] * len(tokens) + [-1.0 * i for i in range(len(pieces))],
        "tokenizer.ggml.token_type": kinds + [NORMAL] * len(pieces),
        "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0, "tokenizer.ggml.add_bos_token": True}


def llama_spm(seed):
    """A vocabulary with scores, as SentencePiece makes them; two experts of four."""
    model = _decoder("llama", seed, layers=1, embed=64, q_heads=4, kv_heads=2, head_dim=16, ff=32,
                     expert_count=4, expert_used_count=2)
    embed, ff, experts = 64, 32, 4
    model.tensors = [t for t in model.tensors if ".ffn_" not in t[0] or "norm" in t[0]]
    model.tensor("blk.0.ffn_gate_inp.weight", embed, experts)
    model.tensor("blk.0.ffn_gate_exps.weight", embed, ff, experts)
    model.tensor("blk.0.ffn_up_exps.weight", embed, ff, experts)
    model.tensor("blk.0.ffn_down_exps.weight", ff, embed, experts)
    pieces = ["\u2581"] + [f"\u2581{a}{b}" for a in "abcdefgh" for b in "aeiouxyz"]
    model.meta |= _sentence_pieces(pieces) | {
        "tokenizer.chat_template":
            "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
            "{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"}
    return model


def llama_bpe(seed):
    """A vocabulary with merges, as GPT-2's; counts of heads and widths that are lists."""
    model = _decoder("llama", seed, layers=2, embed=64, q_heads=4, kv_heads=2, head_dim=16, ff=32)
    model.keys(attention__head_count=[4, 4], attention__head_count_kv=[2, 2],
               feed_forward_length=[32, 32])
    shown = [byte for byte in range(256) if 33 <= byte < 127 or 161 <= byte < 173 or byte > 173]
    hidden = [byte for byte in range(256) if byte not in shown]
    letters = {byte: chr(byte) for byte in shown}
    letters |= {byte: chr(256 + i) for i, byte in enumerate(hidden)}
    pairs = [(a, b) for a in "bcdfghkl" for b in "aeiouxyz"][:VOCAB - 258]
    tokens = [letters[byte] for byte in range(256)] + [a + b for a, b in pairs]
    tokens += ["<|endoftext|>", "<|im_end|>"]
    model.meta |= {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [NORMAL] * (len(tokens) - 2) + [CONTROL] * 2,
        "tokenizer.ggml.merges": [f"{a} {b}" for a, b in pairs],
        "tokenizer.ggml.bos_token_id": VOCAB - 2, "tokenizer.ggml.eos_token_id": VOCAB - 1,
        "tokenizer.ggml.padding_token_id": VOCAB - 2, "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_space_prefix": False}
    return model


def llama_space(seed):
    """SentencePiece that sets a space before a text, with an end of text; Llama 2's template."""
    model = _decoder("llama", seed, layers=1, embed=64, q_heads=4, kv_heads=2, head_dim=16, ff=32)
    # Each is made of two before it, or of one letter and one before it.
    pieces = ("_ he _T _The _l ht ght ight _light _i _is be _u _un _unbe ab le able ie iev _unbel "
              "_unbeliev _unbelievable on _t _ton _tonight _W _Wh _Why Wh Why ND IN ST INST _[ "
              "_[INST /INST _[/INST").replace("_", "\u2581").split()
    pieces += [f"\u2581{a}{b}" for a in "bcdfg" for b in "aeiou"]
    model.meta |= _sentence_pieces(pieces) | {
        "tokenizer.ggml.add_eos_token": True, "tokenizer.ggml.add_space_prefix": True,
        "tokenizer.chat_template":
            "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} "
            "[/INST]{% elif m.role == 'system' %}<<SYS>>{{ m.content }}<</SYS>>{% else %}"
            "{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"}
    return model


def llama_lora(seed):
    """An adapter for `llama`: changes queries, keys and values of its first two layers."""
    embed, q_width, kv_width, rank = 256, 256, 64, 4
    adapter = Model("llama", seed + 1)
    adapter.meta = {"general.architecture": "llama", "general.type": "adapter",
                    "adapter.type": "lora", "adapter.lora.alpha": 8.0}
    for i in range(2):
        for name, width in {"attn_q": q_width, "attn_k": kv_width, "attn_v": kv_width}.items():
            adapter.tensor(f"blk.{i}.{name}.weight.lora_a", embed, rank)
            adapter.tensor(f"blk.{i}.{name}.weight.lora_b", rank, width)
    return adapter


def refuse_longrope(seed):
    """RoPE factors that depend on the length of the context."""
    return _decoder("llama", seed, layers=1, rope__scaling__type="longrope")


def refuse_mrope(seed):
    """Multi-section RoPE."""
    return _decoder("qwen2vl", seed, layers=1, bias=True, rope__dimension_sections=[8, 4, 4, 0])


def refuse_alibi(seed):
    """ALiBi position bias."""
    embed, ff = 128, 256
    model = Model("mpt", seed, block_count=1, embedding_length=embed, feed_forward_length=ff,
                  attention__head_count=4, attention__max_alibi_bias=8.0,
                  attention__layer_norm_epsilon=1e-5)
    model.tensor("token_embd.weight", embed, VOCAB)
    model.norm("output_norm.weight", embed)
    model.norm("blk.0.attn_norm.weight", embed)
    model.norm("blk.0.ffn_norm.weight", embed)
    model.tensor("blk.0.attn_qkv.weight", embed, 3 * embed)
    model.tensor("blk.0.attn_output.weight", embed, embed)
    model.tensor("blk.0.ffn_up.weight", embed, ff)
    model.tensor("blk.0.ffn_down.weight", ff, embed)
    return model


def refuse_mla(seed):
    """Keys and values in one latent vector (DeepSeek 2)."""
    embed, heads, rank, rope, nope, value, ff = 128, 4, 64, 16, 32, 32, 256
    model = Model("deepseek2", seed, block_count=1, embedding_length=embed, feed_forward_length=ff,
                  attention__head_count=heads, attention__head_count_kv=1,
                  attention__layer_norm_rms_epsilon=1e-5, attention__q_lora_rank=rank,
                  attention__kv_lora_rank=rank, attention__key_length=rank + rope,
                  attention__value_length=rank, attention__key_length_mla=nope + rope,
                  attention__value_length_mla=value, rope__dimension_count=rope,
                  leading_dense_block_count=1, expert_count=2, expert_used_count=1,
                  expert_shared_count=1, expert_feed_forward_length=ff)
    model.tensor("token_embd.weight", embed, VOCAB)
    model.norm("output_norm.weight", embed)
    model.tensor("output.weight", embed, VOCAB)
    for name in ("attn_norm", "ffn_norm"):
        model.norm(f"blk.0.{name}.weight", embed)
    model.norm("blk.0.attn_q_a_norm.weight", rank)
    model.norm("blk.0.attn_kv_a_norm.weight", rank)
    model.tensor("blk.0.attn_q_a.weight", embed, rank)
    model.tensor("blk.0.attn_q_b.weight", rank, heads * (nope + rope))
    model.tensor("blk.0.attn_kv_a_mqa.weight", embed, rank + rope)
    model.tensor("blk.0.attn_k_b.weight", nope, rank, heads)
    model.tensor("blk.0.attn_v_b.weight", rank, value, heads)
    model.tensor("blk.0.attn_output.weight", heads * value, embed)
    model.tensor("blk.0.ffn_gate.weight", embed, ff)
    model.tensor("blk.0.ffn_up.weight", embed, ff)
    model.tensor("blk.0.ffn_down.weight", ff, embed)
    return model


def refuse_recurrent(seed):
    """A state space model: no attention at all."""
    embed, inner, state, rank, kernel = 64, 128, 16, 8, 4
    model = Model("mamba", seed, block_count=1, embedding_length=embed, feed_forward_length=0,
                  attention__head_count=0, attention__layer_norm_rms_epsilon=1e-5,
                  ssm__conv_kernel=kernel, ssm__inner_size=inner, ssm__state_size=state,
                  ssm__time_step_rank=rank)
    model.tensor("token_embd.weight", embed, VOCAB)
    model.norm("output_norm.weight", embed)
    model.norm("blk.0.attn_norm.weight", embed)
    model.tensor("blk.0.ssm_in.weight", embed, 2 * inner)
    model.tensor("blk.0.ssm_conv1d.weight", kernel, inner)
    model.tensor("blk.0.ssm_conv1d.bias", inner)
    model.tensor("blk.0.ssm_x.weight", inner, rank + 2 * state)
    model.tensor("blk.0.ssm_dt.weight", rank, inner)
    model.tensor("blk.0.ssm_dt.bias", inner)
    model.tensor("blk.0.ssm_a", state, inner)
    model.tensor("blk.0.ssm_d", inner)
    model.tensor("blk.0.ssm_out.weight", inner, embed)
    return model


KINDS = {f.__name__: f for f in (
    llama, llama_yarn, llama_spm, llama_bpe, llama_space, llama_lora, qwen2, qwen3, gemma2, gemma3,
    gpt_oss, refuse_longrope, refuse_mrope, refuse_alibi, refuse_mla, refuse_recurrent)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=sorted(KINDS))
    parser.add_argument("--out", help="file to write")
    parser.add_argument("--all", metavar="DIR", help="write all kinds as DIR/<kind>.gguf")
    parser.add_argument("--seed", type=int, default=17)
    arguments = parser.parse_args()
    if arguments.all:
        os.makedirs(arguments.all, exist_ok=True)
        for name, make in KINDS.items():
            make(arguments.seed).write(os.path.join(arguments.all, f"{name}.gguf"))
    elif arguments.kind and arguments.out:
        KINDS[arguments.kind](arguments.seed).write(arguments.out)
    else:
        parser.error("give --kind and --out, or --all")


if __name__ == "__main__":
    main()
