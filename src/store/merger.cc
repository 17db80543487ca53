#include "store/merger.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "attndb/units.h"
#include "common/check.h"
#include "storage/kv/segment_writer.h"
#include "store/lanes.h"
#include "store/merge_policy.h"
#include "store/segment_facts.h"

namespace attndb::store {
namespace {

// A run of a chain as a source for one segment: the rows of its parts, cut to the used tokens.
class RunSource final : public storage::SegmentSource {
 public:
  struct Part {
    std::shared_ptr<storage::Segment> segment;
    uint64_t num_tokens_used = 0;
    bool is_damaged = false;  // Known to be damaged: only its sound tokens are used.
  };

  // `tokens` of all parts together. `layer_begins` says before each layer whether to go on.
  RunSource(std::vector<Part> parts, std::vector<TokenId> tokens,
            std::function<bool(LayerId)> layer_begins)
      : parts_(std::move(parts)),
        tokens_(std::move(tokens)),
        layer_begins_(std::move(layer_begins)) {}

  std::span<const TokenId> tokens() const override { return tokens_; }

  Status LoadLayer(LayerId layer) override {
    if (!layer_begins_(layer)) {
      return Status::Cancelled("merge of " + Counted(tokens_.size(), "token") +
                               ": cancelled before layer " + std::to_string(layer));
    }
    pins_.clear();
    layer_queries_.clear();
    for (const Part& part : parts_) {
      ATTNDB_ASSIGN_OR_RETURN(storage::LayerPin pin,
                              part.segment->PinLayer(layer, part.num_tokens_used));
      ATTNDB_ASSIGN_OR_RETURN(storage::LayerQueries queries, QueriesOf(part, layer));
      pins_.push_back(std::move(pin));
      layer_queries_.push_back(std::move(queries));
    }
    return Status::Ok();
  }

  std::span<const storage::KvRows> rows(uint32_t kv_head) override {
    rows_.clear();
    for (size_t i = 0; i < parts_.size(); ++i) {
      storage::KvRows rows = pins_[i].rows(kv_head);
      rows.num_tokens = parts_[i].num_tokens_used;
      rows_.push_back(rows);
    }
    return rows_;
  }

  std::span<const storage::QueryRows> queries(uint32_t kv_head) override {
    queries_.clear();
    query_tokens_.assign(parts_.size(), {});
    uint32_t first_token = 0;
    for (size_t i = 0; i < parts_.size(); ++i) {
      storage::QueryRows rows;
      if (layer_queries_[i].num_kv_heads() > 0) rows = layer_queries_[i].rows(kv_head);
      // Rows are in the order of tokens, so rows of unused tokens come last.
      for (const uint32_t token : rows.tokens) {
        if (token >= parts_[i].num_tokens_used) break;
        query_tokens_[i].push_back(first_token + token);
      }
      rows.tokens = query_tokens_[i];
      rows.q_heads = rows.q_heads.first(rows.tokens.size());
      queries_.push_back(rows);
      first_token += static_cast<uint32_t>(parts_[i].num_tokens_used);
    }
    return queries_;
  }

 private:
  // A damaged sample costs no token: the merge of a segment with known damage does without it.
  static Result<storage::LayerQueries> QueriesOf(const Part& part, LayerId layer) {
    Result<storage::LayerQueries> queries = part.segment->ReadQueries(layer);
    const bool is_lost = queries.status().code() == StatusCode::kCorruption;
    if (part.is_damaged && is_lost) return storage::LayerQueries();
    return queries;
  }

