#include "engines/llama/layer_reader.h"

#include <ggml-backend.h>
#include <openssl/evp.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace attndb::llama {
namespace {

// Where ggml keeps the parameters of its ops, in op_params (ggml.c, ggml_flash_attn_ext and
// ggml_rope_impl of llama.cpp 0.5).
enum FlashParam { kFlashScale = 0, kFlashMaxBias = 1, kFlashSoftCap = 2, kFlashMaxKv = 4 };
enum RopeParam {
  kRopeDims = 1,
  kRopeMode = 2,
  kRopeContextOriginal = 4,
  kRopeBase = 5,
  kRopeScale = 6,
  kRopeExtFactor = 7,
  kRopeAttnFactor = 8,
  kRopeBetaFast = 9,
  kRopeBetaSlow = 10,
  kRopeOffset = 15,
};

constexpr int kRopeModeInterleaved = 0;  // GGML_ROPE_TYPE_NORMAL
constexpr int kStepsMax = 32;            // From the stored keys back to their ROPE node.

float FloatParam(const ggml_tensor* node, int idx) {
  float value = 0;
  std::memcpy(&value, &node->op_params[idx], sizeof(value));
  return value;
}

Status Refuse(const AttentionSite& site, const std::string& what) {
  return Status::Unsupported("layer " + std::to_string(site.layer) + ": " + what);
}

std::optional<DType> ToDType(ggml_type type) {
  switch (type) {
    case GGML_TYPE_F32:
      return DType::kFloat32;
    case GGML_TYPE_F16:
      return DType::kFloat16;
    case GGML_TYPE_BF16:
      return DType::kBFloat16;
    default:
      return std::nullopt;
  }
}

// Byte strides of `tensor` in elements. REQUIRES: its type is one of ToDType's.
int64_t Stride(const ggml_tensor* tensor, int dim) {
  return static_cast<int64_t>(tensor->nb[dim] / ggml_type_size(tensor->type));
}

Status CheckAttentionParams(const AttentionSite& site) {
  const ggml_tensor* node = site.attention;
  if (FloatParam(node, kFlashMaxBias) != 0.0f) return Refuse(site, "ALiBi (position bias)");
  if (node->op_params[kFlashMaxKv] != 0) return Refuse(site, "sparse attention (indexer)");
  for (int i = 5; i < GGML_MAX_SRC; ++i) {
    if (node->src[i] != nullptr) return Refuse(site, "unknown input of " + Describe(node));
  }
  const ggml_tensor* mask = node->src[3];
  if (mask == nullptr) return Refuse(site, "attention without mask");
  if (mask->op != GGML_OP_NONE) return Refuse(site, "computed mask: " + Describe(mask));
  return Status::Ok();
}

// Rows that a store writes: [heads * dim, num_tokens].
Status CheckRows(const AttentionSite& site, const ggml_tensor* store, int64_t width,
                 int64_t num_tokens) {
  const ggml_tensor* rows = store->src[0];
  if (!ToDType(rows->type)) {
    return Refuse(site, std::string("new keys or values of type ") + ggml_type_name(rows->type));
  }
  if (rows->ne[0] != width || rows->ne[1] != num_tokens || rows->ne[2] != 1 || rows->ne[3] != 1) {
    return Refuse(site, Describe(store) + " stores [" + std::to_string(rows->ne[0]) + ", " +
                            std::to_string(rows->ne[1]) + "] where [" + std::to_string(width) +
                            ", " + std::to_string(num_tokens) + "] was expected");
  }
  return Status::Ok();
}

Status CheckShapes(const AttentionSite& site) {
  const ggml_tensor* q = site.attention->src[0];
  const ggml_tensor* k = site.attention->src[1];
  const ggml_tensor* v = site.attention->src[2];
  if (q->type != GGML_TYPE_F32 || q->nb[0] != sizeof(float)) {
    return Refuse(site, std::string("queries of type ") + ggml_type_name(q->type));
  }
  if (!ToDType(k->type) || !ToDType(v->type)) {
    return Refuse(site, std::string("quantised KV cache (") + ggml_type_name(k->type) + ", " +
                            ggml_type_name(v->type) + ")");
  }
  if (k->nb[0] != ggml_type_size(k->type) || v->nb[0] != ggml_type_size(v->type)) {
    return Refuse(site, "transposed values");
  }
  if (q->ne[3] != 1 || k->ne[3] != 1 || v->ne[3] != 1) return Refuse(site, "several KV streams");
  if (k->ne[0] != q->ne[0] || k->ne[2] != v->ne[2] || k->ne[2] == 0 || q->ne[2] % k->ne[2] != 0) {
    return Refuse(site, "heads of " + Describe(site.attention) + " don't fit together");
  }
  ATTNDB_RETURN_IF_ERROR(CheckRows(site, site.k_store, k->ne[0] * k->ne[2], q->ne[1]));
  return CheckRows(site, site.v_store, v->ne[0] * v->ne[2], q->ne[1]);
}

bool IsWeight(const ggml_tensor* tensor) {
  return tensor != nullptr && tensor->op == GGML_OP_NONE && tensor->buffer != nullptr &&
         ggml_backend_buffer_get_usage(tensor->buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}

// The learned sinks of GPT-OSS and its like, one logit for each q head; none where the node has
// none.
Result<std::vector<float>> ReadDenominators(const AttentionSite& site) {
  const ggml_tensor* const sinks = site.attention->src[4];
  if (sinks == nullptr) return std::vector<float>();
  const int64_t num_q_heads = site.attention->src[0]->ne[2];
  if (!IsWeight(RootOf(sinks))) {
    return Refuse(site, "attention sinks that are no weights: " + Describe(sinks));
  }
  if (sinks->type != GGML_TYPE_F32 || !ggml_is_contiguous(sinks) ||
      ggml_nelements(sinks) != num_q_heads) {
    return Refuse(site, "attention sinks of " + std::to_string(ggml_nelements(sinks)) + " " +
                            ggml_type_name(sinks->type) + " values, expected " +
                            std::to_string(num_q_heads) + " of type f32, one for each q head");
  }
  std::vector<float> logits(static_cast<size_t>(num_q_heads));
  ggml_backend_tensor_get(sinks, logits.data(), 0, logits.size() * sizeof(float));
  for (const float logit : logits) {
    if (!std::isfinite(logit)) return Refuse(site, "attention sinks that are not finite");
  }
  return logits;
}

// The ROPE node that rotated the stored keys; null if there is none between them and the projection
// that made them.
Result<const ggml_tensor*> FindRope(const AttentionSite& site) {
  const ggml_tensor* node = site.k_store->src[0];
  const ggml_tensor* changed_by = nullptr;  // An op that is more than a copy, after the rotation.
  for (int step = 0; step < kStepsMax && node != nullptr; ++step, node = node->src[0]) {
    switch (node->op) {
      case GGML_OP_VIEW:
      case GGML_OP_RESHAPE:
      case GGML_OP_PERMUTE:
      case GGML_OP_TRANSPOSE:
      case GGML_OP_CONT:
      case GGML_OP_CPY:
      case GGML_OP_DUP:
        break;
      case GGML_OP_ADD:
      case GGML_OP_MUL:
      case GGML_OP_SCALE:
      case GGML_OP_CLAMP:
      case GGML_OP_NORM:
      case GGML_OP_RMS_NORM:
      case GGML_OP_L2_NORM:
        if (changed_by == nullptr) changed_by = node;
        break;
      case GGML_OP_ROPE:
        if (changed_by == nullptr) return node;
        return Refuse(site, "keys are changed after RoPE by " + Describe(changed_by));
      case GGML_OP_MUL_MAT:
        if (IsWeight(RootOf(node->src[0]))) return static_cast<const ggml_tensor*>(nullptr);
        [[fallthrough]];
      default:
        return Refuse(site, "keys are made by " + Describe(node));
    }
  }
  return Refuse(site, "the origin of the keys was not found");
}

std::string HexDigest(const void* data, size_t size) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int digest_bytes = 0;
  if (EVP_Digest(data, size, digest.data(), &digest_bytes, EVP_sha256(), nullptr) != 1) return "";
  std::string hex;
  for (unsigned int i = 0; i < digest_bytes; ++i) {
    char byte[3];
    std::snprintf(byte, sizeof(byte), "%02x", digest[i]);
    hex += byte;
  }
  return hex;
}

// Canonical text of everything in a ROPE node that is neither base, layout nor dims.
std::string ScalingText(const ggml_tensor* rope) {
  char buffer[160];
  std::string text;
  const float scale = FloatParam(rope, kRopeScale);
  const float ext = FloatParam(rope, kRopeExtFactor);
  const float attn = FloatParam(rope, kRopeAttnFactor);
  if (ext != 0.0f) {
    std::snprintf(buffer, sizeof(buffer),
                  "yarn:freq_scale=%.9g,ext=%.9g,attn=%.9g,beta_fast=%.9g,beta_slow=%.9g,orig=%d",
                  static_cast<double>(scale), static_cast<double>(ext), static_cast<double>(attn),
                  static_cast<double>(FloatParam(rope, kRopeBetaFast)),
                  static_cast<double>(FloatParam(rope, kRopeBetaSlow)),
                  rope->op_params[kRopeContextOriginal]);
    text = buffer;
  } else if (scale != 1.0f || attn != 1.0f) {
    std::snprintf(buffer, sizeof(buffer), "linear:freq_scale=%.9g,attn=%.9g",
                  static_cast<double>(scale), static_cast<double>(attn));
    text = buffer;
  }
  if (const ggml_tensor* factors = rope->src[2]; factors != nullptr) {
    if (!text.empty()) text += ";";
    text += "factors:sha256=" + HexDigest(factors->data, ggml_nbytes(factors));
  }
  return text;
}

}  // namespace

