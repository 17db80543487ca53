// Merger: Compact. Merges segments by the user's rule, and erases tokens that no context uses.
#include <algorithm>
#include <set>
#include <string>

#include "storage/vfs/format.h"
#include "store/merge_policy.h"
#include "store/merger.h"

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

// Among links with the same number of contexts, only the last one can be used for more tokens
// elsewhere. A link's successor begins where the link's use ends, and all these contexts have the
// successor.
Run RunOf(const ContextDetail& detail, const MergeChoice& choice) {
  const auto chain = detail.chain.begin();
  Run run(chain + static_cast<int64_t>(choice.begin), chain + static_cast<int64_t>(choice.end));
  run.back().num_tokens_used = run.back().num_tokens_kept;
  return run;
}

// Whether the segment has tokens that no context uses, or damage that harms no context: it is
// rewritten with its used tokens. REQUIRES: the link's context is not damaged, so its tokens are
// sound.
bool IsWasteful(const ChainSegment& link) {
  return link.num_tokens_used == link.num_tokens_kept &&
         (link.num_tokens_kept < link.segment.num_tokens || !link.segment.damage.empty());
}

// The runs of a context's chain that Compact rewrites.
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

// One call of Compact, of one tenant.
class Merger::Compaction {
 public:
  Compaction(Merger* merger, TenantId tenant, const CompactOptions& options)
      : merger_(merger), catalog_(merger->parts_.catalog), tenant_(tenant), options_(options) {}

  Status Perform() ATTNDB_EXCLUDES(merger_->mutex_);

 private:
  // The one context that the options name.
  Status CompactNamed() ATTNDB_REQUIRES(merger_->mutex_);
  // Compacts the tenant's contexts that have changed since the last call.
  Status CompactUnsettled() ATTNDB_REQUIRES(merger_->mutex_);
  // Bytes of K and V that will be copied, if the options ask for progress.
  uint64_t BytesToCompact(std::span<const ContextId> contexts) const;
  Status CompactContexts(std::span<const ContextId> contexts) ATTNDB_REQUIRES(merger_->mutex_);
  Status CompactChain(ContextId context) ATTNDB_REQUIRES(merger_->mutex_);
  bool Report(uint64_t run_bytes) const;

  Merger* const merger_;
  Catalog* const catalog_;
  const TenantId tenant_;
  const CompactOptions& options_;
  uint64_t bytes_done_ = 0;
  uint64_t bytes_total_ = 0;
};

Status Merger::CheckMayWait(std::string_view call) const {
  if (reporter_.load(std::memory_order_relaxed) != std::this_thread::get_id()) return Status::Ok();
  return Status::FailedPrecondition(std::string(call) +
                                    ": called by the progress of a compact, which it would wait "
                                    "for; call it after the compact has returned");
}

bool Merger::Compaction::Report(uint64_t run_bytes) const {
  if (!options_.progress) return true;
  struct Reporting {  // Ends when the caller's function throws, too.
    explicit Reporting(std::atomic<std::thread::id>* of_merger) : reporter(of_merger) {
      reporter->store(std::this_thread::get_id(), std::memory_order_relaxed);
    }
    ~Reporting() { reporter->store(std::thread::id(), std::memory_order_relaxed); }
    std::atomic<std::thread::id>* const reporter;
  };
  const Reporting reporting(&merger_->reporter_);
  const uint64_t done = bytes_done_ + run_bytes;
  // More is copied than was counted where damage that was found meanwhile broke up a run.
  return options_.progress(done, std::max(done, bytes_total_));
}

Status Merger::Compact(const std::string& tenant, const CompactOptions& options) {
  ATTNDB_RETURN_IF_ERROR(CheckMayWait("compact"));
  ATTNDB_RETURN_IF_ERROR(parts_.settings->CheckWritable());
  ATTNDB_RETURN_IF_ERROR(CheckOptions(options));
  ATTNDB_ASSIGN_OR_RETURN(const Tenant owner, parts_.catalog->owners()->FindTenant(tenant));
  return Compaction(this, owner.id, options).Perform();
}

Status Merger::Compaction::Perform() {
  MutexLock lock(&merger_->mutex_);
  ATTNDB_RETURN_IF_ERROR(merger_->parts_.commits->Expire());
  const Status status = options_.context.empty() ? CompactUnsettled() : CompactNamed();
  // Also schedules builds for segments that were merged before an error.
  const Status scheduled = merger_->parts_.objects->ScheduleMissing(tenant_);
  return status.ok() ? scheduled : status;
}

