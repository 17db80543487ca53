// Small functions that operators share.
#ifndef ATTNDB_ATTENTION_CALL_UTIL_H_
#define ATTNDB_ATTENTION_CALL_UTIL_H_

#include <algorithm>
#include <cstdint>

#include "attndb/types.h"
#include "kernels/attention_state.h"

namespace attndb::attention {

inline kernels::LogitSpec Logit(const LayerSpec& spec) { return {spec.scale, spec.soft_cap}; }

// Denominator logits of the q heads of a kv head, [group_size]; null if the layer has none.
inline const float* DenominatorLogits(const LayerSpec& spec, uint32_t kv_head) {
  const size_t first_head = size_t{kv_head} * spec.group_size();
  return spec.denominator_logits.empty() ? nullptr : spec.denominator_logits.data() + first_head;
}

inline TokenRange Intersect(TokenRange a, TokenRange b) {
  const uint64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_CALL_UTIL_H_
