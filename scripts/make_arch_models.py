#!/usr/bin/env python3
"""Writes tiny random models of many architectures, each in order, with llama.cpp's own `gguf`.

The checks of model files (engines/llama/gguf_check.h) are tried on these: files that llama.cpp
loads must pass. Together they have what real ones differ in: fused and split projections, biases,
tied embeddings, heads that differ between layers, experts, windows, scalings of RoPE, latent
attention, layers without attention, and all kinds of vocabularies.

    make_arch_models.py DIR     writes DIR/<name>.gguf
"""

import os
import sys

import gguf
import numpy

EMBED, HEADS, KV_HEADS, HEAD_DIM, FF = 64, 4, 2, 16, 96
EXPERTS, LAYERS, CONTEXT, VOCAB = 4, 2, 128, 320
Q, KV = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6


class Model:
    """One file. Shapes are in ggml's order: the fastest dimension first."""

    def __init__(self, arch, vocabulary, **keys):
        self.writer = gguf.GGUFWriter(None, arch)
        self.random = numpy.random.default_rng(17)
        self.arch = arch
        self.keys(context_length=CONTEXT, embedding_length=EMBED, block_count=LAYERS,
                  feed_forward_length=FF)
        self.keys(**keys)
        vocabulary(self.writer)

    def keys(self, **keys):
        """Sets `<arch>.<key>`; a double underscore stands for a dot, None takes a key away."""
        for key, value in keys.items():
            name = f"{self.arch}.{key.replace('__', '.')}"
            self.writer.kv_data[0].pop(name, None)
            if isinstance(value, bool):
                self.writer.add_bool(name, value)
            elif isinstance(value, int):
                self.writer.add_uint32(name, value)
            elif isinstance(value, float):
                self.writer.add_float32(name, value)
            elif isinstance(value, str):
                self.writer.add_string(name, value)
            elif value is not None:
                self.writer.add_array(name, value)

    def tensor(self, name, *shape):
        values = self.random.normal(0, shape[0]**-0.5, shape[::-1])
        self.writer.add_tensor(name, values.astype(numpy.float32))

    def norm(self, name, size=EMBED, bias=False):
        values = self.random.normal(1, 0.1, size).astype(numpy.float32)
        self.writer.add_tensor(f"{name}.weight", values)
        if bias:
            self.tensor(f"{name}.bias", size)

    def linear(self, name, rows, columns, bias=False):
        self.tensor(f"{name}.weight", rows, columns)
        if bias:
            self.tensor(f"{name}.bias", columns)

    def ends(self, tied=False, bias=False):
        self.tensor("token_embd.weight", EMBED, VOCAB)
        self.norm("output_norm", bias=bias)
        if not tied:
            self.tensor("output.weight", EMBED, VOCAB)

    def attention(self, layer, q=Q, kv=KV, fused=False, bias=False, out_bias=False):
        if fused:
            self.linear(layer + "attn_qkv", EMBED, q + 2 * kv, bias)
        else:
            self.linear(layer + "attn_q", EMBED, q, bias)
            self.linear(layer + "attn_k", EMBED, kv, bias)
            self.linear(layer + "attn_v", EMBED, kv, bias)
        self.linear(layer + "attn_output", q, EMBED, out_bias)

    def attention_t5(self, layer, name):
        for part in "qkv":
            self.linear(f"{layer}{name}_{part}", EMBED, Q)
        self.linear(f"{layer}{name}_o", Q, EMBED)

    def feed_forward(self, layer, ff=FF, gated=True, bias=False):
        if gated:
            self.linear(layer + "ffn_gate", EMBED, ff, bias)
        self.linear(layer + "ffn_up", EMBED, ff, bias)
        self.linear(layer + "ffn_down", ff, EMBED, bias)

    def experts(self, layer, ff=FF, bias=False, shared=0):
        self.linear(layer + "ffn_gate_inp", EMBED, EXPERTS, bias)
        for name, rows, columns in (("gate", EMBED, ff), ("up", EMBED, ff), ("down", ff, EMBED)):
            self.tensor(f"{layer}ffn_{name}_exps.weight", rows, columns, EXPERTS)
            if bias:
                self.tensor(f"{layer}ffn_{name}_exps.bias", columns, EXPERTS)
            if shared:
                part = (shared, EMBED) if name == "down" else (EMBED, shared)
                self.tensor(f"{layer}ffn_{name}_shexp.weight", *part)

    def write(self, path):
        temporary = f"{path}.{os.getpid()}.tmp"
        self.writer.write_header_to_file(temporary)
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()
        os.replace(temporary, path)


