// The durable part of a session: its first tokens, as a chain of sealed segments.
//
// A chain over several contexts has the entries of one context after those of another. Tokens that
// stand parallel to others take no positions of their own.
//
// Threads: thread-compatible.
#ifndef ATTNDB_SESSION_SESSION_CHAIN_H_
#define ATTNDB_SESSION_SESSION_CHAIN_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "attndb/options.h"
#include "attndb/session.h"
#include "attndb/status.h"
#include "attndb/types.h"
#include "common/context_number.h"
#include "storage/kv/chain_entry.h"

namespace attndb::internal {

using storage::ChainEntry;

// A chain, and a hold that keeps its context from being evicted.
struct HeldChain {
  ContextId context = ContextId::kNone;
  ContextNumber number = ContextNumber::kNone;  // The context's, for its tenant.
  std::vector<ChainEntry> entries;
  std::shared_ptr<const void> hold;

  uint64_t num_tokens() const;
};

class SessionChain {
 public:
  struct Contents {
    HeldChain held;
    std::vector<TokenId> tokens;  // Ids of all tokens of the chain.
    int64_t first_position = 0;
    // For a session over several contexts: these contexts, and the number of the chain's tokens
    // that stand parallel to others. Later tokens have positions that are smaller by this number.
    std::vector<SessionContext> contexts;
    uint64_t num_parallel = 0;
  };

  explicit SessionChain(Contents contents);

  ContextId context() const { return contents_.held.context; }
  ContextNumber number() const { return contents_.held.number; }
  // Whether the context is held. A session that continues only a part of the context does not hold
  // it.
  bool holds_context() const { return contents_.held.hold != nullptr; }
  const std::vector<SessionContext>& contexts() const { return contents_.contexts; }
  bool is_over_many() const { return !contexts().empty(); }
  const std::vector<ChainEntry>& entries() const { return contents_.held.entries; }
  const std::vector<TokenId>& tokens() const { return contents_.tokens; }
  uint64_t num_tokens() const { return tokens().size(); }
  int64_t first_position() const { return contents_.first_position; }
  // Position of the session's token with that index, which is at or behind the chain's end.
  int64_t PositionAfter(uint64_t token) const {
    return first_position() + static_cast<int64_t>(token - contents_.num_parallel);
  }
  // The contents that a fork starts from. `hold` holds its context, if there is one.
  Contents Fork(std::shared_ptr<const void> hold) const;
  // Reads all layers of the segments into memory, as far as there is room. Errors: those of
  // reading.
  Status Load() const;
  // Bytes of K and V that are in memory.
  uint64_t resident_bytes() const;

  // Ok if `tokens` may be the ids of a session that holds this chain: they begin with its tokens.
  Status CheckTokens(std::span<const TokenId> tokens) const;
  // Ok if the tokens behind the chain have seen all of it, as one prompt.
  Status CheckIsOnePrompt() const;
  // Ok if the chain may be cut to num_tokens tokens.
  Status CheckCrop(uint64_t num_tokens) const;

  // Keeps the first tokens. REQUIRES: the chain has at least as many.
  void Crop(uint64_t num_tokens);
  void Reset();
  // Takes another chain of the same tokens and, perhaps, more: `tokens` are all of them. Returns
  // the previous chain. REQUIRES: `held` has at least as many tokens.
  HeldChain MoveTo(HeldChain held, std::span<const TokenId> tokens);
  // Takes entries with the same rows. Returns the previous entries.
  std::vector<ChainEntry> Replace(std::vector<ChainEntry> entries);

 private:
  Contents contents_;
};

}  // namespace attndb::internal

#endif  // ATTNDB_SESSION_SESSION_CHAIN_H_
