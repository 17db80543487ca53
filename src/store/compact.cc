// ContextStore: Compact, which merges what the user's rule says and erases what no context uses.
#include <algorithm>
#include <string>

#include "storage/vfs/format.h"
#include "store/context_store.h"
#include "store/merge_policy.h"

namespace attndb::store {
namespace {

using Run = std::vector<ChainSegment>;

static_assert(CompactOptions::kMaxSegmentTokens == storage::kMaxSegmentTokens);

Status CheckOptions(const CompactOptions& options) {
  if (options.segment_tokens <= CompactOptions::kMaxSegmentTokens) return Status::Ok();
  return Status::InvalidArgument("segment_tokens: expected at most " +
                                 std::to_string(CompactOptions::kMaxSegmentTokens) + ", found " +
                                 std::to_string(options.segment_tokens));
}

uint64_t BytesPerToken(const SegmentRecord& segment) {
  return segment.kv_bytes / segment.num_tokens;
}

CompactRule RuleOf(const ContextDetail& detail, const CompactOptions& options) {
  CompactRule rule;
  if (options.segment_tokens != 0) rule.small_tokens = options.segment_tokens;
  rule.max_tokens =
      options.segment_tokens != 0 ? options.segment_tokens : storage::kMaxSegmentTokens;
  // An object has a largest size too; the other half is for padding and sampled queries.
  for (const ChainSegment& link : detail.chain) {
    const uint64_t token_bytes = std::max<uint64_t>(BytesPerToken(link.segment), 1);
    rule.max_tokens = std::min(rule.max_tokens, storage::kMaxObjectBytes / 2 / token_bytes);
  }
  return rule;
}

// Tokens that any context uses, not this one alone: the merged segment is for all of them.
std::vector<MergeLink> LinksOf(const ContextDetail& detail) {
  std::vector<MergeLink> links;
  for (const ChainSegment& link : detail.chain) {
    links.push_back({link.num_tokens_kept, link.num_contexts,
                     link.segment.model == detail.context.model && link.segment.damage.empty()});
  }
  return links;
}

// Among links with the same number of contexts, only the last can be used for more tokens
// elsewhere: what follows a link begins where its use ends, and the same contexts have that.
Run RunOf(const ContextDetail& detail, const MergeChoice& choice) {
  const auto chain = detail.chain.begin();
  Run run(chain + static_cast<int64_t>(choice.begin), chain + static_cast<int64_t>(choice.end));
  run.back().num_tokens_used = run.back().num_tokens_kept;
  return run;
}

// With tokens that no context uses any more: it is written again without them.
bool IsWasteful(const ChainSegment& link) {
  return link.segment.damage.empty() && link.num_tokens_used == link.num_tokens_kept &&
         link.num_tokens_kept < link.segment.num_tokens;
}

// What is to be written again of a context's chain.
std::vector<Run> RunsOf(const ContextDetail& detail, const CompactOptions& options) {
  std::vector<Run> runs;
  size_t done = 0;
  const auto add_wasteful = [&](size_t end) {
    for (; done < end; ++done) {
      if (IsWasteful(detail.chain[done])) runs.push_back({detail.chain[done]});
    }
  };
  for (const MergeChoice& choice : ChooseThoroughMerges(LinksOf(detail), RuleOf(detail, options))) {
    add_wasteful(choice.begin);
    runs.push_back(RunOf(detail, choice));
    done = choice.end;
  }
  add_wasteful(detail.chain.size());
  return runs;
}

uint64_t KvBytes(const Run& run) {
  uint64_t bytes = 0;
  for (const ChainSegment& link : run) {
    bytes += BytesPerToken(link.segment) * link.num_tokens_used;
  }
  return bytes;
}

}  // namespace

// One call of Compact.
struct ContextStore::Compaction {
  const CompactOptions& options;
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;

