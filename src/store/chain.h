// What the store and its callers hand to each other: chains of open segments.
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
#include "storage/kv/chain_entry.h"
#include "storage/kv/segment_writer.h"
#include "store/catalog/catalog_types.h"

namespace attndb::store {

// Open segments, and the tokens that are used of them.
struct Chain {
  std::vector<storage::ChainEntry> entries;
  std::vector<TokenId> tokens;
};

// What is reused of a context; of none, nothing.
struct Prefix {
  ContextId context = ContextId::kNone;
  ContextNumber number = ContextNumber::kNone;
  Chain chain;
  std::vector<Cut> cuts;  // Those of the chain's history.
  // Whether it is all of the context that a prompt can reuse, since one token is left to run.
  bool is_whole = false;
};

struct WholeContext {
  ContextRecord record;
  Chain chain;
  std::vector<Cut> cuts;
};

// A context's text, and what it was computed by.
struct StoredText {
  ContextRecord record;
  ModelSpec spec;
  std::vector<TokenId> tokens;
  std::vector<Cut> cuts;
};

// A prompt that is to be durable: a chain that is, and what follows it. It owns all of that, so
// that who asked may go on meanwhile.
struct StoreRequest {
  std::string tenant;
  ModelSpec spec;               // Defaults resolved.
  std::vector<TokenId> tokens;  // At least one.
  std::vector<Cut> cuts;        // All of the history's.
  int64_t first_position = 0;
  // The chain that has the first num_stored tokens, and the context that has those of them that are
  // not sealed. The context may have got another chain meanwhile: what is published then goes on
  // from that one.
  ContextId base = ContextId::kNone;
  std::vector<storage::ChainEntry> chain;
  uint64_t num_stored = 0;
  // The segments at the chain's end that no commit names yet: Publisher::Seal made them.
  std::vector<SegmentRecord> sealed;
  // Rows of the other tokens; null if there are none.
  std::shared_ptr<storage::SegmentSource> tail;
  StoreOptions options;

  uint64_t num_new() const { return tokens.size() - num_stored; }
  // Tokens that the base has.
  uint64_t num_shared() const {
    uint64_t num_shared = num_stored;
    for (const SegmentRecord& segment : sealed) num_shared -= segment.num_tokens;
    return num_shared;
  }
};

// A segment that no commit names yet.
struct Sealed {
  SegmentRecord record;
  std::shared_ptr<storage::Segment> segment;
};

struct Stored {
  ContextId context = ContextId::kNone;
  ContextNumber number = ContextNumber::kNone;
  // Holds all tokens. It is empty if nothing was new: then the request's chain holds them.
  std::vector<storage::ChainEntry> chain;
  std::shared_ptr<const void> hold;  // While it lives, the context is not evicted.
};

// The contexts that a search looks through, and their segments; shared ones are listed once.
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
