#include "api/c_api_convert.h"

#include <chrono>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace attndb::internal {
namespace {

static_assert(std::is_same_v<TokenId, int32_t>);
static_assert(static_cast<int>(DType::kBFloat16) == ATTNDB_BFLOAT16);
static_assert(static_cast<int>(RopeLayout::kInterleaved) == ATTNDB_ROPE_INTERLEAVED);
static_assert(static_cast<int>(StatusCode::kOtherModel) == ATTNDB_OTHER_MODEL);

Status IsNull(const char* name) { return Status::InvalidArgument(std::string(name) + " is NULL"); }

// Background threads: 0 is one, UINT32_MAX all cores.
uint32_t ToBackgroundThreads(uint32_t number) {
  if (number == 0) return 1;
  return number == UINT32_MAX ? 0 : number;
}

std::string TextOf(const char* text) { return text == nullptr ? std::string() : text; }

Result<DType> ToDType(int32_t number, const char* name) {
  if (number < ATTNDB_FLOAT32 || number > ATTNDB_BFLOAT16) {
    return Status::InvalidArgument(std::string(name) + " has dtype " + std::to_string(number) +
                                   "; expected 0 (float32), 1 (float16) or 2 (bfloat16)");
  }
  return static_cast<DType>(number);
}

// The C-contiguous strides of `shape`; zero strides say that the caller has no others.
Status FillStrides(const attndb_tensor& tensor, const char* name, std::array<int64_t, 3>* strides) {
  *strides = {tensor.strides[0], tensor.strides[1], tensor.strides[2]};
  if (tensor.strides[0] != 0 || tensor.strides[1] != 0 || tensor.strides[2] != 0) return Status();
  int64_t row_stride = 0;
  if (__builtin_mul_overflow(tensor.shape[1], tensor.shape[2], &row_stride)) {
    return Status::InvalidArgument(std::string(name) + " has a shape whose size overflows");
  }
  *strides = {row_stride, tensor.shape[2], 1};
  return Status();
}

template <typename View>
Result<View> ViewOf(const attndb_tensor* tensor, const char* name) {
  if (tensor == nullptr) return IsNull(name);
  ATTNDB_ASSIGN_OR_RETURN(const attndb_tensor copy, CopyStruct(tensor, "attndb_tensor"));
  if (copy.data == nullptr) return IsNull((std::string(name) + ".data").c_str());
  View view;
  view.data = copy.data;
  ATTNDB_ASSIGN_OR_RETURN(view.dtype, ToDType(copy.dtype, name));
  view.shape = {copy.shape[0], copy.shape[1], copy.shape[2]};
  ATTNDB_RETURN_IF_ERROR(FillStrides(copy, name, &view.strides));
  return view;
}

Result<LayerSpec> ToLayerSpec(const attndb_layer_spec& from) {
  if (from.rope_layout < ATTNDB_ROPE_NONE || from.rope_layout > ATTNDB_ROPE_INTERLEAVED) {
    return Status::InvalidArgument("attndb_layer_spec.rope_layout is " +
                                   std::to_string(from.rope_layout) +
                                   "; expected 0 (none), 1 (half) or 2 (interleaved)");
  }
  if (from.denominator_logits == nullptr && from.num_denominator_logits != 0) {
    return Status::InvalidArgument("attndb_layer_spec.num_denominator_logits is " +
                                   std::to_string(from.num_denominator_logits) +
                                   "; expected 0 where denominator_logits is NULL");
  }
  LayerSpec layer;
  layer.num_q_heads = from.num_q_heads;
  layer.num_kv_heads = from.num_kv_heads;
  layer.head_dim = from.head_dim;
  layer.v_head_dim = from.v_head_dim;
  layer.scale = from.scale;
  layer.soft_cap = from.soft_cap;
  layer.sliding_window = from.sliding_window;
  layer.rope.layout = static_cast<RopeLayout>(from.rope_layout);
  layer.rope.rope_dims = from.rope_dims;
  if (from.rope_base != 0) layer.rope.base = from.rope_base;
  layer.rope.scaling = TextOf(from.rope_scaling);
  if (from.denominator_logits != nullptr) {
    const float* const logits = from.denominator_logits;
    layer.denominator_logits.assign(logits, logits + from.num_denominator_logits);
  }
  return layer;
}

}  // namespace

Status StructTooSmall(const char* name, size_t found, size_t expected) {
  return Status::InvalidArgument(std::string(name) + ".struct_size is " + std::to_string(found) +
                                 "; expected sizeof(" + name + "), " + std::to_string(expected) +
                                 " at least");
}

