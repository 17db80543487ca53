// The vectors that a benchmark runs on: K, V and q of some layers of a model, from arrays, from a
// capture, or made up.
//
// Shapes:  k [n, num_kv_heads, head_dim], v [n, num_kv_heads, v_head_dim], q [n, num_q_heads,
//          head_dim]; contiguous float32, after RoPE in the layout that the spec names.
// Errors:  kInvalidArgument where arrays or a request do not fit, kUnsupported; those of the files.
// Threads: one thread at a time.
#ifndef ATTNDB_BENCH_HEADS_HEAD_SOURCE_H_
#define ATTNDB_BENCH_HEADS_HEAD_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "bench/heads/npy.h"

namespace attndb::bench {

// How much a figure of error means.
enum class HeadOrigin : uint8_t {
  kArrays,     // The user's own vectors.
  kCaptured,   // A real model's, of a real text.
  kStretched,  // A capture made longer: stretched_heads.h.
  kSynthetic,  // Random: synthetic_heads.h.
};
std::string_view HeadOriginName(HeadOrigin origin);

struct HeadInfo {
  ModelSpec model;              // All its layers.
  std::vector<LayerId> layers;  // Layers that the source has vectors of, ascending.
  uint64_t num_tokens = 0;
  uint64_t num_queries = 0;    // Last tokens of which the source has q.
  int64_t first_position = 0;  // Position of token 0 under RoPE.
  HeadOrigin origin = HeadOrigin::kSynthetic;
  std::string description;  // For people: what the vectors are, and where from.

  // The layer of layers[i].
  const LayerSpec& layer(size_t i) const { return model.layers[layers[i]]; }
  // A model of only these layers.
  ModelSpec SpecOfLayers() const;
};

class HeadSource {
 public:
  virtual ~HeadSource() = default;
  const HeadInfo& info() const { return info_; }

  // Rows of tokens [range.begin, range.end) of the i-th of info().layers.
  virtual Status ReadKv(size_t i, TokenRange range, float* k, float* v) = 0;
  // Rows of q of tokens [range.begin, range.end). REQUIRES: all are among the last num_queries
  // tokens.
  virtual Status ReadQueries(size_t i, TokenRange range, float* q) = 0;

 protected:
  explicit HeadSource(HeadInfo info) : info_(std::move(info)) {}
  HeadSource(const HeadSource&) = delete;
  HeadSource& operator=(const HeadSource&) = delete;

 private:
  const HeadInfo info_;
};

// One layer. Row i of `queries` is q of the i-th of the last tokens.
Result<std::unique_ptr<HeadSource>> HeadsFromArrays(NpyArray keys, NpyArray values,
                                                    NpyArray queries, DType kv_dtype);

// A file that `attndb capture` wrote; `layers` as in "0,3,5-7", empty = all that it has;
// `first_tokens`: so many of its tokens, 0 = all.
Result<std::unique_ptr<HeadSource>> HeadsFromCapture(const std::string& path,
                                                     const std::string& layers,
                                                     uint64_t first_tokens = 0);

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_HEADS_HEAD_SOURCE_H_
