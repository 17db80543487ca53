// SessionImpl: tokens that leave, and positions that the engine and the session count differently.
#include <utility>

#include "common/check.h"
#include "kernels/layout.h"
#include "session/session_impl.h"
#include "session/view_check.h"

namespace attndb::internal {

namespace {

using TurnSpan = std::span<const Turn>;

// Rows of tokens before `num_tokens`.
storage::QueryRows RowsBefore(uint64_t num_tokens, storage::QueryRows rows) {
  const auto end = std::ranges::lower_bound(rows.tokens, num_tokens);
  const auto count = static_cast<size_t>(end - rows.tokens.begin());
  return {rows.q, rows.tokens.first(count), rows.q_heads.first(count)};
}

}  // namespace

uint64_t SessionImpl::NumSeen(TokenRange tokens) const {
  uint64_t count = 0;
  ForEachSeen(tokens, [&count](TokenRange part, uint32_t) { count += part.end - part.begin; });
  return count;
}

uint64_t SessionImpl::SeenToken(uint64_t i) const {
  uint64_t token = 0;
  uint64_t seen = 0;
  ForEachSeen({0, kMaxSessionTokens}, [&](TokenRange part, uint32_t) {
    if (i >= seen) token = part.begin + (i - seen);
    seen += part.end - part.begin;
  });
  return token;
}

Status SessionImpl::MakeTurns() {
  if (turns_) return Status::Ok();
  ATTNDB_ASSIGN_OR_RETURN(turns_, TurnTables::Of(spec_));
  return Status::Ok();
}

void SessionImpl::FollowTruncation() {
  if (next_position() < 0) position_shift_ = 0;
  if (!turns_) return;
  turns_->SetMoves(truncation_.moves());
  turns_->SetShift(position_shift_);
}

Status SessionImpl::DropOldest(uint64_t n, const DropOptions& options) {
  ATTNDB_RETURN_IF_ERROR(CheckComplete());
  ATTNDB_RETURN_IF_ERROR(chain_.CheckIsOnePrompt());
  ATTNDB_RETURN_IF_ERROR(MakeTurns());
  ATTNDB_RETURN_IF_ERROR(truncation_.Drop(n, options, num_tokens()));
  FollowTruncation();
  return Status::Ok();
}

Status SessionImpl::Lose(const attndb::Cut& cut) {
  ATTNDB_CHECK(cut.at == num_tokens());
  ATTNDB_RETURN_IF_ERROR(MakeTurns());
  std::vector<attndb::Cut> cuts = truncation_.cuts();
  cuts.push_back(cut);
  truncation_ = Truncation(std::move(cuts));
  FollowTruncation();
  return Status::Ok();
}

Status SessionImpl::Rebase(int64_t position) {
  ATTNDB_RETURN_IF_ERROR(CheckComplete());
  ATTNDB_RETURN_IF_ERROR(CheckFirstPosition(position));
  ATTNDB_RETURN_IF_ERROR(MakeTurns());
  position_shift_ = chain_.PositionAfter(num_tokens()) - position;
  FollowTruncation();
  return Status::Ok();
}

std::vector<uint64_t> SessionImpl::SeenBefore(const storage::QueryRows& rows,
                                              uint64_t first_token) const {
  std::vector<uint64_t> seen;
  for (const uint32_t token : rows.tokens) seen.push_back(NumSeen({0, first_token + token + 1}));
  return seen;
}

// Returns none if they are damaged: the queries of the tail also find the heavy tokens.
Result<std::optional<storage::LayerQueries>> SessionImpl::StoredQueries(LayerId layer) const {
  std::optional<storage::LayerQueries> stored;
  if (entries().empty()) return stored;
  const storage::Segment& segment = *entries().back().segment;
  Result<storage::LayerQueries> queries = segment.ReadQueries(layer);
  if (queries.ok()) {
    stored = *std::move(queries);
  } else if (queries.status().code() == StatusCode::kCorruption) {
    host_->NoteDamage(segment, queries.status());
  } else {
    return queries.status();
  }
  return stored;
}

Status SessionImpl::AddMass(LayerId layer, AttentionMass* mass) const {
  const std::unique_ptr<storage::ChainSource> rows = parts_.make_rows();
  ListRuns(layer, rows.get());
  const LayerSpec& spec = spec_.layers[layer];
  std::vector<attention::RunPart> parts;
  ListPartsOf(*rows, &parts);
  std::vector<attention::HeadRun> runs;
  std::vector<uint32_t> turns;
  uint64_t num_seen = 0;
  for (const attention::RunPart& part : parts) {
    runs.push_back({.tokens = {num_seen, num_seen + part.num_tokens},
                    .origin = num_seen - part.first,
                    .number = part.run,
                    .k_elements = kernels::RowElements(spec.head_dim),
                    .dtype = spec_.kv_dtype});
    turns.push_back(part.turn);
    num_seen += part.num_tokens;
  }
  ATTNDB_ASSIGN_OR_RETURN(const std::optional<storage::LayerQueries> stored, StoredQueries(layer));
  for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
    for (attention::HeadRun& run : runs) run.kv_head = head;
    const AttentionMass::HeadKeys keys = {
        &spec,     spec_.kv_dtype, runs, turns, turns_ ? turns_->TurnsOf(layer) : TurnSpan(),
        rows.get()};
    if (stored) {
      const uint64_t num_used = entries().back().num_tokens_used;
      const storage::QueryRows queries = RowsBefore(num_used, stored->rows(head));
      ATTNDB_RETURN_IF_ERROR(
          mass->Add(keys, queries, SeenBefore(queries, chain_.num_tokens() - num_used)));
    }
    const std::vector<storage::QueryRows> of_tail = query_sample_.rows(layer, head);
    if (of_tail.empty()) continue;
    const storage::QueryRows& newest = of_tail.back();
    ATTNDB_RETURN_IF_ERROR(mass->Add(keys, newest, SeenBefore(newest, chain_.num_tokens())));
  }
  return Status::Ok();
}

Result<std::vector<TokenRange>> SessionImpl::HeaviestTokens(TokenRange among, uint64_t num_tokens) {
  constexpr uint64_t kBlockTokens = 16;
  ATTNDB_RETURN_IF_ERROR(CheckComplete());
  ATTNDB_RETURN_IF_ERROR(chain_.CheckIsOnePrompt());
  if (among.begin > among.end || among.end > this->num_tokens()) {
    return Status::InvalidArgument("tokens [" + std::to_string(among.begin) + ", " +
                                   std::to_string(among.end) + ") of a session of " +
                                   std::to_string(this->num_tokens()));
  }
  AttentionMass mass(NumSeen({0, this->num_tokens()}));
  for (LayerId layer = 0; layer < spec_.num_layers(); ++layer) {
    ATTNDB_RETURN_IF_ERROR(AddMass(layer, &mass));
  }
  if (!mass.has_queries()) {
    return Status::FailedPrecondition(
        "no queries are sampled, by which tokens could be weighed; see DBOptions::query_sample");
  }
  std::vector<double> by_token(this->num_tokens());
  uint64_t seen = 0;
  ForEachSeen({0, this->num_tokens()}, [&](TokenRange part, uint32_t) {
    for (uint64_t token = part.begin; token < part.end; ++token) {
      by_token[token] = mass.mass()[seen++];
    }
  });
  return HeaviestBlocks(by_token, among, num_tokens, kBlockTokens);
}

}  // namespace attndb::internal
