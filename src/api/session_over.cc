// Database: a session over several whole contexts in parallel.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "api/database.h"
#include "attndb/units.h"

namespace attndb::internal {
namespace {

Status CheckOptions(std::span<const std::string> names, const SessionOptions& options) {
  if (names.empty() || names.size() > DB::kMaxSessionContexts) {
    return Status::InvalidArgument("a session over " + Counted(names.size(), "context") +
                                   ", expected 1 to " + FormatCount(DB::kMaxSessionContexts));
  }
  if (!options.context.empty() || !options.reuse) {
    return Status::InvalidArgument(
        "a session over contexts reuses those that are listed: expected no options.context, and "
        "options.reuse");
  }
  return Status::Ok();
}

// Tokens of different contexts have equal positions, and which of them are near is not told by
// their order.
Status CheckLayers(const ModelSpec& spec) {
  for (LayerId layer = 0; layer < spec.num_layers(); ++layer) {
    if (spec.layers[layer].sliding_window == 0) continue;
    return Status::Unsupported("layer " + std::to_string(layer) +
                               " has a sliding window: it can't attend to several contexts");
  }
  return Status::Ok();
}

uint64_t NumShared(std::span<const TokenId> a, std::span<const TokenId> b) {
  const auto differ = std::ranges::mismatch(a, b);
  return static_cast<uint64_t>(differ.in1 - a.begin());
}

// Takes the first tokens out of a chain.
void DropFirst(uint64_t num_tokens, std::vector<storage::ChainEntry>* chain) {
  size_t num_whole = 0;
  for (storage::ChainEntry& entry : *chain) {
    const uint64_t count = std::min(num_tokens, entry.num_tokens_used);
    entry.first_token += count;
    entry.num_tokens_used -= count;
    num_tokens -= count;
    if (entry.num_tokens_used > 0) break;
    ++num_whole;
  }
  chain->erase(chain->begin(), chain->begin() + static_cast<ptrdiff_t>(num_whole));
}

// The seed of a session over contexts, built context by context.
class ContextJoin {
 public:
  explicit ContextJoin(SessionChain::Contents* chain) : chain_(chain) {}

  // Errors: kInvalidArgument (it is there already); kResourceExhausted (too many tokens).
  Status Add(store::WholeContext context) {
    const std::vector<TokenId>& tokens = context.chain.tokens;
    if (!context.cuts.empty()) {
      return Status::FailedPrecondition("tokens have left context '" + context.record.Label() +
                                        "', the first of them at " +
                                        Counted(context.cuts.front().at, "token") +
                                        ": expected contexts that attend to all of theirs");
    }
    uint64_t num_shared = 0;
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (chain_->contexts[i].id == PublicId(context.record.number)) {
        return Status::InvalidArgument("context '" + context.record.Label() +
                                       "' is named twice, expected different contexts");
      }
      num_shared = std::max(num_shared, NumShared(texts_[i], tokens));
    }
    const uint64_t begin = chain_->tokens.size();
    const uint64_t end = begin + tokens.size() - num_shared;
    if (end > kMaxSessionTokens) {
      return Status::ResourceExhausted("contexts of " + Counted(end, "token") +
                                       " together; a session holds at most 2^31 - 64");
    }
    chain_->contexts.push_back(
        {PublicId(context.record.number), context.record.Label(), {begin, end}, num_shared});
    chain_->tokens.insert(chain_->tokens.end(), tokens.begin() + static_cast<ptrdiff_t>(num_shared),
                          tokens.end());
    DropFirst(num_shared, &context.chain.entries);
    std::ranges::move(context.chain.entries, std::back_inserter(chain_->held.entries));
    longest_ = std::max<uint64_t>(longest_, tokens.size());
    chain_->num_parallel = end - longest_;
    texts_.push_back(std::move(context.chain.tokens));
    return Status::Ok();
  }

 private:
  SessionChain::Contents* const chain_;
  std::vector<std::vector<TokenId>> texts_;  // All tokens of each context.
  uint64_t longest_ = 0;
};

}  // namespace

Result<std::unique_ptr<SessionImpl>> Database::OpenSessionOver(const std::string& tenant,
                                                               const ModelSpec& spec,
                                                               std::span<const std::string> names,
                                                               const SessionOptions& options) {
  ATTNDB_RETURN_IF_ERROR(CheckOptions(names, options));
  ATTNDB_ASSIGN_OR_RETURN(SessionSeed seed, SeedOf(tenant, spec, options));
  if (names.size() > 1) ATTNDB_RETURN_IF_ERROR(CheckLayers(spec));
  std::vector<std::shared_ptr<const void>> holds;
  ContextJoin join(&seed.chain);
  for (const std::string& name : names) {
    ATTNDB_ASSIGN_OR_RETURN(
        store::WholeContext context,
        store_->lookup()->OpenNamed(tenant, seed.spec, name, options.first_position));
    holds.push_back(store_->uses()->Hold(context.record.id));
    seed.chain.held.context = context.record.id;
    seed.chain.held.number = context.record.number;
    ATTNDB_RETURN_IF_ERROR(join.Add(std::move(context)));
  }
  store_->counts()->Of(tenant)->num_reused_tokens.Add(seed.chain.tokens.size());
  if (names.size() == 1) {
    seed.chain.held.hold = std::move(holds.front());
    seed.chain.contexts.clear();
  } else {
    seed.chain.held = {
        .entries = std::move(seed.chain.held.entries),
        .hold = std::make_shared<std::vector<std::shared_ptr<const void>>>(std::move(holds))};
  }
  return std::make_unique<SessionImpl>(std::move(seed));
}

}  // namespace attndb::internal
