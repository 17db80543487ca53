// Internal: what the parts of layer_attention share.
#ifndef ATTNDB_QUERY_ATTENTION_CALL_UTIL_H_
#define ATTNDB_QUERY_ATTENTION_CALL_UTIL_H_

#include <algorithm>
#include <cstdint>

#include "attndb/types.h"
#include "kernels/attention_state.h"

namespace attndb::query {

inline kernels::LogitSpec Logit(const LayerSpec& spec) { return {spec.scale, spec.soft_cap}; }

inline TokenRange Intersect(TokenRange a, TokenRange b) {
  const uint64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

}  // namespace attndb::query

#endif  // ATTNDB_QUERY_ATTENTION_CALL_UTIL_H_