  const std::vector<Part> parts_;
  const std::vector<TokenId> tokens_;
  const std::function<bool(LayerId)> layer_begins_;
  std::vector<storage::LayerPin> pins_;
  std::vector<storage::LayerQueries> layer_queries_;
  std::vector<storage::KvRows> rows_;
  std::vector<storage::QueryRows> queries_;
  std::vector<std::vector<uint32_t>> query_tokens_;
};

std::vector<MergeLink> LinksOf(const ContextDetail& detail) {
  std::vector<MergeLink> links;
  for (const ChainSegment& link : detail.chain) {
    links.push_back({link.num_tokens_used, link.num_contexts,
                     link.segment.model == detail.context.model && link.segment.damage.empty()});
  }
  return links;
}

}  // namespace

Status Merger::MergeEnd(TenantId tenant, ContextId context, const Progress& progress) {
  for (;;) {
    ATTNDB_ASSIGN_OR_RETURN(const ContextDetail detail,
                            parts_.catalog->contexts()->Describe(tenant, context));
    const std::optional<MergeChoice> choice = ChooseMerge(LinksOf(detail));
    if (!choice) return Status::Ok();
    const auto run = std::span(detail.chain).subspan(choice->begin, choice->end - choice->begin);
    uint64_t run_bytes = 0;
    for (const ChainSegment& link : run) run_bytes += link.segment.file_bytes;
    ATTNDB_RETURN_IF_ERROR(parts_.space->CheckDisk(run_bytes));
    ATTNDB_RETURN_IF_ERROR(MergeRun(run, progress));
  }
}

void Merger::GiveUp() {
  constexpr size_t kLanes[] = {kMergeLane};
  parts_.background->CancelLanes(kLanes);
}

void Merger::Await() { MutexLock lock(&mutex_); }

void Merger::Schedule(TenantId tenant, ContextId context) {
  parts_.background->Add(kMergeLane,
                         {.owner = static_cast<uint64_t>(tenant),
                          .run = [this, tenant, context](derived::Lanes::Control* control) {
                            {
                              MutexLock lock(&mutex_);
                              const std::atomic<bool>* const cancel = control->cancel();
                              // The next Store retries a failed merge.
                              (void)MergeEnd(tenant, context, [cancel](uint64_t) {
                                return !cancel->load(std::memory_order_relaxed);
                              });
                            }
                            parts_.uses->Sweep();
                            return Status::Ok();
                          }});
}

std::vector<storage::ChainEntry> Merger::MergeNow(TenantId tenant, ContextId context,
                                                  std::vector<storage::ChainEntry> chain) {
  MutexLock lock(&mutex_);
  if (!MergeEnd(tenant, context, nullptr).ok()) return chain;
  Result<std::vector<storage::ChainEntry>> merged =
      parts_.uses->OpenContext(context, UINT64_MAX, chain);
  return merged.ok() ? *std::move(merged) : chain;
}

Status Merger::MergeRun(std::span<const ChainSegment> run, const Progress& progress) {
  ATTNDB_CHECK(!run.empty());
  const Status status = TryMergeRun(run, progress);
  if (status.code() != StatusCode::kCorruption) return status;
  // Finds the damaged segment: verifies one by one, and quarantines as Verify does.
  VerifyReport report;
  for (const ChainSegment& link : run) {
    ATTNDB_RETURN_IF_ERROR(parts_.verifier->VerifySegment(link.segment, &report));
  }
  return status;
}

Status Merger::TryMergeRun(std::span<const ChainSegment> run, const Progress& progress) {
  MergeRequest request;
  for (const ChainSegment& link : run) {
    request.run.push_back({link.segment.id, link.num_tokens_used});
  }
  ATTNDB_ASSIGN_OR_RETURN(request.merged, WriteMerged(run, progress));
  MutexLock lock(parts_.commits->mutex());
  const Result<MergeOutcome> outcome = parts_.catalog->segments()->ReplaceRun(request);
  parts_.commits->Ended(request.merged.id, {}, outcome.status());
  ATTNDB_RETURN_IF_ERROR(outcome.status());
  NoteGrowth(run.front(), request.merged);
  OfferMerged(request);
  parts_.uses->RemoveUnreferenced(outcome->unreferenced);
  return Status::Ok();
}

void Merger::NoteGrowth(const ChainSegment& first, const SegmentRecord& merged) {
  const bool is_whole = first.num_tokens_used == first.segment.num_tokens;
  if (!parts_.settings->options.grow_graphs || !is_whole) return;
  // Opened here, where its files are still there.
  const Result<std::shared_ptr<storage::Segment>> segment = parts_.registry->Get(first.segment);
  if (segment.ok()) parts_.builder->GrowFrom(**segment, FactsOf(first.segment), FactsOf(merged));
}

Result<SegmentRecord> Merger::WriteMerged(std::span<const ChainSegment> run,
                                          const Progress& progress) {
  std::vector<RunSource::Part> parts;
  std::vector<TokenId> tokens;
  for (const ChainSegment& link : run) {
    ATTNDB_ASSIGN_OR_RETURN(std::shared_ptr<storage::Segment> segment,
                            parts_.registry->Get(link.segment));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> part,
                            segment->ReadTokens(link.num_tokens_used));
    tokens.insert(tokens.end(), part.begin(), part.end());
    parts.push_back({std::move(segment), link.num_tokens_used, !link.segment.damage.empty()});
  }
  const SegmentRecord& first = run.front().segment;
  SegmentRecord merged;
  merged.model = first.model;
  merged.first_position = first.first_position;
  merged.num_tokens = tokens.size();
  merged.kv_bytes = first.kv_bytes / first.num_tokens * merged.num_tokens;
  const uint64_t layer_bytes = merged.kv_bytes / parts.front().segment->shape().layers.size();
  RunSource source(std::move(parts), std::move(tokens),
                   [&](LayerId layer) { return !progress || progress(layer_bytes * layer); });
  ATTNDB_RETURN_IF_ERROR(parts_.registry->Write(&source, &merged));
  const Result<Tenant> owner = parts_.catalog->owners()->GetTenant(first.tenant);
  if (owner.ok()) parts_.counts->Of(owner->name)->bytes_merged.Add(merged.file_bytes);
  return merged;
}

void Merger::OfferMerged(const MergeRequest& request) {
  parts_.objects->Schedule(request.merged.id);
  const auto is_held = [this](const ChainLink& link) {
    return parts_.registry->InUse(link.segment);
  };
  if (std::ranges::none_of(request.run, is_held)) return;
  Result<std::shared_ptr<storage::Segment>> segment = parts_.registry->Get(request.merged);
  if (!segment.ok()) return;  // The holder of the run continues with it.
  parts_.cache->Learn(*segment, FactsOf(request.merged));
  parts_.merged_runs->Add({.run = request.run, .merged = *std::move(segment)});
}

}  // namespace attndb::store
