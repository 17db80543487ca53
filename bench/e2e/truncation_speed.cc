#include "bench/e2e/truncation_speed.h"

#include <chrono>
#include <random>
#include <span>
#include <vector>

#include "bench/e2e/truncation_ways.h"

namespace attndb::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kTokens = 8192;
constexpr uint64_t kLeft = 4096;
constexpr TokenId kToken = 42;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::vector<float> RandomRows(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> rows(count);
  for (float& value : rows) value = normal(random);
  return rows;
}

// A session of `num_tokens` tokens, the same rows in each layer.
Result<Session> RandomSession(Way way, uint64_t num_tokens, const DB& db,
                              const llama::LlamaEngine& engine) {
  ATTNDB_ASSIGN_OR_RETURN(Session session, EmptySession(way, db, engine));
  const ModelSpec& spec = engine.spec();
  const LayerSpec& shape = spec.layers.front();
  const auto rows = static_cast<int64_t>(num_tokens);
  const int64_t heads = shape.num_kv_heads;
  const std::vector<float> k = RandomRows(num_tokens * shape.num_kv_heads * shape.head_dim, 1);
  const std::vector<float> v = RandomRows(num_tokens * shape.num_kv_heads * shape.v_head_dim, 2);
  for (uint32_t layer = 0; layer < spec.num_layers(); ++layer) {
    ATTNDB_RETURN_IF_ERROR(session.Append(
        static_cast<LayerId>(layer),
        TensorView::Contiguous(k.data(), DType::kFloat32, rows, heads, shape.head_dim),
        TensorView::Contiguous(v.data(), DType::kFloat32, rows, heads, shape.v_head_dim)));
  }
  return session;
}

// Milliseconds that one more token takes.
Result<double> NextToken(llama::LlamaEngine* engine, Session* session) {
  const Clock::time_point start = Clock::now();
  ATTNDB_RETURN_IF_ERROR(engine->Decode(*session, kToken));
  return MillisecondsSince(start);
}

}  // namespace

Result<TruncationSpeed> MeasureTruncation(uint64_t keep_first, size_t rounds, const DB& db,
                                          llama::LlamaEngine* engine) {
  ATTNDB_ASSIGN_OR_RETURN(const Session full, RandomSession(Way::kKeep4, kTokens, db, *engine));
  ATTNDB_ASSIGN_OR_RETURN(const Session plain, RandomSession(Way::kFull, kLeft, db, *engine));
  ATTNDB_ASSIGN_OR_RETURN(const Session without_rope,
                          RandomSession(Way::kUnrotated, kTokens, db, *engine));
  std::vector<double> drop;
  std::vector<double> next;
  std::vector<double> next_of_plain;
  std::vector<double> next_unrotated;
  std::vector<double> ratio;
  for (size_t i = 0; i < rounds; ++i) {
    ATTNDB_ASSIGN_OR_RETURN(Session session, full.Fork());
    ATTNDB_ASSIGN_OR_RETURN(Session other, plain.Fork());
    ATTNDB_ASSIGN_OR_RETURN(Session unrotated, without_rope.Fork());
    const Clock::time_point start = Clock::now();
    ATTNDB_RETURN_IF_ERROR(session.DropOldest(kTokens - kLeft, {.keep_first = keep_first}));
    drop.push_back(MillisecondsSince(start));
    ATTNDB_RETURN_IF_ERROR(session.Rebase(static_cast<int64_t>(kLeft)));
    ATTNDB_RETURN_IF_ERROR(unrotated.DropOldest(kTokens - kLeft, {.keep_first = keep_first}));
    ATTNDB_RETURN_IF_ERROR(unrotated.Rebase(static_cast<int64_t>(kLeft)));
    ATTNDB_ASSIGN_OR_RETURN(const double ours, NextToken(engine, &session));
    ATTNDB_ASSIGN_OR_RETURN(const double theirs, NextToken(engine, &other));
    ATTNDB_ASSIGN_OR_RETURN(const double turned, NextToken(engine, &unrotated));
    next.push_back(ours);
    next_unrotated.push_back(turned);
    next_of_plain.push_back(theirs);
    ratio.push_back(ours / theirs);
  }
  return TruncationSpeed{keep_first,
                         Summarize(drop),
                         Summarize(next),
                         Summarize(next_of_plain),
                         Summarize(next_unrotated),
                         Summarize(ratio)};
}

}  // namespace attndb::bench
