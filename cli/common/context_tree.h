// Contexts by what they share: what `ls --tree` shows. A context stands below the one whose tokens
// it goes on from; several that share a beginning which is none's whole stand below that beginning.
//
// Sharing is of stored segments: contexts whose equal tokens were stored apart share nothing.
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
  const ContextInfo* context = nullptr;  // Null: a beginning of those below.
  uint64_t num_tokens = 0;
  uint64_t num_shared = 0;  // Tokens that it shares with what it stands below.
  // Bytes that nobody else uses; of a beginning, those that only the contexts below use.
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
