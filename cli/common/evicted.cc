#include "cli/common/evicted.h"

#include <algorithm>
#include <cstddef>

namespace attndb::cli {

Result<std::vector<std::string>> NoteEvicted(Environment* env, const DB& db, uint64_t* num_noted) {
  ATTNDB_ASSIGN_OR_RETURN(const DBStats stats, db.Stats());
  const auto num_new = std::min<size_t>(stats.num_evictions - *num_noted, stats.evicted.size());
  *num_noted = stats.num_evictions;
  std::vector<std::string> labels(stats.evicted.end() - static_cast<std::ptrdiff_t>(num_new),
                                  stats.evicted.end());
  if (!labels.empty()) env->Note(EvictedText(labels));
  return labels;
}

std::string EvictedText(const std::vector<std::string>& labels) {
  std::string text = "evicted to make room, the longest unused first:";
  for (const std::string& label : labels) text += " " + label;
  return text;
}

}  // namespace attndb::cli