# Vocabularies.

def spm(writer):
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    kinds = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256
    pieces = [f"\u2581{a}{b}" for a in "abcdefgh" for b in "aeiouxyz"][:VOCAB - len(tokens)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens + pieces)
    writer.add_token_scores([0.0] * len(tokens) + [-float(i) for i in range(len(pieces))])
    writer.add_token_types(kinds + [NORMAL] * len(pieces))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)


def bpe(writer):
    shown = [byte for byte in range(256) if 33 <= byte < 127 or 161 <= byte < 173 or byte > 173]
    hidden = [byte for byte in range(256) if byte not in shown]
    letters = {byte: chr(byte) for byte in shown} | {b: chr(256 + i) for i, b in enumerate(hidden)}
    pairs = [(a, b) for a in "bcdfghkl" for b in "aeiouxyz"][:VOCAB - 258]
    tokens = [letters[byte] for byte in range(256)] + [a + b for a, b in pairs]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens + ["<|endoftext|>", "<|im_end|>"])
    writer.add_token_types([NORMAL] * len(tokens) + [CONTROL] * 2)
    writer.add_token_merges([f"{a} {b}" for a, b in pairs])
    writer.add_bos_token_id(VOCAB - 2)
    writer.add_eos_token_id(VOCAB - 1)


def wpm(writer):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens += ["\u2581" + chr(c) for c in range(97, 123)] + [chr(c) for c in range(97, 123)]
    tokens += [f"\u2581{a}{b}" for a in "bcdfghklmnprst" for b in "aeiouxyzqwvjkdghlmn"]
    writer.add_tokenizer_model("bert")
    writer.add_token_list(tokens[:VOCAB])
    writer.add_token_types([CONTROL] * 5 + [NORMAL] * (VOCAB - 5))
    writer.add_token_type_count(2)
    writer.add_unk_token_id(1)
    writer.add_bos_token_id(2)
    writer.add_sep_token_id(3)
    writer.add_pad_token_id(0)


def ugm(writer):
    tokens = ["<pad>", "</s>", "<unk>"] + [f"\u2581{chr(c)}" for c in range(97, 123)]
    tokens += [chr(c) for c in range(97, 123)] + ["\u2581"]
    tokens += [f"{a}{b}" for a in "bcdfghklmnprst" for b in "aeiouxyzqwvjkdghlmn"]
    tokens = list(dict.fromkeys(tokens))[:VOCAB]
    writer.add_tokenizer_model("t5")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * 3 + [-float(i) for i in range(len(tokens) - 3)])
    writer.add_token_types([CONTROL, CONTROL, UNKNOWN] + [NORMAL] * (len(tokens) - 3))
    writer.add_eos_token_id(1)
    writer.add_unk_token_id(2)
    writer.add_pad_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(True)
    writer.add_add_space_prefix(True)
    writer.add_remove_extra_whitespaces(True)


def ids_only(writer):
    writer.add_tokenizer_model("none")
    writer.add_vocab_size(VOCAB)


# Architectures.

RMS = {"attention__layer_norm_rms_epsilon": 1e-5}
NORM = {"attention__layer_norm_epsilon": 1e-5}
GQA = {"attention__head_count": HEADS, "attention__head_count_kv": KV_HEADS}
MOE = {"expert_count": EXPERTS, "expert_used_count": 2}


