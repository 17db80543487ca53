#include <cmath>

#include "attndb/result.h"
#include "attndb/types.h"
#include "attndb/units.h"
#include "common/quote.h"
#include "common/rope_frequencies.h"
#include "common/utf8.h"

namespace attndb {
namespace {

// Far beyond any known model; they keep products of sizes inside 64 bits.
constexpr uint32_t kMaxLayers = 1024;
constexpr uint32_t kMaxKvHeads = 1024;
constexpr uint32_t kMaxQHeads = 8192;
constexpr uint32_t kMaxHeadDim = 1024;
constexpr size_t kMaxFingerprintBytes = 256;
constexpr size_t kMaxScalingBytes = 256;
constexpr size_t kMaxNameBytes = 256;
constexpr size_t kMaxPathBytes = 4096;

Status FieldError(size_t layer, const char* field, const std::string& found,
                  const std::string& expected) {
  return Status::InvalidArgument("model spec, layer " + std::to_string(layer) + ": " + field +
                                 " is " + found + ", expected " + expected);
}

Status CheckCount(size_t layer, const char* field, uint32_t value, uint32_t max) {
  if (value >= 1 && value <= max) return Status::Ok();
  return FieldError(layer, field, std::to_string(value), "1 to " + std::to_string(max));
}

Status CheckNotNegative(size_t layer, const char* field, float value) {
  if (std::isfinite(value) && value >= 0.0f) return Status::Ok();
  return FieldError(layer, field, std::to_string(value), "a finite number >= 0");
}

Status CheckRope(size_t layer, const LayerSpec& spec) {
  const Rope& rope = spec.rope;
  switch (rope.layout) {
    case RopeLayout::kNone:
      return Status::Ok();
    case RopeLayout::kHalf:
    case RopeLayout::kInterleaved:
      break;
    default:
      return FieldError(layer, "rope layout", std::to_string(static_cast<int>(rope.layout)),
                        "none (0), half (1) or interleaved (2)");
  }
  const uint32_t rope_dims = rope.DimsOf(spec.head_dim);
  if (rope_dims % 2 != 0 || rope_dims > spec.head_dim) {
    return FieldError(layer, "rope_dims", std::to_string(rope_dims),
                      "an even number up to head_dim " + std::to_string(spec.head_dim));
  }
  if (!std::isfinite(rope.base) || rope.base <= 0.0) {
    return FieldError(layer, "rope base", std::to_string(rope.base), "a finite number > 0");
  }
  if (rope.scaling.size() > kMaxScalingBytes) {
    return FieldError(layer, "rope scaling", std::to_string(rope.scaling.size()) + " bytes long",
                      "at most " + std::to_string(kMaxScalingBytes));
  }
  return Status::Ok();
}

Status CheckDenominators(size_t layer, const LayerSpec& spec) {
  const std::vector<float>& logits = spec.denominator_logits;
  if (logits.empty()) return Status::Ok();
  if (logits.size() != spec.num_q_heads) {
    return FieldError(layer, "number of denominator_logits", std::to_string(logits.size()),
                      "num_q_heads " + std::to_string(spec.num_q_heads) + ", or none");
  }
  for (size_t head = 0; head < logits.size(); ++head) {
    if (std::isfinite(logits[head])) continue;
    const std::string field = "denominator_logits[" + std::to_string(head) + "]";
    return FieldError(layer, field.c_str(), std::to_string(logits[head]), "a finite number");
  }
  return Status::Ok();
}

Status CheckLayer(size_t layer, const LayerSpec& spec) {
  ATTNDB_RETURN_IF_ERROR(CheckCount(layer, "num_kv_heads", spec.num_kv_heads, kMaxKvHeads));
  ATTNDB_RETURN_IF_ERROR(CheckCount(layer, "num_q_heads", spec.num_q_heads, kMaxQHeads));
  if (spec.num_q_heads % spec.num_kv_heads != 0) {
    return FieldError(layer, "num_q_heads", std::to_string(spec.num_q_heads),
                      "a multiple of num_kv_heads " + std::to_string(spec.num_kv_heads));
  }
  ATTNDB_RETURN_IF_ERROR(CheckCount(layer, "head_dim", spec.head_dim, kMaxHeadDim));
  ATTNDB_RETURN_IF_ERROR(CheckCount(layer, "v_head_dim", spec.v_head_dim, kMaxHeadDim));
  ATTNDB_RETURN_IF_ERROR(CheckNotNegative(layer, "scale", spec.scale));
  ATTNDB_RETURN_IF_ERROR(CheckNotNegative(layer, "soft_cap", spec.soft_cap));
  ATTNDB_RETURN_IF_ERROR(CheckDenominators(layer, spec));
  return CheckRope(layer, spec);
}

Status CheckSourceText(const char* field, const std::string& text, size_t max_bytes) {
  const std::string what = std::string("model spec: source.") + field + " ";
  if (text.size() > max_bytes) {
    return Status::InvalidArgument(what + "of " + std::to_string(text.size()) +
                                   " bytes, expected at most " + std::to_string(max_bytes));
  }
  for (std::string_view rest = text; !rest.empty();) {
    const Utf8Char first = FirstUtf8Char(rest);
    const bool is_ascii = first.code_point >= ' ' && first.code_point <= '~';
    if (first.num_bytes == 0 || !(is_ascii || IsVisible(first.code_point))) {
      return Status::InvalidArgument(what + Quoted(text) +
                                     ": expected UTF-8 without control characters");
    }
    rest.remove_prefix(first.num_bytes);
  }
  return Status::Ok();
}

// Checks that keys of all layers can be rotated back, and that at least one layer rotates keys.
Status CheckTurns(const std::vector<LayerSpec>& layers) {
  bool any = false;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const Result<std::vector<double>> frequencies =
        RopeFrequencies(layers[layer].rope, layers[layer].head_dim);
    if (!frequencies.ok()) {
      return Status::InvalidArgument("model spec, layer " + std::to_string(layer) +
                                     ": unrotated_keys: " + frequencies.status().message());
    }
    any = any || !frequencies->empty();
  }
  if (any) return Status::Ok();
  return Status::InvalidArgument("model spec: unrotated_keys, but no layer has rotary positions");
}

}  // namespace

