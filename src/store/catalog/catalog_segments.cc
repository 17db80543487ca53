#include "store/catalog/catalog_segments.h"

#include <algorithm>
#include <limits>

#include "store/catalog/catalog_rows.h"
#include "store/catalog/context_changes.h"
#include "store/catalog/counters.h"
#include "store/catalog/sound_tokens.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {
namespace {

// The place in the chain at which the run begins: all links are equal, but the last may use fewer
// tokens.
std::optional<size_t> FindRun(std::span<const ChainLink> chain, std::span<const ChainLink> run) {
  for (size_t begin = 0; begin + run.size() <= chain.size(); ++begin) {
    const std::span<const ChainLink> part = chain.subspan(begin, run.size());
    if (std::ranges::equal(part.first(run.size() - 1), run.first(run.size() - 1)) &&
        part.back().segment == run.back().segment &&
        part.back().num_tokens_used <= run.back().num_tokens_used) {
      return begin;
    }
  }
  return std::nullopt;
}

// Checks that the run matches the merged segment's record; fills in its tenant and model.
Status CheckRun(SqliteDatabase* database, const MergeRequest& request, SegmentRecord* merged) {
  uint64_t num_tokens = 0;
  for (const ChainLink& link : request.run) {
    ATTNDB_ASSIGN_OR_RETURN(const SegmentRecord segment, RequireSoundTokens(database, link));
    if (merged->tenant == TenantId::kNone) {
      merged->tenant = segment.tenant;
      merged->model = segment.model;
    }
    if (segment.tenant != merged->tenant || link.num_tokens_used > segment.num_tokens ||
        segment.first_position != merged->first_position + static_cast<int64_t>(num_tokens)) {
      return Status::Internal("merge: segment " + std::to_string(link.segment) +
                              " does not continue the run at token " + std::to_string(num_tokens));
    }
    num_tokens += link.num_tokens_used;
  }
  if (!request.run.empty() && num_tokens == merged->num_tokens) return {};
  return Status::Internal("merge: segment " + std::to_string(merged->id) + " has " +
                          std::to_string(merged->num_tokens) + " tokens, its run of " +
                          std::to_string(request.run.size()) + " segments " +
                          std::to_string(num_tokens));
}

// The replacing segment is to have the companions that the old one had or was to have.
Status InheritWishes(SqliteDatabase* database, SegmentId from, SegmentId to) {
  return database->Run(
      "INSERT OR IGNORE INTO wishes(segment, kind) "
      "SELECT ?2, kind FROM companions WHERE segment = ?1 "
      "UNION SELECT ?2, kind FROM wishes WHERE segment = ?1",
      from, to);
}

// The contexts that may have the run: those with its rarest segment.
Result<std::vector<ContextId>> ContextsOfRun(SqliteDatabase* database,
                                             std::span<const ChainLink> run) {
  SegmentId rarest = run.front().segment;
  uint32_t num_contexts = std::numeric_limits<uint32_t>::max();
  for (const ChainLink& link : run) {
    ATTNDB_ASSIGN_OR_RETURN(const SegmentUses uses, LoadSegmentUses(database, link.segment));
    if (uses.num_contexts >= num_contexts) continue;
    rarest = link.segment;
    num_contexts = uses.num_contexts;
  }
  return ContextsOfSegment(database, rarest);
}

}  // namespace

Result<SegmentId> CatalogSegments::ReserveId() { return core_->ReserveNumber(); }

Result<SegmentRecord> CatalogSegments::Get(SegmentId segment) const {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  ATTNDB_ASSIGN_OR_RETURN(std::optional<SegmentRecord> record,
                          FindSegment(core_->database(), segment));
  if (record.has_value()) return *std::move(record);
  return Status::NotFound("no segment " + std::to_string(segment));
}

Result<std::vector<SegmentRecord>> CatalogSegments::List(TenantId tenant) const {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  ATTNDB_ASSIGN_OR_RETURN(
      const std::vector<int64_t> ids,
      ReadAll<int64_t>(
          core_->database()->Select("SELECT id FROM segments WHERE tenant = ? ORDER BY id", tenant),
          ReadInt));
  std::vector<SegmentRecord> segments;
  for (const SegmentId id : ids) {
    ATTNDB_ASSIGN_OR_RETURN(std::optional<SegmentRecord> segment,
                            FindSegment(core_->database(), id));
    if (segment.has_value()) segments.push_back(*std::move(segment));
  }
  return segments;
}

