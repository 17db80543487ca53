// Database: a session over several whole contexts, one beside the other.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "db/database.h"

namespace attndb::internal {
namespace {

Status CheckOptions(std::span<const std::string> names, const SessionOptions& options) {
  if (names.empty() || names.size() > DB::kMaxSessionContexts) {
    return Status::InvalidArgument("a session over " + std::to_string(names.size()) +
                                   " contexts, expected 1 to " +
                                   std::to_string(DB::kMaxSessionContexts));
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
void DropFirst(uint64_t num_tokens, std::vector<ChainEntry>* chain) {
  size_t num_whole = 0;
  for (ChainEntry& entry : *chain) {
    const uint64_t count = std::min(num_tokens, entry.num_tokens_used);
    entry.first_token += count;
    entry.num_tokens_used -= count;
    num_tokens -= count;
    if (entry.num_tokens_used > 0) break;
    ++num_whole;
  }
  chain->erase(chain->begin(), chain->begin() + static_cast<ptrdiff_t>(num_whole));
}

}  // namespace

struct Database::WholeContext {
  db::ContextRecord record;
  Chain chain;
};

// Keeps contexts from being evicted. Outlived by the database, which the session keeps open.
class Database::ContextHold {
 public:
  explicit ContextHold(Database* database) : database_(database) {}
  ContextHold(const ContextHold&) = delete;
  ContextHold& operator=(const ContextHold&) = delete;
  ~ContextHold() {
    for (const ContextId context : contexts_) database_->ReleaseContext(context);
  }

  void Add(ContextId context) {
    database_->HoldContext(context);
    contexts_.push_back(context);
  }

 private:
  Database* const database_;
  std::vector<ContextId> contexts_;
};

void Database::HoldContext(ContextId context) {
  catalog_->Touch(context);
  MutexLock lock(&use_mutex_);
  BeginUse(context);
}

void Database::ReleaseContext(ContextId context) {
  catalog_->Touch(context);  // Used until now: what its TTL counts from.
  MutexLock lock(&use_mutex_);
  EndUse(context);
}

// What a session over contexts starts from, context by context.
class Database::ContextJoin {
 public:
  explicit ContextJoin(SessionSeed* seed) : seed_(seed) {}

  // Errors: kInvalidArgument (it is there already); kResourceExhausted (too many tokens).
  Status Add(WholeContext context) {
    const std::vector<TokenId>& tokens = context.chain.tokens;
    uint64_t num_shared = 0;
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (seed_->contexts[i].id == context.record.id) {
        return Status::InvalidArgument("context '" + context.record.Label() +
                                       "' is named twice, expected different contexts");
      }
      num_shared = std::max(num_shared, NumShared(texts_[i], tokens));
    }
    const uint64_t begin = seed_->tokens.size();
    const uint64_t end = begin + tokens.size() - num_shared;
    if (end > kMaxSessionTokens) {
      return Status::ResourceExhausted("contexts of " + std::to_string(end) +
                                       " tokens together; a session holds at most 2^31 - 64");
    }
    seed_->contexts.push_back(
        {context.record.id, context.record.Label(), {begin, end}, num_shared});
    seed_->tokens.insert(seed_->tokens.end(), tokens.begin() + static_cast<ptrdiff_t>(num_shared),
                         tokens.end());
    DropFirst(num_shared, &context.chain.entries);
    std::ranges::move(context.chain.entries, std::back_inserter(seed_->chain));
    longest_ = std::max<uint64_t>(longest_, tokens.size());
    seed_->num_parallel = end - longest_;
    texts_.push_back(std::move(context.chain.tokens));
    return Status::Ok();
  }

 private:
  SessionSeed* const seed_;
  std::vector<std::vector<TokenId>> texts_;  // Of the contexts, whole.
  uint64_t longest_ = 0;
};

Result<Database::WholeContext> Database::TryOpenNamed(const db::Tenant& tenant,
                                                      const ModelSpec& spec,
                                                      const std::string& name,
                                                      int64_t first_position) {
  WholeContext context;
  ATTNDB_ASSIGN_OR_RETURN(context.record, NamedContext(tenant, spec, name, first_position));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, catalog_->Tokens(context.record.id));
  ATTNDB_ASSIGN_OR_RETURN(context.chain, OpenChain(context.record.id, tokens));
  return context;
}

// A reader may have seen a context while the writer's process merged it, and finds it whole when it
// looks again.
Result<Database::WholeContext> Database::OpenNamed(const db::Tenant& tenant, const ModelSpec& spec,
                                                   const std::string& name,
                                                   int64_t first_position) {
  for (int attempt = 1; options_.read_only && attempt < kMaxAttempts; ++attempt) {
    Result<WholeContext> context = TryOpenNamed(tenant, spec, name, first_position);
    if (context.ok()) return context;
  }
  return TryOpenNamed(tenant, spec, name, first_position);
}

Result<std::unique_ptr<SessionImpl>> Database::OpenSessionOver(const std::string& tenant,
                                                               const ModelSpec& spec,
                                                               std::span<const std::string> names,
                                                               const SessionOptions& options) {
  ATTNDB_RETURN_IF_ERROR(CheckOptions(names, options));
  ATTNDB_ASSIGN_OR_RETURN(SessionSeed seed, SeedOf(tenant, spec, options));
  if (names.size() > 1) ATTNDB_RETURN_IF_ERROR(CheckLayers(spec));
  damage_reports_.Quarantine();
  ATTNDB_ASSIGN_OR_RETURN(const db::Tenant owner, TenantOf(tenant));
  const auto hold = std::make_shared<ContextHold>(this);
  ContextJoin join(&seed);
  for (const std::string& name : names) {
    ATTNDB_ASSIGN_OR_RETURN(WholeContext context,
                            OpenNamed(owner, seed.spec, name, options.first_position));
    hold->Add(context.record.id);
    ATTNDB_RETURN_IF_ERROR(join.Add(std::move(context)));
  }
  num_reused_tokens_.fetch_add(seed.tokens.size(), std::memory_order_relaxed);
  if (names.size() == 1) {
    seed.context = seed.contexts.front().id;
    seed.contexts.clear();
  } else {
    seed.hold = hold;
  }
  return std::make_unique<SessionImpl>(std::move(seed));
}

}  // namespace attndb::internal
