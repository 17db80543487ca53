#include "store/catalog/mending.h"

#include <algorithm>

#include "store/catalog/context_changes.h"
#include "store/catalog/cut_bytes.h"
#include "store/catalog/prefix_index.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {
namespace {

Result<bool> HasDamage(SqliteDatabase* database, TenantId tenant) {
  Query query = database->Select("SELECT num_damaged FROM tenant_uses WHERE tenant = ?", tenant);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  return found && query.Int(0) > 0;
}

// Newest first (prefix_index.h, invariants).
Result<std::vector<ContextRow>> DamagedContexts(SqliteDatabase* database, const Mend& mend) {
  return ReadAll<ContextRow>(
      database->Select("SELECT " ATTNDB_CONTEXT_COLUMNS
                       " FROM contexts WHERE damaged AND tenant = ?1 AND model = ?2 "
                       "AND first_position = ?3 AND id IN (SELECT c.context FROM segments s "
                       "JOIN chain c ON c.segment = s.id WHERE s.tenant = ?1 "
                       "AND s.damage IS NOT NULL) ORDER BY id DESC",
                       mend.tenant, mend.model, mend.first_position),
      ReadContext);
}

// How many of the chain's first tokens have to be replaced.
Result<uint64_t> EndOfDamage(SqliteDatabase* database, std::span<const ChainLink> chain) {
  uint64_t num_tokens = 0;
  uint64_t end = 0;
  for (const ChainLink& link : chain) {
    num_tokens += link.num_tokens_used;
    const Status status = RequireSoundTokens(database, link).status();
    if (status.code() == StatusCode::kFailedPrecondition) {
      end = num_tokens;
    } else if (!status.ok()) {
      return status;
    }
  }
  return end;
}

// Whether the context's first tokens and their cuts equal those of the published context.
bool IsAlike(const History& history, const Mend& mend, uint64_t num_tokens) {
  const auto begins = [num_tokens](std::span<const TokenId> tokens) {
    return tokens.first(static_cast<size_t>(num_tokens));
  };
  // A damaged catalog may have a longer chain than the context has tokens.
  return num_tokens <= std::min(mend.tokens.size(), history.tokens.size()) &&
         std::ranges::equal(begins(history.tokens), begins(mend.tokens)) &&
         CutsWithin(history.cuts, num_tokens) ==
             CutsWithin({mend.cuts.begin(), mend.cuts.end()}, num_tokens);
}

Status MendContext(SqliteDatabase* database, const Mend& mend, const ContextRow& context,
                   std::vector<SegmentId>* released) {
  const ContextRecord& record = context.record;
  PrefixIndex index(database);
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ChainLink> lost, LoadChain(database, record.id));
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t end, EndOfDamage(database, lost));
  ATTNDB_ASSIGN_OR_RETURN(const History history, index.HistoryOf(context.leaf, record.num_tokens));
  if (!IsAlike(history, mend, end)) return {};
  std::vector<ChainLink> chain = FirstLinks(mend.chain, end);
  uint64_t num_tokens = 0;
  for (const ChainLink& link : lost) {
    if (num_tokens >= end) chain.push_back(link);
    num_tokens += link.num_tokens_used;
    released->push_back(link.segment);
  }
  ATTNDB_RETURN_IF_ERROR(StoreChain(database, record.id, chain));
  ATTNDB_RETURN_IF_ERROR(database->Run("UPDATE contexts SET damaged = 0 WHERE id = ?", record.id));
  return index.Readmit(context.leaf, record.id);
}

}  // namespace

std::vector<ChainLink> FirstLinks(std::span<const ChainLink> chain, uint64_t num_tokens) {
  std::vector<ChainLink> links;
  for (const ChainLink& link : chain) {
    if (num_tokens == 0) break;
    links.push_back({link.segment, std::min(link.num_tokens_used, num_tokens)});
    num_tokens -= links.back().num_tokens_used;
  }
  return links;
}

Status MendContexts(SqliteDatabase* database, const Mend& mend, std::vector<SegmentId>* released) {
  ATTNDB_ASSIGN_OR_RETURN(const bool has_damage, HasDamage(database, mend.tenant));
  if (!has_damage) return {};
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ContextRow> contexts, DamagedContexts(database, mend));
  for (const ContextRow& context : contexts) {
    ATTNDB_RETURN_IF_ERROR(MendContext(database, mend, context, released));
  }
  return {};
}

}  // namespace attndb::store