Status StructTooNew(const char* name, size_t found, size_t known) {
  return Status::Unsupported(std::string(name) + " of " + std::to_string(found) +
                             " bytes sets a field beyond the " + std::to_string(known) +
                             " bytes that this library knows");
}

Result<TensorView> ToView(const attndb_tensor* tensor, const char* name) {
  return ViewOf<TensorView>(tensor, name);
}

Result<MutableTensorView> ToMutableView(const attndb_tensor* tensor, const char* name) {
  return ViewOf<MutableTensorView>(tensor, name);
}

Result<std::vector<TensorView>> ToViews(const attndb_tensor* tensors, size_t count,
                                        const char* name) {
  if (tensors == nullptr) return IsNull(name);
  std::vector<TensorView> views;
  const size_t stride = tensors->struct_size;
  const auto* next = reinterpret_cast<const unsigned char*>(tensors);
  for (size_t i = 0; i < count; ++i, next += stride) {
    const std::string element = std::string(name) + "[" + std::to_string(i) + "]";
    ATTNDB_ASSIGN_OR_RETURN(const TensorView view,
                            ToView(reinterpret_cast<const attndb_tensor*>(next), element.c_str()));
    views.push_back(view);
  }
  return views;
}

Result<ModelSpec> ToModelSpec(const attndb_model_spec* spec) {
  if (spec == nullptr) return IsNull("spec");
  ATTNDB_ASSIGN_OR_RETURN(const attndb_model_spec from, CopyStruct(spec, "attndb_model_spec"));
  if (from.layers == nullptr) return IsNull("attndb_model_spec.layers");
  if (from.fingerprint == nullptr) return IsNull("attndb_model_spec.fingerprint");
  ModelSpec to;
  ATTNDB_ASSIGN_OR_RETURN(to.kv_dtype, ToDType(from.kv_dtype, "attndb_model_spec.kv_dtype"));
  to.unrotated_keys = from.unrotated_keys != 0;
  to.source = {TextOf(from.model_name), TextOf(from.model_path)};
  to.fingerprint.assign(static_cast<const char*>(from.fingerprint), from.fingerprint_bytes);
  const size_t stride = from.layers->struct_size;
  const auto* next = reinterpret_cast<const unsigned char*>(from.layers);
  for (uint32_t i = 0; i < from.num_layers; ++i, next += stride) {
    const auto* const at = reinterpret_cast<const attndb_layer_spec*>(next);
    if (at->struct_size != stride) {  // Before a byte beyond the stride is looked at.
      return Status::InvalidArgument("attndb_model_spec.layers[" + std::to_string(i) +
                                     "].struct_size is " + std::to_string(at->struct_size) +
                                     "; expected that of layers[0], " + std::to_string(stride));
    }
    ATTNDB_ASSIGN_OR_RETURN(const attndb_layer_spec layer, CopyStruct(at, "attndb_layer_spec"));
    ATTNDB_ASSIGN_OR_RETURN(LayerSpec converted, ToLayerSpec(layer));
    to.layers.push_back(std::move(converted));
  }
  return to;
}

Result<DBOptions> ToDBOptions(const attndb_db_options* options) {
  DBOptions to;
  if (options == nullptr) return to;
  ATTNDB_ASSIGN_OR_RETURN(const attndb_db_options from, CopyStruct(options, "attndb_db_options"));
  to.read_only = from.read_only != 0;
  to.create_if_missing = from.must_exist == 0;
  if (from.plan != nullptr) to.plan = from.plan;
  if (from.query_sample != 0) to.query_sample = from.query_sample < 0 ? 0 : from.query_sample;
  if (from.dense_query_tokens != 0) to.dense_query_tokens = from.dense_query_tokens;
  to.num_threads = from.num_threads == UINT32_MAX ? 0 : from.num_threads;
  to.host_memory_bytes = from.host_memory_bytes;
  to.background_builds = from.no_background_builds == 0;
  to.background_threads = ToBackgroundThreads(from.background_threads);
  to.measure_machine = from.fixed_prices == 0;
  to.index = TextOf(from.index);
  to.kmeans_iterations = from.kmeans_iterations;
  to.roar_keys_per_query = from.roar_keys_per_query;
  to.roar_max_degree = from.roar_max_degree;
  to.roar_search_window = from.roar_search_window;
  to.max_training_queries = from.max_training_queries;
  to.grow_graphs = from.grow_graphs != 0;
  if (from.import_segment_tokens != 0) to.import_segment_tokens = from.import_segment_tokens;
  return to;
}