ModelSpec ModelSpec::Uniform(uint32_t num_layers, const LayerSpec& layer, DType kv_dtype,
                             std::string fingerprint) {
  return {std::vector<LayerSpec>(num_layers, layer), kv_dtype, std::move(fingerprint), false, {}};
}

uint64_t ModelSpec::KvBytesPerToken() const {
  uint64_t elements = 0;
  for (const LayerSpec& layer : layers) {
    elements += uint64_t{layer.num_kv_heads} * (uint64_t{layer.head_dim} + layer.v_head_dim);
  }
  return elements * DTypeBytes(kv_dtype);
}

Status ModelSpec::Validate() const {
  if (layers.empty() || layers.size() > kMaxLayers) {
    return Status::InvalidArgument("model spec: " + Counted(layers.size(), "layer") +
                                   ", expected 1 to " + FormatCount(kMaxLayers));
  }
  if (fingerprint.empty() || fingerprint.size() > kMaxFingerprintBytes) {
    return Status::InvalidArgument("model spec: fingerprint of " +
                                   std::to_string(fingerprint.size()) + " bytes, expected 1 to " +
                                   std::to_string(kMaxFingerprintBytes));
  }
  if (DTypeName(kv_dtype) == "unknown") {
    return Status::InvalidArgument("model spec: kv_dtype is " +
                                   std::to_string(static_cast<int>(kv_dtype)) +
                                   ", expected float32 (0), float16 (1) or bfloat16 (2)");
  }
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    ATTNDB_RETURN_IF_ERROR(CheckLayer(layer, layers[layer]));
  }
  ATTNDB_RETURN_IF_ERROR(source.Validate());
  return unrotated_keys ? CheckTurns(layers) : Status::Ok();
}

std::string ModelSource::ToString() const {
  if (name.empty()) return path.empty() ? "" : Quoted(path);
  return Quoted(name) + (path.empty() ? "" : " (" + Quoted(path) + ")");
}

Status ModelSource::Validate() const {
  ATTNDB_RETURN_IF_ERROR(CheckSourceText("name", name, kMaxNameBytes));
  return CheckSourceText("path", path, kMaxPathBytes);
}

}  // namespace attndb
