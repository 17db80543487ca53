#include "cli/common/overflow_flags.h"

#include <algorithm>

#include "cli/common/trained_length.h"
#include "cli/common/units.h"
#include "engines/llama/prompt_layout.h"

namespace attndb::cli {
namespace {

constexpr uint64_t kTokensMax = 1'000'000'000;

std::vector<TokenRange> Joined(std::vector<TokenRange> ranges) {
  std::ranges::sort(ranges, {}, &TokenRange::begin);
  std::vector<TokenRange> joined;
  for (const TokenRange& range : ranges) {
    if (!joined.empty() && joined.back().end == range.begin) {
      joined.back().end = range.end;
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

}  // namespace

void OverflowFlags::AddTo(Flags* flags) {
  flags->Group("Length");
  flags->Add(
      {"--overflow", "WHAT",
       "When the conversation outgrows the window: truncate (default) lets its oldest tokens "
       "go, refuse ends before anything is run"},
      &overflow_);
  flags->Add(
      {"--keep-first", "N", "Tokens in front that stay then (default: the system message, else 4)"},
      &keep_first_, uint64_t{0}, kTokensMax);
  flags->Add({"--window", "N",
              "Tokens that are attended to at most (default: what the model was trained on, times "
              "the factor of --rope-scaling)"},
             &window_tokens_, uint64_t{4}, kTokensMax);
}

Status OverflowFlags::Check() const {
  if (overflow_ == "truncate" || overflow_ == "refuse") return Status();
  return Status::InvalidArgument("--overflow is '" + overflow_ + "', expected truncate or refuse");
}

Result<llama::WindowOptions> OverflowFlags::WindowOf(const llama::LlamaEngine& engine,
                                                     const TextLayout& text,
                                                     std::span<const TokenId> tokens) const {
  llama::WindowOptions window;
  window.window_tokens = engine.info().max_context;
  if (window_tokens_ != kDefault) {
    if (window.window_tokens > 0 && window_tokens_ > window.window_tokens) {
      return Status::InvalidArgument("--window is " + FormatCount(window_tokens_) + ", but " +
                                     ModelNameOf(engine.info()) + " is meant for " +
                                     Counted(window.window_tokens, "token"));
    }
    window.window_tokens = window_tokens_;
  }
  window.keep_first = keep_first_;
  if (keep_first_ == kDefault) {
    ATTNDB_ASSIGN_OR_RETURN(const uint64_t num_system, SystemTokens(engine, text, tokens));
    window.keep_first = llama::UsualKeepFirst(num_system, window.window_tokens);
  }
  ATTNDB_RETURN_IF_ERROR(window.Validate());
  return window;
}

Status OverflowFlags::CheckFits(Environment* env, const llama::WindowOptions& window,
                                const Session& session, uint64_t num_new, uint64_t max_answer,
                                bool always) const {
  const bool refuses = overflow_ == "refuse";
  if (!refuses && !always && session.contexts().empty()) return Status();
  const uint64_t num_tokens = llama::TokensOfWindow(session) + num_new;
  if (window.window_tokens == 0 || num_tokens + max_answer <= window.window_tokens) return Status();
  return env->WithAdvice(
      Status::InvalidArgument("the prompt has " + Counted(num_tokens, "token") +
                              " and its answer up to " + FormatCount(max_answer) +
                              ", but the window has " + FormatCount(window.window_tokens)),
      std::string("give a smaller --max-tokens") + (always    ? ", or leave --check out"
                                                    : refuses ? ", or --overflow truncate"
                                                              : ""));
}

std::vector<TokenRange> DroppedSince(const Session& session, size_t num_cuts) {
  std::vector<TokenRange> dropped;
  const std::vector<Cut>& cuts = session.cuts();
  for (size_t i = num_cuts; i < cuts.size(); ++i) {
    dropped.insert(dropped.end(), cuts[i].dropped.begin(), cuts[i].dropped.end());
  }
  return Joined(std::move(dropped));
}

Json ToJson(std::span<const TokenRange> dropped) {
  Json json = Json::array();
  for (const TokenRange& range : dropped) json.push_back({range.begin, range.end});
  return json;
}

std::string DroppedText(const llama::WindowOptions& window, std::span<const TokenRange> dropped,
                        uint64_t num_in_front) {
  uint64_t count = 0;
  for (const TokenRange& range : dropped) count += range.end - range.begin;
  if (count == 0) return "";
  return "the conversation has outgrown its window of " + Counted(window.window_tokens, "token") +
         ": the oldest " + FormatCount(count) +
         (num_in_front > 0 ? " after the first " + FormatCount(num_in_front) : "") +
         " are no longer attended to";
}

}  // namespace attndb::cli