def decoder(arch, vocabulary=bpe, tied=False, bias=False, qk_norm=False, post_norm=False,
            moe=False, shared=0, **keys):
    """Attention of separate projections and a gated feed-forward network, both after RMS norms."""
    model = Model(arch, vocabulary, **RMS, **GQA, **(MOE if moe else {}))
    model.keys(**keys)
    model.ends(tied)
    for i in range(LAYERS):
        layer = f"blk.{i}."
        model.norm(layer + "attn_norm")
        model.attention(layer, bias=bias)
        model.norm(layer + "ffn_norm")
        if qk_norm:
            model.norm(layer + "attn_q_norm", HEAD_DIM)
            model.norm(layer + "attn_k_norm", HEAD_DIM)
        if post_norm:
            model.norm(layer + "post_attention_norm")
            model.norm(layer + "post_ffw_norm")
        if moe:
            model.experts(layer, shared=shared)
        else:
            model.feed_forward(layer)
    return model


def plain(arch, vocabulary=bpe, fused=False, bias=True, gated=False, kv=KV, ffn_norm=True,
          tied=False, **keys):
    """The same with layer norms that have a bias, and without a gate, as older models are."""
    model = Model(arch, vocabulary, **NORM, **GQA)
    model.keys(**keys)
    model.ends(tied, bias=True)
    for i in range(LAYERS):
        layer = f"blk.{i}."
        model.norm(layer + "attn_norm", bias=True)
        model.attention(layer, kv=kv, fused=fused, bias=bias, out_bias=bias)
        if ffn_norm:
            model.norm(layer + "ffn_norm", bias=True)
        model.feed_forward(layer, gated=gated, bias=bias)
    return model