Result<bool> CatalogSegments::IsUsed(SegmentId segment) const {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  Query query = core_->database()->Select("SELECT 1 FROM chain WHERE segment = ? LIMIT 1", segment);
  return query.Step();
}

Result<std::vector<SegmentRecord>> CatalogSegments::Remove(std::span<const SegmentId> segments) {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, core_->BeginWrite());
  ATTNDB_ASSIGN_OR_RETURN(
      const std::vector<SegmentId> unreferenced,
      Unreferenced(core_->database(), std::vector<SegmentId>(segments.begin(), segments.end())));
  std::vector<SegmentRecord> removed;
  for (const SegmentId id : unreferenced) {
    ATTNDB_ASSIGN_OR_RETURN(std::optional<SegmentRecord> segment,
                            FindSegment(core_->database(), id));
    if (!segment.has_value()) continue;
    ATTNDB_RETURN_IF_ERROR(core_->database()->Run("DELETE FROM segments WHERE id = ?", id));
    removed.push_back(*std::move(segment));  // The schema takes its companions along.
  }
  if (removed.empty()) return removed;
  ATTNDB_RETURN_IF_ERROR(core_->Commit(&transaction));
  return removed;
}

Result<std::vector<ContextRecord>> CatalogSegments::Quarantine(SegmentId segment,
                                                               std::string_view damage,
                                                               uint64_t num_sound) {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, core_->BeginWrite());
  ATTNDB_RETURN_IF_ERROR(
      core_->database()->Run("UPDATE segments SET damage = ? WHERE id = ?",
                             damage.empty() ? std::string_view("damaged") : damage, segment));
  if (core_->database()->num_changes() == 0) {
    return Status::NotFound("no segment " + std::to_string(segment));
  }
  ATTNDB_RETURN_IF_ERROR(SetNumSound(core_->database(), segment, num_sound));
  ATTNDB_ASSIGN_OR_RETURN(std::vector<ContextRecord> harmed,
                          JudgeContexts(core_->database(), segment));
  ATTNDB_RETURN_IF_ERROR(core_->Commit(&transaction));
  return harmed;
}

Status CatalogSegments::Lift(SegmentId segment) {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, core_->BeginWrite());
  ATTNDB_RETURN_IF_ERROR(core_->database()->Run(
      "UPDATE segments SET damage = NULL WHERE id = ? AND damage IS NOT NULL", segment));
  if (core_->database()->num_changes() == 0) return {};
  ATTNDB_RETURN_IF_ERROR(SetNumSound(core_->database(), segment, 0));
  ATTNDB_RETURN_IF_ERROR(JudgeContexts(core_->database(), segment).status());
  return core_->Commit(&transaction);
}

Result<MergeOutcome> CatalogSegments::ReplaceRun(const MergeRequest& request) {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, core_->BeginWrite());
  SegmentRecord merged = request.merged;
  merged.tenant = TenantId::kNone;
  ATTNDB_RETURN_IF_ERROR(CheckRun(core_->database(), request, &merged));
  ATTNDB_RETURN_IF_ERROR(InsertSegment(core_->database(), merged));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ContextId> contexts,
                          ContextsOfRun(core_->database(), request.run));
  MergeOutcome outcome;
  for (const ContextId context : contexts) {
    ATTNDB_ASSIGN_OR_RETURN(std::vector<ChainLink> chain, LoadChain(core_->database(), context));
    const std::optional<size_t> begin = FindRun(chain, request.run);
    if (!begin.has_value()) continue;
    const auto first = chain.begin() + static_cast<ptrdiff_t>(*begin);
    const auto last = first + static_cast<ptrdiff_t>(request.run.size());
    ChainLink link{merged.id, 0};
    for (auto it = first; it != last; ++it) link.num_tokens_used += it->num_tokens_used;
    *first = link;
    chain.erase(first + 1, last);
    ATTNDB_RETURN_IF_ERROR(StoreChain(core_->database(), context, chain));
    outcome.changed.push_back(context);
  }
  if (outcome.changed.empty()) {
    return Status::FailedPrecondition("merge: no context has the run of segments any more");
  }
  std::vector<SegmentId> replaced;
  for (const ChainLink& link : request.run) {
    replaced.push_back(link.segment);
    ATTNDB_RETURN_IF_ERROR(InheritWishes(core_->database(), link.segment, merged.id));
  }
  ATTNDB_ASSIGN_OR_RETURN(outcome.unreferenced,
                          Unreferenced(core_->database(), std::move(replaced)));
  ATTNDB_RETURN_IF_ERROR(core_->Commit(&transaction));
  return outcome;
}

}  // namespace attndb::store
