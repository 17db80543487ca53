#include "cli/common/trained_length.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "cli/common/interrupt.h"
#include "cli/common/progress.h"
#include "cli/common/rope_scaling.h"
#include "cli/common/units.h"

namespace attndb::cli {
namespace {

using llama::RopeScaling;
using llama::RopeScalingKind;

constexpr uint64_t kFactorMax = 1024;                    // The largest of llama::RopeScaling.
constexpr uint64_t kShortTextBytes = uint64_t{4} << 20;  // Tokenized within a second or two.

// The smallest whole factor by which the model reaches `num_tokens`.
std::optional<uint64_t> SufficientFactor(const llama::ModelInfo& info, uint64_t num_tokens) {
  const uint64_t factor = (num_tokens - 1) / info.unscaled_context + 1;
  return factor <= kFactorMax ? std::optional(factor) : std::nullopt;
}

}  // namespace

std::string ModelNameOf(const llama::ModelInfo& info) {
  return std::filesystem::path(info.path).stem().string();
}

uint64_t MostCounted(const llama::ModelInfo& info) {
  if (info.max_context == 0) return UINT64_MAX;
  return std::max(info.max_context, kFactorMax * info.unscaled_context);
}

llama::TokenizeLimits TextLimits(Environment* env, const llama::ModelInfo& info) {
  llama::TokenizeLimits limits;
  limits.max_tokens = MostCounted(info);
  const auto line = std::make_shared<ProgressLine>(
      ProgressLine::Options{.label = "tokenize", .unit = "bytes", .enabled = env->show_progress()});
  limits.progress = [line](uint64_t bytes_done, uint64_t bytes_total) {
    if (bytes_total > kShortTextBytes) line->Update(bytes_done, bytes_total);
    return !Interrupted();
  };
  return limits;
}

Status CheckTrainedLength(Environment* env, const llama::ModelInfo& info,
                          const RopeScaling& scaling, const std::string& document,
                          uint64_t num_tokens, bool can_split) {
  if (info.max_context == 0 || num_tokens <= info.max_context) return Status();
  const bool scaled = scaling.kind != RopeScalingKind::kModel;
  const uint64_t most = MostCounted(info);
  const std::string found =
      num_tokens > most ? "more than " + Counted(most, "token") : Counted(num_tokens, "token");
  std::string message = document + " has " + found + ", but " + ModelNameOf(info) +
                        " was trained on " +
                        FormatCount(scaled ? info.unscaled_context : info.max_context);
  if (scaled) {
    message += ", which --rope-scaling " + RopeScalingText(scaling) + " stretches to " +
               FormatCount(info.max_context);
  }
  const std::optional<uint64_t> factor = SufficientFactor(info, num_tokens);
  std::string advice = can_split ? "--split imports it in parts that 'attndb find' looks through; "
                                   "or give "
                                 : "give ";
  if (factor) advice += "--rope-scaling yarn:" + std::to_string(*factor) + ", or ";
  return env->WithAdvice(Status::InvalidArgument(std::move(message)),
                         advice + "a shorter document");
}

Status CheckQuestion(Environment* env, const llama::LlamaEngine& engine,
                     std::string_view question) {
  // Shorter questions are fast, and have too few tokens to check.
  constexpr size_t kShortBytes = 65536;
  if (question.size() <= kShortBytes) return Status();
  const llama::TokenizeLimits limits = TextLimits(env, engine.info());
  ATTNDB_ASSIGN_OR_RETURN(
      const std::vector<TokenId> tokens,
      engine.Tokenize(question, /*add_special=*/false, /*parse_special=*/false, limits));
  if (tokens.size() <= limits.max_tokens) return Status();
  return Status::InvalidArgument("the question has more than " +
                                 Counted(limits.max_tokens, "token") +
                                 ", which no scaling of the model reaches");
}

}  // namespace attndb::cli
