// Chains of open segments: the store and its callers exchange them.
//
// Threads: values.
#ifndef ATTNDB_STORE_CHAIN_H_
#define ATTNDB_STORE_CHAIN_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/find.h"
#include "attndb/options.h"
#include "attndb/types.h"
#include "common/fork_points.h"
#include "storage/kv/chain_entry.h"
#include "storage/kv/segment_writer.h"
#include "store/catalog/catalog_types.h"

namespace attndb::store {

// Open segments, and their used tokens.
struct Chain {
  std::vector<storage::ChainEntry> entries;
  std::vector<TokenId> tokens;
};

// The reused part of a context; empty if nothing is reused.
struct Prefix {
  ContextId context = ContextId::kNone;
  ContextNumber number = ContextNumber::kNone;
  Chain chain;
  std::vector<Cut> cuts;  // The cuts in the chain's history.
  // Whether the prefix is all that a prompt can reuse of the context: one token is left to run.
  bool is_whole = false;
};

struct WholeContext {
  ContextRecord record;
  Chain chain;
  std::vector<Cut> cuts;
};

// A context's text, and the model that computed it.
struct StoredText {
  ContextRecord record;
  ModelSpec spec;
  std::vector<TokenId> tokens;
  std::vector<Cut> cuts;
};

// A request to make a prompt durable: a durable chain, and the tokens that follow it. The request
// owns all its data, so that the session that asked may continue meanwhile.
struct StoreRequest {
  std::string tenant;
  ModelSpec spec;               // Defaults resolved.
  std::vector<TokenId> tokens;  // At least one.
  std::vector<Cut> cuts;        // All cuts of the history.
  int64_t first_position = 0;
  // The chain holds the first num_stored tokens. The context `base` holds these except the last
  // num_beside, which another context holds, and the sealed ones. The base may have got another
  // chain meanwhile: the publication then continues that chain.
  ContextId base = ContextId::kNone;
  std::vector<storage::ChainEntry> chain;
  uint64_t num_stored = 0;
  uint64_t num_beside = 0;
  // The segments at the chain's end that no commit names yet: Publisher::Seal made them.
  std::vector<SegmentRecord> sealed;
  // Rows of the tokens behind the chain; null if there are none.
  std::shared_ptr<storage::SegmentSource> tail;
  StoreOptions options;
  // Where the session forked, with more tokens than the chain had.
  std::vector<SharedFork> forks;
  // Leaves the context's small segments as they are, because forks of its session will share them.
  bool is_merged_later = false;

  uint64_t num_new() const { return tokens.size() - num_stored; }
  // The number of tokens that are durable.
  uint64_t num_durable() const {
    uint64_t num_durable = num_stored;
    for (const SegmentRecord& segment : sealed) num_durable -= segment.num_tokens;
    return num_durable;
  }
  // The number of tokens that the base has.
  uint64_t num_shared() const { return num_durable() - num_beside; }
};

// A segment that no commit names yet.
struct Sealed {
  SegmentRecord record;
  std::shared_ptr<storage::Segment> segment;
};

struct Stored {
  ContextId context = ContextId::kNone;
  ContextNumber number = ContextNumber::kNone;
  // Holds all tokens. It is empty if nothing was new: the request's chain then holds all tokens.
  std::vector<storage::ChainEntry> chain;
  std::shared_ptr<const void> hold;  // While it lives, the context is not evicted.
};

// The contexts that a search visits, and their segments. A shared segment is listed once.
struct SearchSet {
  // How a context uses a run.
  struct RunUse {
    size_t context = 0;        // Index in `contexts`.
    uint64_t first_token = 0;  // Token of the context at which the run begins.
    uint64_t num_tokens = 0;
  };
  struct Run {
    std::shared_ptr<storage::Segment> segment;
    uint64_t num_tokens = 0;   // The most tokens that any of the contexts uses.
    uint64_t first_token = 0;  // The least first_token of its uses.
    std::vector<RunUse> uses;  // In the order of contexts.

    // The first context that has all of these tokens of the run.
    const RunUse& Owner(TokenRange tokens) const;
  };

  std::vector<ContextRecord> contexts;
  std::vector<Run> runs;
  std::vector<SkippedContext> skipped;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CHAIN_H_