Result<LayerSpec> ReadLayer(const AttentionSite& site) {
  ATTNDB_RETURN_IF_ERROR(CheckAttentionParams(site));
  ATTNDB_RETURN_IF_ERROR(CheckShapes(site));
  const ggml_tensor* q = site.attention->src[0];
  const ggml_tensor* v = site.attention->src[2];
  LayerSpec spec;
  spec.num_q_heads = static_cast<uint32_t>(q->ne[2]);
  spec.num_kv_heads = static_cast<uint32_t>(v->ne[2]);
  spec.head_dim = static_cast<uint32_t>(q->ne[0]);
  spec.v_head_dim = static_cast<uint32_t>(v->ne[0]);
  spec.scale = FloatParam(site.attention, kFlashScale);
  spec.soft_cap = FloatParam(site.attention, kFlashSoftCap);
  ATTNDB_ASSIGN_OR_RETURN(spec.denominator_logits, ReadDenominators(site));
  if (!(spec.scale > 0.0f) || !std::isfinite(spec.scale)) {
    return Refuse(site, "softmax scale " + std::to_string(spec.scale));
  }
  return spec;
}

Result<Rope> ReadRope(const AttentionSite& site) {
  ATTNDB_ASSIGN_OR_RETURN(const ggml_tensor* const node, FindRope(site));
  const int64_t head_dim = site.attention->src[0]->ne[0];
  Rope rope;
  rope.rope_dims = static_cast<uint32_t>(head_dim);  // As attndb resolves "0 = all".
  if (node == nullptr) return rope;
  const int mode = node->op_params[kRopeMode];
  if (mode != kRopeModeInterleaved && mode != GGML_ROPE_TYPE_NEOX) {
    return Refuse(site, "RoPE mode " + std::to_string(mode) + " (multi-section or vision)");
  }
  if (node->op_params[kRopeOffset] != 0) return Refuse(site, "RoPE of inner channels");
  const int dims = node->op_params[kRopeDims];
  if (node->ne[0] != head_dim || dims <= 0 || dims % 2 != 0 || dims > head_dim) {
    return Refuse(site, "RoPE over " + std::to_string(dims) + " of " + std::to_string(node->ne[0]) +
                            " channels of heads of " + std::to_string(head_dim));
  }
  rope.layout = mode == GGML_ROPE_TYPE_NEOX ? RopeLayout::kHalf : RopeLayout::kInterleaved;
  rope.rope_dims = static_cast<uint32_t>(dims);
  rope.base = static_cast<double>(FloatParam(node, kRopeBase));
  rope.scaling = ScalingText(node);
  return rope;
}

TensorView QueryView(const ggml_tensor* attention) {
  const ggml_tensor* q = attention->src[0];  // [head_dim, num_tokens, num_q_heads]
  return {.data = q->data,
          .dtype = DType::kFloat32,
          .shape = {q->ne[1], q->ne[2], q->ne[0]},
          .strides = {Stride(q, 1), Stride(q, 2), 1}};
}

MutableTensorView OutputView(ggml_tensor* attention) {  // [v_head_dim, num_q_heads, num_tokens]
  return {.data = attention->data,
          .dtype = DType::kFloat32,
          .shape = {attention->ne[2], attention->ne[1], attention->ne[0]},
          .strides = {Stride(attention, 2), Stride(attention, 1), 1}};
}

TensorView RowsView(const ggml_tensor* rows, int64_t num_heads, int64_t dim) {
  return {.data = rows->data,
          .dtype = ToDType(rows->type).value_or(DType::kFloat32),
          .shape = {rows->ne[1], num_heads, dim},
          .strides = {Stride(rows, 1), dim, 1}};
}

}  // namespace attndb::llama