Status Merger::Compaction::CompactNamed() {
  ATTNDB_ASSIGN_OR_RETURN(const ContextRecord context,
                          catalog_->contexts()->Find(tenant_, options_.context));
  if (context.damaged) return Status::Ok();
  const std::vector<ContextId> contexts = {context.id};
  bytes_total_ = BytesToCompact(contexts);
  return CompactContexts(contexts);
}

// Works round by round, until a round finds nothing changed: a merge or damage brings up other
// contexts.
Status Merger::Compaction::CompactUnsettled() {
  ATTNDB_RETURN_IF_ERROR(catalog_->segments()->UnsettleForLength(tenant_, options_.segment_tokens));
  Status damage;
  for (bool is_first = true;; is_first = false) {
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<UnsettledSegment> segments,
                            catalog_->segments()->Unsettled(tenant_));
    if (segments.empty()) return damage;
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<ContextId> contexts,
                            catalog_->segments()->ContextsToCompact(segments));
    if (is_first) bytes_total_ = BytesToCompact(contexts);
    const uint64_t bytes_before = bytes_done_;
    ATTNDB_ASSIGN_OR_RETURN(const CatalogStats before, catalog_->Stats(tenant_));
    const Status status = CompactContexts(contexts);
    if (status.ok()) {
      ATTNDB_RETURN_IF_ERROR(catalog_->segments()->Settle(segments));
    } else if (status.code() != StatusCode::kCorruption) {
      return status;
    }
    if (damage.ok()) damage = status;
    ATTNDB_ASSIGN_OR_RETURN(const CatalogStats after, catalog_->Stats(tenant_));
    const bool is_as_before =
        bytes_done_ == bytes_before && after.num_damaged_segments == before.num_damaged_segments;
    if (is_as_before) return damage;
  }
}

uint64_t Merger::Compaction::BytesToCompact(std::span<const ContextId> contexts) const {
  if (!options_.progress) return 0;  // Nobody asks.
  uint64_t bytes = 0;
  std::set<SegmentId> counted;  // The first of each run: contexts share runs.
  for (const ContextId context : contexts) {
    const Result<ContextDetail> detail = catalog_->contexts()->Describe(tenant_, context);
    if (!detail.ok()) continue;  // CompactChain's to report.
    if (detail->context.damaged) continue;
    for (const Run& run : RunsOf(*detail, options_)) {
      if (counted.insert(run.front().segment.id).second) bytes += KvBytes(run);
    }
  }
  return bytes;
}

Status Merger::Compaction::CompactContexts(std::span<const ContextId> contexts) {
  Status damage;
  for (const ContextId context : contexts) {
    const Status status = CompactChain(context);
    // Damage of one context, quarantined now, or one that is gone with it, is not the others'.
    if (status.ok() || status.code() == StatusCode::kNotFound) continue;
    if (status.code() != StatusCode::kCorruption) return status;
    if (damage.ok()) damage = status;
  }
  return damage;
}

Status Merger::Compaction::CompactChain(ContextId context) {
  SegmentId lost = 0;  // The first segment of a run that was no longer a run at its merge.
  for (;;) {
    // Looked at again after each merge: a session may have found damage meanwhile.
    ATTNDB_ASSIGN_OR_RETURN(const ContextDetail detail,
                            catalog_->contexts()->Describe(tenant_, context));
    if (detail.context.damaged) return Status::Ok();
    const std::vector<Run> runs = RunsOf(detail, options_);
    if (runs.empty()) return Status::Ok();
    const Status status =
        merger_->MergeRun(runs.front(), [this](uint64_t bytes) { return Report(bytes); });
    // A Store or Drop meanwhile gave the context, and the contexts that share its run, other
    // chains.
    const SegmentId begin = runs.front().front().segment.id;
    if (status.code() == StatusCode::kFailedPrecondition && lost != begin) {
      lost = begin;
      continue;
    }
    ATTNDB_RETURN_IF_ERROR(status);
    bytes_done_ += KvBytes(runs.front());
    if (!Report(0)) return Status::Cancelled("compact: cancelled between two segments");
  }
}

}  // namespace attndb::store
