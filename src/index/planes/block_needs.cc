#include "index/planes/block_needs.h"

#include <algorithm>

#include "common/infinity.h"

namespace attndb::index {

using kernels::kPlaneKeys;
using kernels::kWeightBlock;

BlockNeeds::BlockNeeds(const KeepCall& call, const Blocks& blocks)
    : call_(call),
      blocks_(blocks),
      num_blocks_(kernels::NumWeightBlocks(blocks.end_key) - blocks.first) {}

void BlockNeeds::Find(const float* of_means, size_t stride) {
  const float scale = call_.rule.logit.scale;
  std::fill_n(needs_.begin(), num_blocks_, kInfinity);
  for (size_t r = 0; r < call_.queries.size(); ++r) {
    const float* const means = of_means + r * stride;
    const float* const reaches = call_.reaches + blocks_.first;
    const float reach = call_.row_reaches[r];
    const float threshold = call_.rule.thresholds[r] - scale * call_.queries[r].offset;
    for (size_t b = 0; b < num_blocks_; ++b) {
      needs_[b] = std::min(needs_[b], threshold - scale * (means[b] + reach * reaches[b]));
    }
  }
  Audit();
}

// Whole blocks only: keys after the last whole one are scored anyway.
void BlockNeeds::Audit() {
  constexpr size_t kEvery = KeepCall::kAuditEvery;
  std::fill_n(audited_.begin(), num_blocks_, -kInfinity);
  const size_t num_whole = blocks_.end_key / kWeightBlock - blocks_.first;
  const size_t past = (blocks_.first + call_.audit_phase) % kEvery;
  for (size_t b = past == 0 ? 0 : kEvery - past; b < num_whole; b += kEvery) {
    audited_[b] = needs_[b];
    needs_[b] = -kInfinity;
  }
}

// Keys are skipped kPlaneKeys at a time.
bool BlockNeeds::IsMissed(size_t key) const {
  const float needed = audited_[key / kWeightBlock - blocks_.first];
  if (needed == -kInfinity) return false;
  const float* const noise = call_.noise + (key / kPlaneKeys * kPlaneKeys - call_.first_key);
  return std::all_of(noise, noise + kPlaneKeys, [&](float x) { return x < needed; });
}

uint64_t BlockNeeds::CountMissed(const kernels::KeptTokens& kept, size_t first_kept) const {
  uint64_t count = 0;
  for (size_t i = first_kept; i < kept.count; ++i) {
    const size_t key = call_.first_key + (kept.tokens[i] - call_.first_token);
    if (IsMissed(key)) ++count;
  }
  return count;
}

}  // namespace attndb::index
