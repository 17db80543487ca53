#include "cli/common/prefill_cost.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "cli/common/interrupt.h"
#include "cli/common/progress.h"
#include "cli/common/temp_dir.h"
#include "cli/environment.h"
#include "engines/llama/fingerprint.h"
#include "engines/llama/kept_file.h"

namespace attndb::cli {
namespace {

constexpr double kMostGrowth = 1;

// Nothing where there is no cache.
std::filesystem::path FileOfGrowth(const llama::LlamaEngine& engine) {
  const std::string cache = llama::DefaultCacheDir();
  const Result<std::string> key = llama::TextDigest(engine.spec().fingerprint + "/" +
                                                    std::to_string(engine.options().num_threads));
  if (cache.empty() || !key.ok()) return {};
  return std::filesystem::path(cache) / "prefill" / ("growth-" + *key);
}

double GrowthOf(const llama::LlamaEngine& engine) {
  const std::string kept = llama::ReadKeptFile(FileOfGrowth(engine));
  const double growth = kept.empty() ? -1 : std::strtod(kept.c_str(), nullptr);
  if (growth >= 0 && growth < kMostGrowth) return growth;
  return GrowthOfShape(engine.spec(), engine.info().num_parameters);
}

// Seconds that `tokens` take in a session of their own.
Result<double> TimeOf(llama::LlamaEngine* engine, const DB& db, std::span<const TokenId> tokens) {
  SessionOptions session_options;
  session_options.reuse = false;
  ATTNDB_ASSIGN_OR_RETURN(SessionStart start,
                          db.CreateSession(engine->spec(), tokens, session_options));
  llama::PrefillOptions options;
  options.progress = [](const llama::PrefillProgress&) { return !Interrupted(); };
  const double start_seconds = MonotonicSeconds();
  ATTNDB_RETURN_IF_ERROR(engine->Prefill(start.session, start.rest, options));
  return MonotonicSeconds() - start_seconds;
}

}  // namespace

double PrefillCost::Seconds(uint64_t begin, uint64_t end) const {
  const auto first = static_cast<double>(begin);
  const auto last = static_cast<double>(std::max(begin, end));
  return token_seconds * ((last - first) + growth * (last * last - first * first) / 2);
}

void PrefillTimes::Add(uint64_t num_tokens, double seconds) {
  times_.push_back({num_tokens, seconds});
}

std::optional<PrefillCost> PrefillTimes::Fit() const {
  constexpr size_t kLeastPasses = 4;
  constexpr double kLeastTokens = 2000;
  // A pass from `begin` to `end` takes a * (end - begin) + b * (end^2 - begin^2) / 2: least squares
  // of a and b. The first pass warms up, and does not count.
  double uu = 0, uv = 0, vv = 0, ut = 0, vt = 0;
  double first = 0, last = 0;
  size_t num_passes = 0;
  for (size_t i = 2; i < times_.size(); ++i) {
    const auto begin = static_cast<double>(times_[i - 1].num_tokens);
    const auto end = static_cast<double>(times_[i].num_tokens);
    const double u = end - begin;
    const double v = (end * end - begin * begin) / 2;
    const double t = times_[i].seconds - times_[i - 1].seconds;
    if (!(u > 0) || !(t > 0)) continue;
    if (num_passes++ == 0) first = begin;
    last = end;
    uu += u * u;
    uv += u * v;
    vv += v * v;
    ut += u * t;
    vt += v * t;
  }
  const double determinant = uu * vv - uv * uv;
  if (num_passes < kLeastPasses || last - first < kLeastTokens || !(determinant > 0)) {
    return std::nullopt;
  }
  const double a = (ut * vv - vt * uv) / determinant;
  const double b = (vt * uu - ut * uv) / determinant;
  if (!(a > 0)) return std::nullopt;
  return PrefillCost{.token_seconds = a, .growth = std::clamp(b / a, 0.0, kMostGrowth)};
}

double GrowthOfShape(const ModelSpec& spec, uint64_t num_parameters) {
  if (num_parameters == 0) return 0;
  // A token costs two operations for each weight, and for each earlier token two for each channel
  // of K and of V in each q head.
  uint64_t num_channels = 0;
  for (const LayerSpec& layer : spec.layers) {
    num_channels += uint64_t{layer.num_q_heads} * (uint64_t{layer.head_dim} + layer.v_head_dim);
  }
  return static_cast<double>(num_channels) / static_cast<double>(num_parameters);
}

Result<PrefillCost> MeasurePrefill(llama::LlamaEngine* engine, std::span<const TokenId> tokens) {
  constexpr size_t kWarmTokens = 16;
  constexpr double kMostSeconds = 4;  // By the rate of few tokens, which is the slowest.
  ATTNDB_ASSIGN_OR_RETURN(const TempDir folder, TempDir::Create(""));
  ATTNDB_ASSIGN_OR_RETURN(const DB db, DB::Open(folder.path() + "/store", Environment::Brief()));
  size_t num_tokens = std::min(tokens.size(), kWarmTokens);
  // The first pass also brings the weights into memory.
  ATTNDB_RETURN_IF_ERROR(TimeOf(engine, db, tokens.first(num_tokens)).status());
  ATTNDB_ASSIGN_OR_RETURN(double seconds, TimeOf(engine, db, tokens.first(num_tokens)));
  const double rate = static_cast<double>(num_tokens) / std::max(seconds, 1e-6);
  const size_t most = std::min<size_t>(tokens.size(), engine->options().ubatch_tokens);
  const auto affordable = static_cast<size_t>(std::min(rate * kMostSeconds, 1e9));
  if (std::min(most, affordable) > 2 * num_tokens) {
    num_tokens = std::min(most, affordable);
    ATTNDB_ASSIGN_OR_RETURN(seconds, TimeOf(engine, db, tokens.first(num_tokens)));
  }
  const PrefillCost one = {.token_seconds = 1, .growth = GrowthOf(*engine)};
  return PrefillCost{.token_seconds = seconds / one.Seconds(0, num_tokens), .growth = one.growth};
}

Result<PrefillCost> PrefillMeter::CostFor(llama::LlamaEngine* engine,
                                          std::span<const TokenId> tokens) {
  const size_t num_tokens = std::min<size_t>(tokens.size(), engine->options().ubatch_tokens);
  if (num_tokens > 2 * num_tokens_) {
    ATTNDB_ASSIGN_OR_RETURN(cost_, MeasurePrefill(engine, tokens));
    num_tokens_ = num_tokens;
  }
  return cost_;
}

void KeepPrefillCost(const llama::LlamaEngine& engine, const PrefillTimes& times) {
  const std::filesystem::path file = FileOfGrowth(engine);
  const std::optional<PrefillCost> cost = times.Fit();
  if (file.empty() || !cost) return;
  llama::KeepFile(file, std::to_string(cost->growth * 1e9) + "e-9");
}

}  // namespace attndb::cli
