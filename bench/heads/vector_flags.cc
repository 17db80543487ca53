#include "bench/heads/vector_flags.h"

#include <utility>

#include "bench/heads/npy.h"
#include "bench/heads/smaller_groups.h"
#include "bench/heads/stretched_heads.h"
#include "bench/heads/synthetic_heads.h"

namespace attndb::bench {

void VectorFlags::AddTo(cli::Flags* flags) {
  flags->Group("Captured vectors");
  flags->Add({"--capture", "FILE", "What attndb capture wrote, with q of some last tokens"},
             &capture_);
  flags->Add({"--layers", "LIST", "Its layers to measure, as in 0,3,5-7 (default: all)"}, &layers_);
  flags->Add({"--first-tokens", "N", "Its first N tokens alone"}, &first_tokens_, uint64_t{1},
             uint64_t{1} << 30);
  flags->Add({"--group-size", "N", "The first N q heads of each kv head alone"}, &group_size_, 1U,
             1024U);
  flags->Add({"--stretch", "N",
              "Make it N tokens long: more tokens with K and V of captured ones at random, keys "
              "turned to positions that were captured; labelled so"},
             &stretch_, uint64_t{1}, uint64_t{1} << 30);
  flags->Group("Vectors from files (all three)");
  flags->Add({"--keys", "K.npy", "[tokens, heads, dim], float16 or float32"}, &keys_);
  flags->Add({"--values", "V.npy", "[tokens, heads, dim]"}, &values_);
  flags->Add({"--queries", "Q.npy", "[rows, q heads, dim], of the last tokens"}, &queries_);
  flags->Group("Synthetic vectors, with the spread of SmolLM2's softmax");
  flags->Add({"--geometry", "NAME",
              "llama3-8b (default), smollm2, or kv heads x q heads of each x channels: 8x4x128"},
             &geometry_);
  flags->Add({"--tokens", "N", "Tokens (default: 32768)"}, &num_tokens_, uint64_t{2},
             uint64_t{1} << 30);
  flags->Group("Stored as");
  flags->Add({"--dtype", "TYPE", "f16 (default), bf16 or f32; of a capture its own"}, &kv_dtype_);
}

Result<std::unique_ptr<HeadSource>> VectorFlags::Open() const {
  const int num_files =
      (keys_.empty() ? 0 : 1) + (values_.empty() ? 0 : 1) + (queries_.empty() ? 0 : 1);
  if (num_files != 0 && num_files != 3) {
    return Status::InvalidArgument("--keys, --values and --queries go together");
  }
  const bool has_geometry = !geometry_.empty();
  if ((num_files != 0 ? 1 : 0) + (capture_.empty() ? 0 : 1) + (has_geometry ? 1 : 0) > 1) {
    return Status::InvalidArgument("expected one of --capture, --keys and --geometry");
  }
  if (capture_.empty() &&
      (stretch_ != 0 || first_tokens_ != 0 || group_size_ != 0 || !layers_.empty())) {
    return Status::InvalidArgument(
        "--stretch, --first-tokens, --group-size and --layers are of a --capture");
  }
  if (num_files != 0) {
    ATTNDB_ASSIGN_OR_RETURN(NpyArray keys, ReadNpy(keys_));
    ATTNDB_ASSIGN_OR_RETURN(NpyArray values, ReadNpy(values_));
    ATTNDB_ASSIGN_OR_RETURN(NpyArray queries, ReadNpy(queries_));
    return HeadsFromArrays(std::move(keys), std::move(values), std::move(queries), kv_dtype_);
  }
  if (!capture_.empty()) {
    ATTNDB_ASSIGN_OR_RETURN(std::unique_ptr<HeadSource> heads,
                            HeadsFromCapture(capture_, layers_, first_tokens_));
    if (group_size_ != 0) {
      ATTNDB_ASSIGN_OR_RETURN(heads, SmallerGroups(std::move(heads), group_size_));
    }
    if (stretch_ == 0) return heads;
    return StretchedHeads(std::move(heads), stretch_);
  }
  ATTNDB_ASSIGN_OR_RETURN(const LayerSpec layer,
                          ParseGeometry(has_geometry ? geometry_ : "llama3-8b"));
  return SyntheticHeads(layer, num_tokens_, kv_dtype_);
}

}  // namespace attndb::bench