def llama():
    model = decoder("llama", spm, tied=True, rope__dimension_count=HEAD_DIM, vocab_size=VOCAB,
                    rope__scaling__type="linear", rope__scaling__factor=2.0)
    model.writer.add_tensor("rope_freqs.weight", numpy.full(HEAD_DIM // 2, 2, numpy.float32))
    return model


def llama_none():
    """No tokenizer: ids go in."""
    return decoder("llama", ids_only, rope__dimension_count=HEAD_DIM)


def deci():
    """Heads of its own in each layer; one has no attention."""
    heads, kv_heads, layers = [4, 4, 0], [4, 1, 0], 3
    model = Model("deci", bpe, **RMS, attention__head_count=heads,
                  attention__head_count_kv=kv_heads, feed_forward_length=[FF, FF // 2, FF],
                  block_count=layers, attention__key_length=HEAD_DIM,
                  attention__value_length=HEAD_DIM, rope__dimension_count=HEAD_DIM)
    model.ends()
    for i in range(layers):
        layer = f"blk.{i}."
        if heads[i]:
            model.norm(layer + "attn_norm")
            model.attention(layer, kv=kv_heads[i] * HEAD_DIM)
        model.norm(layer + "ffn_norm")
        model.feed_forward(layer, FF // 2 if i == 1 else FF)
    return model


def openelm():
    """Heads of both kinds and widths that grow from layer to layer, fused."""
    heads, kv_heads, widths = [4, 8], [2, 4], [64, 96]
    model = Model("openelm", bpe, **RMS, attention__head_count=heads,
                  attention__head_count_kv=kv_heads, feed_forward_length=widths,
                  attention__key_length=HEAD_DIM, attention__value_length=HEAD_DIM,
                  rope__dimension_count=HEAD_DIM)
    model.ends(tied=True)
    for i in range(LAYERS):
        layer = f"blk.{i}."
        model.norm(layer + "attn_norm")
        model.attention(layer, heads[i] * HEAD_DIM, kv_heads[i] * HEAD_DIM, fused=True)
        model.norm(layer + "attn_q_norm", HEAD_DIM)
        model.norm(layer + "attn_k_norm", HEAD_DIM)
        model.norm(layer + "ffn_norm")
        model.feed_forward(layer, widths[i])
    return model


def qwen2():
    return decoder("qwen2", tied=True, bias=True, rope__scaling__type="yarn",
                   rope__scaling__factor=4.0, rope__scaling__original_context_length=32,
                   rope__freq_base=1e6)


def qwen2moe():
    model = decoder("qwen2moe", bias=True, moe=True, shared=48, expert_feed_forward_length=FF,
                    expert_shared_feed_forward_length=48)
    for i in range(LAYERS):
        model.tensor(f"blk.{i}.ffn_gate_inp_shexp.weight", EMBED)
    return model


def ernie4_5_moe():
    return decoder("ernie4_5-moe", moe=True, shared=FF, expert_feed_forward_length=FF,
                   expert_shared_feed_forward_length=FF, interleave_moe_layer_step=1)


def grovemoe():
    """Experts in groups that share a smaller one."""
    chunk, per_group = 32, 2
    model = decoder("grovemoe", qk_norm=True, moe=True, expert_feed_forward_length=FF,
                    expert_chunk_feed_forward_length=chunk, experts_per_group=per_group,
                    expert_group_scale=0.05)
    for i in range(LAYERS):
        for name, rows, columns in (("gate", EMBED, chunk), ("up", EMBED, chunk),
                                    ("down", chunk, EMBED)):
            model.tensor(f"blk.{i}.ffn_{name}_chexps.weight", rows, columns, EXPERTS // per_group)
    return model


def qwen3():
    return decoder("qwen3", qk_norm=True, attention__key_length=HEAD_DIM,
                   attention__value_length=HEAD_DIM)


def qwen3moe():
    return decoder("qwen3moe", qk_norm=True, moe=True, expert_feed_forward_length=FF,
                   attention__key_length=HEAD_DIM, attention__value_length=HEAD_DIM)


def gemma():
    return decoder("gemma", spm, tied=True, attention__key_length=HEAD_DIM,
                   attention__value_length=HEAD_DIM)


def gemma2():
    return decoder("gemma2", spm, tied=True, post_norm=True, attention__key_length=HEAD_DIM,
                   attention__value_length=HEAD_DIM, attention__sliding_window=8,
                   attn_logit_softcapping=50.0, final_logit_softcapping=30.0)


def gemma3():
    """A window in all but each sixth layer, whose RoPE has a base and a scaling of its own."""
    return decoder("gemma3", spm, tied=True, post_norm=True, qk_norm=True,
                   attention__key_length=HEAD_DIM, attention__value_length=HEAD_DIM,
                   attention__sliding_window=8, rope__freq_base=1e6,
                   rope__scaling__type="linear", rope__scaling__factor=8.0)


def phi2():
    """RoPE of a part of a head; attention and feed-forward side by side."""
    model = plain("phi2", rope__dimension_count=HEAD_DIM // 2, ffn_norm=False)
    model.tensor("output.bias", VOCAB)
    return model


def phi3():
    """Factors of RoPE for short and long contexts; a window; everything fused."""
    model = Model("phi3", spm, **RMS, **GQA, rope__dimension_count=HEAD_DIM,
                  rope__scaling__original_context_length=32, rope__scaling__attn_factor=1.1,
                  rope__scaling__type="longrope", attention__sliding_window=CONTEXT)
    model.ends()
    for name in ("long", "short"):
        model.writer.add_tensor(f"rope_factors_{name}.weight",
                                numpy.full(HEAD_DIM // 2, 1.5, numpy.float32))
    for i in range(LAYERS):
        layer = f"blk.{i}."
        model.norm(layer + "attn_norm")
        model.attention(layer, fused=True)
        model.norm(layer + "ffn_norm")
        model.linear(layer + "ffn_up", EMBED, 2 * FF)
        model.linear(layer + "ffn_down", FF, EMBED)
    return model


def gpt2():
    """Learned positions; as many kv heads as q heads, which the file need not say."""
    model = plain("gpt2", fused=True, kv=Q, attention__head_count_kv=None)
    model.tensor("position_embd.weight", EMBED, CONTEXT)
    return model


def gptneox():
    return plain("gptneox", fused=True, kv=Q, attention__head_count_kv=None,
                 use_parallel_residual=True, rope__dimension_count=HEAD_DIM // 4)


def falcon():
    """One kv head for all q heads."""
    return plain("falcon", fused=True, bias=False, kv=HEAD_DIM, attention__head_count_kv=1,
                 ffn_norm=False)


def starcoder2():
    return plain("starcoder2", tied=True, rope__freq_base=1e5)


def stablelm():
    return plain("stablelm", gated=True, bias=False, use_parallel_residual=True,
                 rope__dimension_count=HEAD_DIM // 4)


def bloom():
    """ALiBi."""
    model = plain("bloom", fused=True, kv=Q, attention__head_count_kv=None)
    model.norm("token_embd_norm", bias=True)
    return model


def mpt():
    model = Model("mpt", bpe, **NORM, attention__head_count=HEADS, attention__max_alibi_bias=8.0,
                  attention__clamp_kqv=6.0)
    model.ends(tied=True)
    for i in range(LAYERS):
        layer = f"blk.{i}."
        model.norm(layer + "attn_norm")
        model.attention(layer, kv=Q, fused=True)
        model.norm(layer + "ffn_norm")
        model.feed_forward(layer, gated=False)
    return model


def olmo2():
    """Norms after, not before; of whole queries and keys."""
    model = Model("olmo2", bpe, **RMS, **GQA)
    model.ends()
    for i in range(LAYERS):
        layer = f"blk.{i}."
        model.attention(layer)
        model.norm(layer + "attn_q_norm", Q)
        model.norm(layer + "attn_k_norm", KV)
        model.norm(layer + "post_attention_norm")
        model.norm(layer + "post_ffw_norm")
        model.feed_forward(layer)
    return model


def cohere2():
    """A window in three of four layers; attention and feed-forward side by side."""
    model = Model("cohere2", bpe, **NORM, **GQA, attention__sliding_window=8, logit_scale=0.25,
                  rope__dimension_count=HEAD_DIM, rope__scaling__type="none", vocab_size=VOCAB)
    model.ends(tied=True)
    for i in range(LAYERS):
        layer = f"blk.{i}."
        model.norm(layer + "attn_norm")
        model.attention(layer)
        model.feed_forward(layer)
    return model


def granite():
    return decoder("granite", tied=True, rope__dimension_count=HEAD_DIM, logit_scale=8.0,
                   residual_scale=0.22, embedding_scale=12.0, attention__scale=0.0625)


def gpt_oss():
    """Sinks, experts with biases, a window in every other layer."""
    model = Model("gpt-oss", bpe, **RMS, **GQA, **MOE, expert_feed_forward_length=FF,
                  attention__sliding_window=8, attention__key_length=HEAD_DIM,
                  attention__value_length=HEAD_DIM, rope__scaling__type="yarn",
                  rope__scaling__factor=32.0, rope__scaling__original_context_length=64)
    model.ends()
    for i in range(LAYERS):
        layer = f"blk.{i}."
        model.norm(layer + "attn_norm")
        model.attention(layer, bias=True, out_bias=True)
        model.norm(layer + "post_attention_norm")
        model.tensor(layer + "attn_sinks.weight", HEADS)
        model.experts(layer, bias=True)
    return model


def deepseek2():
    """Keys and values in one latent row; the first layer has no experts, the others share one."""
    rank, rope, key, value = 32, 16, 16, 16
    model = Model("deepseek2", bpe, **RMS, **MOE, attention__head_count=HEADS,
                  attention__head_count_kv=1, attention__q_lora_rank=rank,
                  attention__kv_lora_rank=rank, attention__key_length=rank + rope,
                  attention__value_length=rank, attention__key_length_mla=key + rope,
                  attention__value_length_mla=value, rope__dimension_count=rope,
                  leading_dense_block_count=1, expert_shared_count=1, expert_weights_scale=2.5,
                  expert_weights_norm=True, expert_gating_func=2, vocab_size=VOCAB,
                  expert_feed_forward_length=FF, rope__scaling__type="yarn",
                  rope__scaling__factor=40.0, rope__scaling__original_context_length=64,
                  rope__scaling__yarn_log_multiplier=0.1)
    model.ends()
    for i in range(LAYERS):
        layer = f"blk.{i}."
        model.norm(layer + "attn_norm")
        model.norm(layer + "attn_q_a_norm", rank)
        model.norm(layer + "attn_kv_a_norm", rank)
        model.tensor(layer + "attn_q_a.weight", EMBED, rank)
        model.tensor(layer + "attn_q_b.weight", rank, HEADS * (key + rope))
        model.tensor(layer + "attn_kv_a_mqa.weight", EMBED, rank + rope)
        model.tensor(layer + "attn_k_b.weight", key, rank, HEADS)
        model.tensor(layer + "attn_v_b.weight", rank, value, HEADS)
        model.tensor(layer + "attn_output.weight", HEADS * value, EMBED)
        model.norm(layer + "ffn_norm")
        if i == 0:
            model.feed_forward(layer)
        else:
            model.experts(layer, shared=FF)
            model.tensor(layer + "exp_probs_b.bias", EXPERTS)
    return model


def bert():
    """An encoder, which only plain llama.cpp can run."""
    model = Model("bert", wpm, **NORM, attention__head_count=HEADS, attention__causal=False,
                  pooling_type=1)
    model.tensor("token_embd.weight", EMBED, VOCAB)
    model.tensor("token_types.weight", EMBED, 2)
    model.tensor("position_embd.weight", EMBED, CONTEXT)
    model.norm("token_embd_norm", bias=True)
    for i in range(LAYERS):
        layer = f"blk.{i}."
        model.attention(layer, kv=Q, bias=True, out_bias=True)
        model.norm(layer + "attn_output_norm", bias=True)
        model.feed_forward(layer, gated=False, bias=True)
        model.norm(layer + "layer_output_norm", bias=True)
    return model


def llama_ugm():
    return decoder("llama", ugm, rope__dimension_count=HEAD_DIM)


def t5():
    """An encoder and a decoder: layers have other names."""
    model = Model("t5", ugm, **RMS, attention__head_count=HEADS, attention__key_length=HEAD_DIM,
                  attention__value_length=HEAD_DIM, attention__relative_buckets_count=8,
                  decoder_start_token_id=0)
    model.tensor("token_embd.weight", EMBED, VOCAB)
    for part in ("enc", "dec"):
        model.norm(f"{part}.output_norm")
        for i in range(LAYERS):
            layer = f"{part}.blk.{i}."
            model.norm(layer + "attn_norm")
            model.attention_t5(layer, "attn")
            model.tensor(layer + "attn_rel_b.weight", HEADS, 8)
            if part == "dec":
                model.norm(layer + "cross_attn_norm")
                model.attention_t5(layer, "cross_attn")
            model.norm(layer + "ffn_norm")
            model.feed_forward(layer)
    return model


def mamba():
    """A state space model: no attention at all."""
    inner, state, rank, kernel = 128, 16, 8, 4
    model = Model("mamba", bpe, **RMS, feed_forward_length=0, attention__head_count=0,
                  ssm__conv_kernel=kernel, ssm__inner_size=inner, ssm__state_size=state,
                  ssm__time_step_rank=rank)
    model.ends(tied=True)
    for i in range(LAYERS):
        layer = f"blk.{i}."
        model.norm(layer + "attn_norm")
        model.tensor(layer + "ssm_in.weight", EMBED, 2 * inner)
        model.linear(layer + "ssm_conv1d", kernel, inner, bias=True)
        model.tensor(layer + "ssm_x.weight", inner, rank + 2 * state)
        model.linear(layer + "ssm_dt", rank, inner, bias=True)
        model.tensor(layer + "ssm_a", state, inner)
        model.tensor(layer + "ssm_d", inner)
        model.tensor(layer + "ssm_out.weight", inner, EMBED)
    return model


MODELS = (llama, llama_none, llama_ugm, deci, openelm, qwen2, qwen2moe, ernie4_5_moe, grovemoe,
          qwen3, qwen3moe, gemma, gemma2, gemma3, phi2, phi3, gpt2, gptneox, falcon, starcoder2,
          stablelm, bloom, mpt, olmo2, cohere2, granite, gpt_oss, deepseek2, bert, t5, mamba)


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for make in MODELS:
        make().write(os.path.join(folder, f"{make.__name__}.gguf"))


if __name__ == "__main__":
    main()
