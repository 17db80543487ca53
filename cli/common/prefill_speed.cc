#include "cli/common/prefill_speed.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include "engines/llama/fingerprint.h"
#include "engines/llama/kept_file.h"

namespace attndb::cli {
namespace {

// Nothing where there is no cache.
std::filesystem::path SpeedFile(const llama::LlamaEngine& engine) {
  const std::string cache = llama::DefaultCacheDir();
  const Result<std::string> key = llama::TextDigest(engine.spec().fingerprint + "/" +
                                                    std::to_string(engine.options().num_threads));
  if (cache.empty() || !key.ok()) return {};
  return std::filesystem::path(cache) / "prefill" / *key;
}

}  // namespace

std::optional<double> KnownPrefillSpeed(const llama::LlamaEngine& engine) {
  const double rate = std::strtod(llama::ReadKeptFile(SpeedFile(engine)).c_str(), nullptr);
  constexpr double kMost = 1e9;
  if (!(rate > 0 && rate < kMost)) return std::nullopt;
  return rate;
}

void KeepPrefillSpeed(const llama::LlamaEngine& engine, uint64_t num_tokens, double seconds) {
  constexpr uint64_t kLeastTokens = 64;
  const std::filesystem::path file = SpeedFile(engine);
  if (file.empty() || num_tokens < kLeastTokens || !(seconds > 0)) return;
  llama::KeepFile(file, std::to_string(static_cast<double>(num_tokens) / seconds));
}

}  // namespace attndb::cli
