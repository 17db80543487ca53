// The transforms that planes may apply to keys before the quantization. They leave the few steps of
// the codes to the part that distinguishes keys.
//
// Map:     key k at position p becomes H(s * (k - R(p) b - m)), where R(p) is the model's rotary
//          embedding, b a bias that all keys had before it, m the mean of the 64 keys of a block,
//          or of all where a bias is taken out, s a factor for each channel, H the random rotation
//          of kernels/hadamard.h. A transform may leave out b and s: then b is 0, s is 1. The score
//          is q.k = q.R(p) b + q.m + H(q / s).H(s * (k - R(p) b - m)).
// Why:     a mean that all keys share takes up range of the codes and distinguishes no keys.
//          Neighbours share more than all keys do: slowly rotating channels, topics. A rotation
//          spreads a key's few large channels over all channels, so that one scale fits.
//          Quantization noise is then equal in all channels, and s makes it small where q is large.
// Threads: values and pure functions.
// Source:  rotation: QuaRot (arXiv:2404.00456). Bias of keys before the rotary embedding: Qwen2
//          (arXiv:2407.10671). Taking R(p) b out, means of blocks, and s from queries and keys:
//          ours.
#ifndef ATTNDB_INDEX_PLANES_TRANSFORM_H_
#define ATTNDB_INDEX_PLANES_TRANSFORM_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace attndb::index {

// The numbers are stored with planes: one never changes its meaning. 0 to 3 are taken: parts of
// kLocal, each of which errs more than the whole on every kind of heads that was tried
// (docs/plan.md).
enum class TransformId : uint32_t {
  kLocal = 4,
  kUnbias = 5,
  kTurnBlocks = 6,
};

struct TransformKind {
  TransformId id = TransformId::kLocal;
  std::string_view name;
  // True: the bias is subtracted, and all keys have one mean. False: each block of
  // kernels::kWeightBlock keys has its own mean.
  bool removes_bias = false;
  bool scales = true;  // Whether channels are scaled, if there are queries to scale by.
  // Whether planes may choose it; else only callers that name it get it.
  bool is_choice = true;
  // Cost of a scan of 4 bits relative to a scan of codes alone, for the choice (docs/kernels.md).
  double scan_cost = 1.0;
};

// All transforms, cheapest scan first.
std::span<const TransformKind> Transforms();

// The transform with this number, if there is one.
std::optional<TransformKind> FindTransform(uint32_t id);
// The transform with this id. REQUIRES: it is in the table.
const TransformKind& TransformOf(TransformId id);

// The transform of planes where there are no queries to choose by.
inline constexpr TransformId kDefaultTransform = TransformId::kLocal;

// The vectors m (unless blocks have means), s, b and the angles of R(1): [num_channels],
// [num_channels], [2 * num_pairs], [num_pairs].
struct TransformVectors {
  std::vector<float> mean;
  std::vector<float> channel_scale;
  std::vector<float> bias;
  std::vector<double> frequencies;  // Empty if b is 0.
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PLANES_TRANSFORM_H_
