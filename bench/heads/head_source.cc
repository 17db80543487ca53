#include "bench/heads/head_source.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <span>
#include <utility>

#include "attndb/kv_file.h"
#include "cli/common/layer_list.h"

namespace attndb::bench {
namespace {

std::string Shape(const TensorView& view) {
  return "[" + std::to_string(view.rows()) + ", " + std::to_string(view.heads()) + ", " +
         std::to_string(view.dim()) + "]";
}

Status CheckArrays(const TensorView& k, const TensorView& v, const TensorView& q) {
  if (k.rows() != v.rows() || k.heads() != v.heads()) {
    return Status::InvalidArgument("keys are " + Shape(k) + ", values " + Shape(v) +
                                   "; expected equal numbers of tokens and kv heads");
  }
  if (q.dim() != k.dim() || q.heads() % k.heads() != 0) {
    return Status::InvalidArgument(
        "keys are " + Shape(k) + ", queries " + Shape(q) +
        "; expected equal head sizes and q heads a multiple of kv heads");
  }
  if (q.rows() > k.rows()) {
    return Status::InvalidArgument("keys are " + Shape(k) + ", queries " + Shape(q) +
                                   "; expected at most as many queries as tokens");
  }
  constexpr int64_t kMaxSize = int64_t{1} << 31;
  if (k.rows() >= kMaxSize || q.heads() >= 65536 || q.dim() >= 65536 || v.dim() >= 65536) {
    return Status::InvalidArgument("arrays are too large: keys " + Shape(k) + ", queries " +
                                   Shape(q));
  }
  return Status();
}

// Exact. The exponent moves from a bias of 15 to one of 127 by a product, which is right for
// subnormals too; Inf and NaN keep the largest exponent.
float HalfToFloat(uint16_t half) {
  const uint32_t magnitude = (half & 0x7FFFU) << 13;
  float value = std::bit_cast<float>(magnitude) * 0x1p112F;
  if (magnitude >= 0x0F800000U) value = std::bit_cast<float>(magnitude | 0x7F800000U);
  return (half & 0x8000U) != 0 ? -value : value;
}

// Rows [begin, end) of the array, as float32.
void CopyRows(const NpyArray& array, uint64_t begin, uint64_t end, float* out) {
  const TensorView view = array.View();
  const auto row = static_cast<size_t>(view.heads() * view.dim());
  const size_t first = begin * row;
  const size_t count = (end - begin) * row;
  if (view.dtype == DType::kFloat32) {
    std::copy_n(static_cast<const float*>(view.data) + first, count, out);
    return;
  }
  const std::span halves(static_cast<const uint16_t*>(view.data) + first, count);
  std::transform(halves.begin(), halves.end(), out, HalfToFloat);
}

HeadInfo ArraysInfo(const TensorView& k, const TensorView& v, const TensorView& q, DType kv_dtype) {
  LayerSpec layer;
  layer.num_q_heads = static_cast<uint32_t>(q.heads());
  layer.num_kv_heads = static_cast<uint32_t>(k.heads());
  layer.head_dim = static_cast<uint32_t>(k.dim());
  layer.v_head_dim = static_cast<uint32_t>(v.dim());
  HeadInfo info;
  info.model = ModelSpec::Uniform(1, layer, kv_dtype, "attndb-bench");
  info.layers = {0};
  info.num_tokens = static_cast<uint64_t>(k.rows());
  info.num_queries = static_cast<uint64_t>(q.rows());
  info.origin = HeadOrigin::kArrays;
  info.description = "from arrays";
  return info;
}

class ArrayHeads : public HeadSource {
 public:
  ArrayHeads(HeadInfo info, NpyArray keys, NpyArray values, NpyArray queries)
      : HeadSource(std::move(info)),
        keys_(std::move(keys)),
        values_(std::move(values)),
        queries_(std::move(queries)) {}

  Status ReadKv(size_t /*i*/, TokenRange range, float* k, float* v) override {
    CopyRows(keys_, range.begin, range.end, k);
    CopyRows(values_, range.begin, range.end, v);
    return Status();
  }

  Status ReadQueries(size_t /*i*/, TokenRange range, float* q) override {
    const uint64_t first = info().num_tokens - info().num_queries;
    CopyRows(queries_, range.begin - first, range.end - first, q);
    return Status();
  }

 private:
  const NpyArray keys_;
  const NpyArray values_;
  const NpyArray queries_;
};

class CapturedHeads : public HeadSource {
 public:
  CapturedHeads(HeadInfo info, KvFileReader reader)
      : HeadSource(std::move(info)), reader_(std::move(reader)) {}

