// Contexts by shared tokens, for `ls --tree`. A context is listed below the one that it continues.
// If several share a beginning that is no whole context, they are listed below that beginning.
//
// Only stored segments count as shared: contexts with equal tokens that were stored separately
// share nothing.
//
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_CONTEXT_TREE_H_
#define ATTNDB_CLI_COMMON_CONTEXT_TREE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "attndb/stats.h"
#include "cli/common/table.h"
#include "cli/environment.h"

namespace attndb::cli {

struct ContextNode {
  const ContextInfo* context = nullptr;  // Null: a common beginning of the children.
  uint64_t num_tokens = 0;
  uint64_t num_shared = 0;  // Tokens that it shares with its parent.
  // Bytes that no other context uses; for a beginning, bytes that only its children use.
  uint64_t own_bytes = 0;
  std::vector<ContextNode> children;
};

// `contexts` have their segments, and outlive the nodes. Siblings keep their order.
std::vector<ContextNode> TreeOfContexts(std::span<const ContextInfo> contexts);

// A table with names indented by their depth. `now_us` is the time that ages refer to.
std::string TreeText(std::span<const ContextNode> nodes, int64_t now_us,
                     size_t max_width = kAnyWidth);

Json TreeToJson(std::span<const ContextNode> nodes);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_CONTEXT_TREE_H_