Result<std::vector<TokenRange>> ToRanges(const attndb_token_range* ranges, size_t count,
                                         const char* name) {
  if (ranges == nullptr && count > 0) return IsNull(name);
  std::vector<TokenRange> to;
  for (size_t i = 0; i < count; ++i) to.push_back({ranges[i].begin, ranges[i].end});
  return to;
}

Result<DropOptions> ToDropOptions(const attndb_drop_options* options) {
  DropOptions to;
  if (options == nullptr) return to;
  ATTNDB_ASSIGN_OR_RETURN(const attndb_drop_options from,
                          CopyStruct(options, "attndb_drop_options"));
  to.keep_first = from.keep_first;
  ATTNDB_ASSIGN_OR_RETURN(to.keep, ToRanges(from.keep, from.num_keep, "attndb_drop_options.keep"));
  to.sink = from.no_sink == 0;
  return to;
}

Result<SessionOptions> ToSessionOptions(const attndb_session_options* options) {
  SessionOptions to;
  if (options == nullptr) return to;
  ATTNDB_ASSIGN_OR_RETURN(const attndb_session_options from,
                          CopyStruct(options, "attndb_session_options"));
  to.context = TextOf(from.context);
  to.reuse = from.no_reuse == 0;
  to.truncated = from.not_truncated == 0;
  to.plan = TextOf(from.plan);
  to.first_position = from.first_position;
  return to;
}

Result<StoreOptions> ToStoreOptions(const attndb_store_options* options) {
  StoreOptions to;
  if (options == nullptr) return to;
  ATTNDB_ASSIGN_OR_RETURN(const attndb_store_options from,
                          CopyStruct(options, "attndb_store_options"));
  to.name = TextOf(from.name);
  to.replace = from.replace != 0;
  to.drop_base = from.drop_base != 0;
  if (from.has_ttl != 0) to.ttl = std::chrono::seconds(from.ttl_seconds);
  to.pin = from.pin != 0;
  ATTNDB_ASSIGN_OR_RETURN(to.text_layout, TextLayout::Parse(TextOf(from.text_layout)));
  to.title = TextOf(from.title);
  if (from.note == nullptr && from.note_bytes != 0) return IsNull("attndb_store_options.note");
  if (from.note != nullptr) to.note.assign(static_cast<const char*>(from.note), from.note_bytes);
  return to;
}

Result<FindOptions> ToFindOptions(const attndb_find_options* options) {
  FindOptions to;
  if (options == nullptr) return to;
  ATTNDB_ASSIGN_OR_RETURN(const attndb_find_options from,
                          CopyStruct(options, "attndb_find_options"));
  if (from.limit != 0) to.limit = from.limit;
  if (from.passage_tokens != 0) to.passage_tokens = from.passage_tokens;
  to.head_scores = from.head_scores != 0;
  ATTNDB_ASSIGN_OR_RETURN(
      to.contexts, ToNames(from.contexts, from.num_contexts, "attndb_find_options.contexts"));
  return to;
}

Result<RoomOptions> ToRoomOptions(const attndb_room_options* options) {
  RoomOptions to;
  if (options == nullptr) return to;
  ATTNDB_ASSIGN_OR_RETURN(const attndb_room_options from,
                          CopyStruct(options, "attndb_room_options"));
  to.first_position = from.first_position;
  to.checkpoint_tokens = from.checkpoint_tokens;
  return to;
}

Result<CompactOptions> ToCompactOptions(const attndb_compact_options* options) {
  CompactOptions to;
  if (options == nullptr) return to;
  ATTNDB_ASSIGN_OR_RETURN(const attndb_compact_options from,
                          CopyStruct(options, "attndb_compact_options"));
  to.segment_tokens = from.segment_tokens;
  if (from.context != nullptr) to.context = from.context;
  return to;
}

Result<std::vector<std::string>> ToNames(const char* const* names, size_t count,
                                         const char* argument) {
  if (names == nullptr && count != 0) return IsNull(argument);
  std::vector<std::string> to;
  for (size_t i = 0; i < count; ++i) {
    if (names[i] == nullptr) {
      return IsNull((std::string(argument) + "[" + std::to_string(i) + "]").c_str());
    }
    to.emplace_back(names[i]);
  }
  return to;
}

Result<std::span<const TokenId>> ToTokens(const int32_t* tokens, size_t num_tokens) {
  if (tokens == nullptr && num_tokens != 0) return IsNull("tokens");
  return std::span<const TokenId>(tokens, num_tokens);
}

}  // namespace attndb::internal