  bool Report(uint64_t run_bytes) const {
    const uint64_t done = bytes_done + run_bytes;
    // More is copied than was counted where damage that was found meanwhile broke up a run.
    return !options.progress || options.progress(done, std::max(done, bytes_total));
  }
};

Status ContextStore::Compact(const std::string& tenant, const CompactOptions& options) {
  ATTNDB_RETURN_IF_ERROR(CheckWritable());
  ATTNDB_RETURN_IF_ERROR(CheckOptions(options));
  MutexLock merge_lock(&merge_mutex_);
  {
    MutexLock lock(&store_mutex_);
    ATTNDB_RETURN_IF_ERROR(ExpireContexts());
  }
  ATTNDB_ASSIGN_OR_RETURN(const Tenant owner, catalog_->owners()->FindTenant(tenant));
  Compaction work{options};
  const Status status =
      options.context.empty() ? CompactUnsettled(owner.id, &work) : CompactNamed(owner.id, &work);
  const Status scheduled = ScheduleMissing(owner.id);  // What was merged before an error too.
  return status.ok() ? scheduled : status;
}

Status ContextStore::CompactNamed(TenantId tenant, Compaction* work) {
  ATTNDB_ASSIGN_OR_RETURN(const ContextRecord context,
                          catalog_->contexts()->Find(tenant, work->options.context));
  if (context.damaged) return Status::Ok();
  const std::vector<ContextId> contexts = {context.id};
  work->bytes_total = BytesToCompact(tenant, contexts, work->options);
  return CompactContexts(tenant, contexts, work);
}

// Round by round, until one finds all as it was left: what a merge or damage has changed shows
// other contexts.
Status ContextStore::CompactUnsettled(TenantId tenant, Compaction* work) {
  ATTNDB_RETURN_IF_ERROR(
      catalog_->segments()->UnsettleForLength(tenant, work->options.segment_tokens));
  Status damage;
  for (bool is_first = true;; is_first = false) {
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<UnsettledSegment> segments,
                            catalog_->segments()->Unsettled(tenant));
    if (segments.empty()) return damage;
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<ContextId> contexts,
                            catalog_->segments()->ContextsToCompact(segments));
    if (is_first) work->bytes_total = BytesToCompact(tenant, contexts, work->options);
    const uint64_t bytes_before = work->bytes_done;
    ATTNDB_ASSIGN_OR_RETURN(const CatalogStats before, catalog_->Stats(tenant));
    const Status status = CompactContexts(tenant, contexts, work);
    if (status.ok()) {
      ATTNDB_RETURN_IF_ERROR(catalog_->segments()->Settle(segments));
    } else if (status.code() != StatusCode::kCorruption) {
      return status;
    }
    if (damage.ok()) damage = status;
    ATTNDB_ASSIGN_OR_RETURN(const CatalogStats after, catalog_->Stats(tenant));
    const bool is_as_before = work->bytes_done == bytes_before &&
                              after.num_damaged_segments == before.num_damaged_segments;
    if (is_as_before) return damage;
  }
}

uint64_t ContextStore::BytesToCompact(TenantId tenant, std::span<const ContextId> contexts,
                                      const CompactOptions& options) const {
  if (!options.progress) return 0;  // Nobody asks.
  uint64_t bytes = 0;
  std::set<SegmentId> counted;  // The first of each run: contexts share runs.
  for (const ContextId context : contexts) {
    const Result<ContextDetail> detail = catalog_->contexts()->Describe(tenant, context);
    if (!detail.ok()) continue;  // CompactChain's to report.
    for (const Run& run : RunsOf(*detail, options)) {
      if (counted.insert(run.front().segment.id).second) bytes += KvBytes(run);
    }
  }
  return bytes;
}

Status ContextStore::CompactContexts(TenantId tenant, std::span<const ContextId> contexts,
                                     Compaction* work) {
  Status damage;
  for (const ContextId context : contexts) {
    const Status status = CompactChain(tenant, context, work);
    // Damage of one context, quarantined now, or one that is gone with it, is not the others'.
    if (status.ok() || status.code() == StatusCode::kNotFound) continue;
    if (status.code() != StatusCode::kCorruption) return status;
    if (damage.ok()) damage = status;
  }
  return damage;
}

Status ContextStore::CompactChain(TenantId tenant, ContextId context, Compaction* work) {
  SegmentId lost = 0;  // Where the run began that was no run any more when it was merged.
  for (;;) {
    // Looked at again after each merge: a session may have found damage meanwhile.
    ATTNDB_ASSIGN_OR_RETURN(const ContextDetail detail,
                            catalog_->contexts()->Describe(tenant, context));
    if (detail.context.damaged) return Status::Ok();
    const std::vector<Run> runs = RunsOf(detail, work->options);
    if (runs.empty()) return Status::Ok();
    const Status status =
        MergeRun(runs.front(), [&](uint64_t bytes) { return work->Report(bytes); });
    // A Store or Drop meanwhile gave the context, and those that share its run, other chains.
    const SegmentId begin = runs.front().front().segment.id;
    if (status.code() == StatusCode::kFailedPrecondition && lost != begin) {
      lost = begin;
      continue;
    }
    ATTNDB_RETURN_IF_ERROR(status);
    work->bytes_done += KvBytes(runs.front());
    if (!work->Report(0)) return Status::Cancelled("compact: cancelled between two segments");
  }
}

}  // namespace attndb::store
