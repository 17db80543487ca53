#include "store/catalog/model_identity.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "common/coding.h"

namespace attndb::store {
namespace {

// Versions of the encoding: for models without denominator logits, for models with some, and for
// models whose keys are stored without RoPE. None may change: stores find models by it.
constexpr uint32_t kEncodingVersion = 1;
constexpr uint32_t kDenominatorsVersion = 2;
constexpr uint32_t kUnrotatedVersion = 3;
constexpr size_t kLayerBytesMin = 4 * 4 + 4 + 4 + 4 + 1 + 4 + 8 + 4;

// The encoding compares bits: -0 and 0 are one number.
template <typename T>
T WithoutMinusZero(T value) {
  return value == T{0} ? T{0} : value;
}

LayerSpec Canonical(LayerSpec layer) {
  if (layer.scale == 0.0f) {
    layer.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(layer.head_dim)));
  }
  layer.soft_cap = WithoutMinusZero(layer.soft_cap);
  for (float& logit : layer.denominator_logits) logit = WithoutMinusZero(logit);
  Rope& rope = layer.rope;
  if (rope.layout == RopeLayout::kNone) {
    rope = Rope{.layout = RopeLayout::kNone, .rope_dims = 0, .base = 0.0, .scaling = ""};
    return layer;
  }
  rope.layout = RopeLayout::kHalf;
  rope.rope_dims = rope.DimsOf(layer.head_dim);
  rope.base = WithoutMinusZero(rope.base);
  return layer;
}

void WriteText(const std::string& text, ByteWriter* out) {
  out->U32(static_cast<uint32_t>(text.size()));
  out->Bytes(BytesOf(text));
}

std::string ReadText(ByteReader* in, std::string_view field) {
  const std::span<const std::byte> bytes = in->Bytes(in->U32(field), field);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

uint32_t VersionFor(const ModelSpec& spec) {
  if (spec.unrotated_keys) return kUnrotatedVersion;
  const bool any = std::ranges::any_of(
      spec.layers, [](const LayerSpec& layer) { return !layer.denominator_logits.empty(); });
  return any ? kDenominatorsVersion : kEncodingVersion;
}

void WriteLayer(const LayerSpec& layer, uint32_t version, ByteWriter* out) {
  out->U32(layer.num_q_heads);
  out->U32(layer.num_kv_heads);
  out->U32(layer.head_dim);
  out->U32(layer.v_head_dim);
  out->U32(std::bit_cast<uint32_t>(layer.scale));
  out->U32(std::bit_cast<uint32_t>(layer.soft_cap));
  out->U32(layer.sliding_window);
  out->U8(static_cast<uint8_t>(layer.rope.layout));
  out->U32(layer.rope.rope_dims);
  out->U64(std::bit_cast<uint64_t>(layer.rope.base));
  WriteText(layer.rope.scaling, out);
  if (version < kDenominatorsVersion) return;
  out->U32(static_cast<uint32_t>(layer.denominator_logits.size()));
  out->Bytes(BytesOf(layer.denominator_logits));
}

std::vector<float> ReadDenominators(ByteReader* in) {
  const uint64_t count = in->U32("number of denominator_logits");
  const std::span<const std::byte> bytes = in->Bytes(count * sizeof(float), "denominator_logits");
  std::vector<float> logits(bytes.size() / sizeof(float));  // None after an error.
  if (!logits.empty()) std::memcpy(logits.data(), bytes.data(), bytes.size());
  return logits;
}

LayerSpec ReadLayer(uint32_t version, ByteReader* in) {
  LayerSpec layer;
  layer.num_q_heads = in->U32("num_q_heads");
  layer.num_kv_heads = in->U32("num_kv_heads");
  layer.head_dim = in->U32("head_dim");
  layer.v_head_dim = in->U32("v_head_dim");
  layer.scale = std::bit_cast<float>(in->U32("scale"));
  layer.soft_cap = std::bit_cast<float>(in->U32("soft_cap"));
  layer.sliding_window = in->U32("sliding_window");
  layer.rope.layout = static_cast<RopeLayout>(in->U8("rope layout"));
  layer.rope.rope_dims = in->U32("rope_dims");
  layer.rope.base = std::bit_cast<double>(in->U64("rope base"));
  layer.rope.scaling = ReadText(in, "rope scaling");
  if (version >= kDenominatorsVersion) layer.denominator_logits = ReadDenominators(in);
  return layer;
}

}  // namespace

EncodedModel EncodeModel(const ModelSpec& spec) {
  ByteWriter out;
  const uint32_t version = VersionFor(spec);
  out.U32(version);
  out.U8(static_cast<uint8_t>(spec.kv_dtype));
  out.U32(spec.num_layers());
  for (const LayerSpec& layer : spec.layers) WriteLayer(Canonical(layer), version, &out);
  EncodedModel encoded;
  encoded.layout = Sha256::Of(out.bytes());
  WriteText(spec.fingerprint, &out);
  encoded.identity = Sha256::Of(out.bytes());
  encoded.bytes = out.Release();
  return encoded;
}

Result<ModelSpec> DecodeModel(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "model");
  const uint32_t version = in.U32("version");
  if (in.status().ok() && (version < kEncodingVersion || version > kUnrotatedVersion)) {
    return Status::Corruption("model: encoding version " + std::to_string(version) + ", expected " +
                              std::to_string(kEncodingVersion) + " to " +
                              std::to_string(kUnrotatedVersion));
  }
  ModelSpec spec;
  spec.unrotated_keys = version == kUnrotatedVersion;
  spec.kv_dtype = static_cast<DType>(in.U8("kv_dtype"));
  const uint32_t num_layers = in.U32("num_layers");
  if (num_layers > in.remaining() / kLayerBytesMin) {
    return Status::Corruption("model: " + std::to_string(num_layers) + " layers in " +
                              std::to_string(bytes.size()) + " bytes");
  }
  spec.layers.reserve(num_layers);
  for (uint32_t i = 0; i < num_layers && in.status().ok(); ++i) {
    spec.layers.push_back(ReadLayer(version, &in));
  }
  spec.fingerprint = ReadText(&in, "fingerprint");
  ATTNDB_RETURN_IF_ERROR(in.Finish());
  if (const Status status = spec.Validate(); !status.ok()) {
    return Status::Corruption("model: " + status.message());
  }
  // Whatever else can be wrong (an unknown enumerator, a default left open) shows here.
  if (!std::ranges::equal(EncodeModel(spec).bytes, bytes)) {
    return Status::Corruption("model: encoding is not canonical");
  }
  return spec;
}

}  // namespace attndb::store
