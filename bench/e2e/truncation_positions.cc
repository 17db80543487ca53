#include "bench/e2e/truncation_positions.h"

#include <llama.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "bench/e2e/likelihood.h"

namespace attndb::bench {
namespace {

constexpr uint64_t kFirstTokens = 512;
constexpr uint64_t kDropped = 256;
constexpr uint64_t kScored = 256;

// Negative log-likelihood of each scored token. `rebased`: the engine is told small positions.
Result<std::vector<double>> Score(int64_t first_position, bool rebased,
                                  std::span<const TokenId> tokens, const DB& db,
                                  llama::LlamaEngine* engine) {
  ATTNDB_ASSIGN_OR_RETURN(
      SessionStart start,
      db.CreateSession(engine->spec(), tokens,
                       {.reuse = false, .plan = "full", .first_position = first_position}));
  Session& session = start.session;
  if (rebased) ATTNDB_RETURN_IF_ERROR(session.Rebase(0));
  ATTNDB_RETURN_IF_ERROR(engine->Prefill(session, tokens.first(kFirstTokens)));
  ATTNDB_RETURN_IF_ERROR(session.DropOldest(kDropped, {.keep_first = 4}));
  std::vector<double> scores;
  const std::span<const TokenId> scored = tokens.subspan(kFirstTokens, kScored + 1);
  llama::PrefillOptions options;
  options.on_logits = [&](uint64_t index, std::span<const float> logits) {
    scores.push_back(NegativeLogLikelihood(logits, scored[index + 1]));
  };
  ATTNDB_RETURN_IF_ERROR(engine->Prefill(session, scored.first(kScored), options));
  return scores;
}

double Largest(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

double MeanDifference(const std::vector<double>& a, const std::vector<double>& b) {
  const double sum =
      std::accumulate(a.begin(), a.end(), 0.0) - std::accumulate(b.begin(), b.end(), 0.0);
  return sum / static_cast<double>(a.size());
}

}  // namespace

Result<std::vector<PositionsResult>> ComparePositions(std::span<const int64_t> first_positions,
                                                      std::span<const TokenId> tokens, const DB& db,
                                                      llama::LlamaEngine* engine) {
  if (tokens.size() < kFirstTokens + kScored + 1) {
    return Status::InvalidArgument("the text has " + std::to_string(tokens.size()) +
                                   " tokens, expected " +
                                   std::to_string(kFirstTokens + kScored + 1));
  }
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<double> at_zero, Score(0, false, tokens, db, engine));
  std::vector<PositionsResult> results;
  for (const int64_t position : first_positions) {
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<double> rebased,
                            Score(position, true, tokens, db, engine));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<double> own,
                            Score(position, false, tokens, db, engine));
    results.push_back({position, Largest(rebased, at_zero), Largest(own, at_zero),
                       MeanDifference(rebased, at_zero), MeanDifference(own, at_zero)});
  }
  return results;
}

Status WriteFloat32Model(const std::string& model, const std::string& path) {
  llama_backend_init();
  llama_model_quantize_params params = llama_model_quantize_default_params();
  params.ftype = LLAMA_FTYPE_ALL_F32;
  params.allow_requantize = true;
  if (llama_model_quantize(model.c_str(), path.c_str(), &params) == 0) return Status::Ok();
  return Status::Internal("llama_model_quantize could not write '" + path + "'");
}

}  // namespace attndb::bench