  Status ReadKv(size_t i, TokenRange range, float* k, float* v) override {
    const LayerSpec& layer = info().layer(i);
    const auto rows = static_cast<int64_t>(range.end - range.begin);
    const int64_t heads = layer.num_kv_heads;
    return reader_.ReadKv(
        info().layers[i], range,
        MutableTensorView::Contiguous(k, DType::kFloat32, rows, heads, layer.head_dim),
        MutableTensorView::Contiguous(v, DType::kFloat32, rows, heads, layer.v_head_dim));
  }

  Status ReadQueries(size_t i, TokenRange range, float* q) override {
    const LayerSpec& layer = info().layer(i);
    return reader_.ReadQueries(
        info().layers[i], range,
        MutableTensorView::Contiguous(q, DType::kFloat32,
                                      static_cast<int64_t>(range.end - range.begin),
                                      layer.num_q_heads, layer.head_dim));
  }

 private:
  const KvFileReader reader_;
};

Result<std::vector<LayerId>> LayersOf(const KvFileContents& contents, const std::string& text) {
  if (text.empty()) return contents.layers;
  ATTNDB_ASSIGN_OR_RETURN(std::vector<LayerId> layers,
                          cli::ParseLayers(text, contents.spec.num_layers()));
  for (const LayerId layer : layers) {
    if (!std::binary_search(contents.layers.begin(), contents.layers.end(), layer)) {
      return Status::InvalidArgument("layer " + std::to_string(layer) + " is not in the file");
    }
  }
  return layers;
}

}  // namespace

std::string_view HeadOriginName(HeadOrigin origin) {
  switch (origin) {
    case HeadOrigin::kArrays:
      return "arrays";
    case HeadOrigin::kCaptured:
      return "captured";
    case HeadOrigin::kStretched:
      return "stretched";
    case HeadOrigin::kSynthetic:
      return "synthetic";
  }
  return "unknown";
}

ModelSpec HeadInfo::SpecOfLayers() const {
  ModelSpec spec = model;
  spec.layers.clear();
  for (size_t i = 0; i < layers.size(); ++i) spec.layers.push_back(layer(i));
  return spec;
}

Result<std::unique_ptr<HeadSource>> HeadsFromArrays(NpyArray keys, NpyArray values,
                                                    NpyArray queries, DType kv_dtype) {
  ATTNDB_RETURN_IF_ERROR(CheckArrays(keys.View(), values.View(), queries.View()));
  HeadInfo info = ArraysInfo(keys.View(), values.View(), queries.View(), kv_dtype);
  return std::unique_ptr<HeadSource>(std::make_unique<ArrayHeads>(
      std::move(info), std::move(keys), std::move(values), std::move(queries)));
}

Result<std::unique_ptr<HeadSource>> HeadsFromCapture(const std::string& path,
                                                     const std::string& layers,
                                                     uint64_t first_tokens) {
  ATTNDB_ASSIGN_OR_RETURN(KvFileReader reader, KvFileReader::Open(path));
  const KvFileContents& contents = reader.contents();
  if (contents.num_queries == 0) {
    return Status::InvalidArgument("'" + path + "' has no q; capture it with --queries");
  }
  Result<std::vector<LayerId>> chosen = LayersOf(contents, layers);
  if (!chosen.ok()) return chosen.status().WithContext(path);
  const uint64_t num_tokens = contents.tokens.size();
  const uint64_t first_query = num_tokens - contents.num_queries;
  if (first_tokens > num_tokens || (first_tokens != 0 && first_tokens <= first_query)) {
    return Status::InvalidArgument("'" + path + "': expected " + std::to_string(first_query + 1) +
                                   " to " + std::to_string(num_tokens) +
                                   " first tokens, so that some have q; found " +
                                   std::to_string(first_tokens));
  }
  HeadInfo info;
  info.model = contents.spec;
  info.layers = *std::move(chosen);
  info.num_tokens = first_tokens == 0 ? num_tokens : first_tokens;
  info.num_queries = info.num_tokens - first_query;
  info.first_position = contents.first_position;
  info.origin = HeadOrigin::kCaptured;
  const auto model = contents.notes.find("model");
  info.description = "captured from " +
                     (model == contents.notes.end() ? std::string("a model") : model->second) +
                     ": " + std::filesystem::path(path).filename().string();
  return std::unique_ptr<HeadSource>(
      std::make_unique<CapturedHeads>(std::move(info), std::move(reader)));
}

}  // namespace attndb::bench
