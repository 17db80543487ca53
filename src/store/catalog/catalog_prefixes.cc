#include "store/catalog/catalog_prefixes.h"

#include <algorithm>

#include "common/check.h"
#include "store/catalog/catalog_rows.h"
#include "store/catalog/model_identity.h"
#include "store/catalog/prefix_search.h"
#include "store/catalog/sqlite.h"
#include "store/catalog/ttl.h"

namespace attndb::store {
namespace {

// Trees of one tenant that ExplainPrefix looks into at most: an answer for a person, in bounded
// time.
constexpr size_t kMaxTreesExplained = 1000;

struct TreeRow {
  ModelId model = ModelId::kNone;
  int64_t first_position = 0;
};

// The longer match; of two as long, the older context.
void KeepBetter(const std::optional<PrefixMatch>& match, std::optional<PrefixMatch>* best) {
  if (!match.has_value()) return;
  if (!best->has_value() || match->num_tokens > (*best)->num_tokens ||
      (match->num_tokens == (*best)->num_tokens && match->context < (*best)->context)) {
    *best = match;
  }
}

bool Contains(const std::vector<ModelRow>& models, ModelId id) {
  return std::ranges::any_of(models, [&](const ModelRow& model) { return model.id == id; });
}

Status Missing(ContextId context) {
  return Status::Corruption("catalog: context " + std::to_string(static_cast<int64_t>(context)) +
                            ": missing, but in the prefix index");
}

// Appends the miss if it concerns any context.
void AddNearMiss(PrefixNearMiss miss, const std::optional<PrefixMatch>& best,
                 std::vector<PrefixNearMiss>* misses) {
  if (miss.num_contexts == 0) return;
  if (best.has_value() && miss.best.num_tokens <= best->num_tokens) miss.best = {};
  misses->push_back(miss);
}

}  // namespace

Result<bool> CatalogPrefixes::IsUsable(ContextId context) const {
  Query query = core_->database()->Select(
      "SELECT pinned, ttl_s, last_access_us FROM contexts WHERE id = ?", context);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  if (!found) return Missing(context);
  return !IsExpired(query.Int(0) != 0, query.OptionalInt(1),
                    core_->LastAccess(context, query.Int(2)), core_->ExpiryNow());
}

Result<std::optional<PrefixMatch>> CatalogPrefixes::Find(const PrefixQuery& query,
                                                         const TenantRow& tenant,
                                                         bool only_usable) const {
  const EncodedModel encoded = EncodeModel(*query.spec);
  ATTNDB_ASSIGN_OR_RETURN(
      const std::vector<ModelRow> models,
      EqualModels(core_->database(), tenant, encoded.layout, query.spec->fingerprint));
  PrefixSearch::Filter usable;
  if (only_usable) {
    // Called back inside this function only, with the mutex held.
    usable = [this](ContextId context)
                 ATTNDB_NO_THREAD_SAFETY_ANALYSIS { return IsUsable(context); };
  }
  std::optional<PrefixMatch> best;
  for (const ModelRow& model : models) {
    PrefixSearch search(core_->database(), usable, query.truncated && core_->has_cuts());
    const TreeIdentity tree{tenant.secret, model.identity, query.first_position};
    ATTNDB_ASSIGN_OR_RETURN(const std::optional<PrefixMatch> match,
                            search.Find(tree, query.tokens));
    KeepBetter(match, &best);
  }
  return best;
}

Result<std::optional<PrefixMatch>> CatalogPrefixes::Longest(const PrefixQuery& query) const {
  ATTNDB_RETURN_IF_ERROR(query.spec->Validate());
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  ATTNDB_ASSIGN_OR_RETURN(const TenantRow tenant, LoadTenantRow(core_->database(), query.tenant));
  return Find(query, tenant, /*only_usable=*/true);
}

Result<PrefixReport> CatalogPrefixes::Explain(const PrefixQuery& query) const {
  ATTNDB_RETURN_IF_ERROR(query.spec->Validate());
  PrefixReport report;
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  ATTNDB_ASSIGN_OR_RETURN(const TenantRow tenant, LoadTenantRow(core_->database(), query.tenant));
  ATTNDB_ASSIGN_OR_RETURN(report.best, Find(query, tenant, /*only_usable=*/true));
  if (report.best.has_value()) {
    ATTNDB_ASSIGN_OR_RETURN(report.next_token,
                            TokenAt(report.best->context, report.best->num_tokens));
  }
  ATTNDB_RETURN_IF_ERROR(ExplainUnusable(query, tenant, &report));
  ATTNDB_RETURN_IF_ERROR(ExplainOtherTrees(query, tenant, &report));
  return report;
}

Result<std::optional<TokenId>> CatalogPrefixes::TokenAt(ContextId context, uint64_t idx) const {
  Query query =
      core_->database()->Select("SELECT leaf, num_tokens FROM contexts WHERE id = ?", context);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  if (!found || query.Int(1) <= static_cast<int64_t>(idx)) return std::optional<TokenId>();
  ATTNDB_ASSIGN_OR_RETURN(
      const History history,
      PrefixIndex(core_->database())
          .HistoryOf(static_cast<NodeId>(query.Int(0)), static_cast<uint64_t>(query.Int(1))));
  return std::optional(history.tokens[idx]);
}

// Contexts of the right model and position that are damaged or expired.
Status CatalogPrefixes::ExplainUnusable(const PrefixQuery& query, const TenantRow& tenant,
                                        PrefixReport* report) const {
  PrefixNearMiss damaged{PrefixNearMiss::Reason::kDamaged, 0, {}};
  PrefixNearMiss expired{PrefixNearMiss::Reason::kExpired, 0, {}};
  const EncodedModel encoded = EncodeModel(*query.spec);
  ATTNDB_ASSIGN_OR_RETURN(
      const std::vector<ModelRow> models,
      EqualModels(core_->database(), tenant, encoded.layout, query.spec->fingerprint));
  Query rows = core_->database()->Select(
      "SELECT id, model, damaged, pinned, ttl_s, last_access_us FROM contexts "
      "WHERE tenant = ? AND first_position = ? AND (damaged OR ttl_s IS NOT NULL)",
      query.tenant, query.first_position);
  while (true) {
    ATTNDB_ASSIGN_OR_RETURN(const bool found, rows.Step());
    if (!found) break;
    if (!Contains(models, static_cast<ModelId>(rows.Int(1)))) continue;
    const auto id = static_cast<ContextId>(rows.Int(0));
    if (rows.Int(2) != 0) {
      ++damaged.num_contexts;
    } else if (IsExpired(rows.Int(3) != 0, rows.OptionalInt(4), core_->LastAccess(id, rows.Int(5)),
                         core_->ExpiryNow())) {
      ++expired.num_contexts;
    }
  }
  ATTNDB_ASSIGN_OR_RETURN(const std::optional<PrefixMatch> any,
                          Find(query, tenant, /*only_usable=*/false));
  if (any.has_value()) {
    ATTNDB_ASSIGN_OR_RETURN(const std::optional<ContextRow> row,
                            FindContextRow(core_->database(), query.tenant, any->context));
    if (!row.has_value()) return Missing(any->context);
    (row->record.damaged ? damaged : expired).best = *any;
  }
  AddNearMiss(damaged, report->best, &report->near_misses);
  AddNearMiss(expired, report->best, &report->near_misses);
  return {};
}

// Contexts of other models or at other positions.
Status CatalogPrefixes::ExplainOtherTrees(const PrefixQuery& query, const TenantRow& tenant,
                                          PrefixReport* report) const {
  const EncodedModel encoded = EncodeModel(*query.spec);
  ATTNDB_ASSIGN_OR_RETURN(
      const std::vector<ModelRow> models,
      EqualModels(core_->database(), tenant, encoded.layout, query.spec->fingerprint));
  ATTNDB_ASSIGN_OR_RETURN(
      const std::vector<TreeRow> trees,
      ReadAll<TreeRow>(core_->database()->Select(
                           "SELECT model, first_position FROM prefix_roots WHERE tenant = ? "
                           "ORDER BY node DESC LIMIT ?",
                           query.tenant, kMaxTreesExplained),
                       [](const Query& row) -> Result<TreeRow> {
                         return TreeRow{static_cast<ModelId>(row.Int(0)), row.Int(1)};
                       }));
  PrefixNearMiss other_model{PrefixNearMiss::Reason::kOtherModel, 0, {}};
  PrefixNearMiss other_position{PrefixNearMiss::Reason::kOtherPosition, 0, {}};
  for (const TreeRow& tree : trees) {
    const bool same_model = Contains(models, tree.model);
    if (same_model && tree.first_position == query.first_position) continue;
    Query count = core_->database()->Select(
        "SELECT count(*) FROM contexts WHERE tenant = ? AND model = ? AND first_position = ?",
        query.tenant, tree.model, tree.first_position);
    ATTNDB_RETURN_IF_ERROR(count.Step().status());
    PrefixNearMiss& miss = same_model ? other_position : other_model;
    miss.num_contexts += static_cast<uint64_t>(count.Int(0));
    ATTNDB_ASSIGN_OR_RETURN(const ModelRow model, LoadModelRow(core_->database(), tree.model));
    PrefixSearch search(core_->database(), nullptr, query.truncated && core_->has_cuts());
    ATTNDB_ASSIGN_OR_RETURN(
        const std::optional<PrefixMatch> match,
        search.Find({tenant.secret, model.identity, tree.first_position}, query.tokens));
    if (match.has_value() && match->num_tokens > miss.best.num_tokens) miss.best = *match;
  }
  AddNearMiss(other_model, report->best, &report->near_misses);
  AddNearMiss(other_position, report->best, &report->near_misses);
  return {};
}

}  // namespace attndb::store
