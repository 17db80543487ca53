#include "store/prefix_reasons.h"

#include <utility>

#include "attndb/units.h"

namespace attndb::store {

std::vector<std::string> PrefixReasons(const PrefixReport& report, std::span<const TokenId> tokens,
                                       const SessionOptions& options) {
  using Reason = PrefixNearMiss::Reason;
  std::vector<std::string> reasons;
  if (!options.reuse) reasons.push_back("reuse is switched off");
  if (!report.best) {
    reasons.push_back("no context of this model begins with the prompt's first token");
  } else if (report.best->num_tokens == tokens.size()) {
    reasons.push_back("all of the prompt is stored; one token is left for the engine");
  } else if (report.next_token) {
    reasons.push_back("the longest match ends after " + Counted(report.best->num_tokens, "token") +
                      ": the context has token " + std::to_string(*report.next_token) +
                      " where the prompt has " + std::to_string(tokens[report.best->num_tokens]));
  } else {
    reasons.push_back("the longest match is a whole context of " +
                      Counted(report.best->num_tokens, "token"));
  }
  if (report.best && !report.best->cuts.empty()) {
    uint64_t num_dropped = 0;
    for (const Cut& cut : report.best->cuts) {
      for (const TokenRange& range : cut.dropped) num_dropped += range.end - range.begin;
    }
    reasons.push_back("it was computed after a cut: " + FormatCount(num_dropped) +
                      " of its tokens have left, the first at " +
                      Counted(report.best->cuts.front().at, "token"));
  }
  for (const PrefixNearMiss& miss : report.near_misses) {
    if (miss.num_contexts == 0) continue;
    const bool one = miss.num_contexts == 1;
    std::string text = Counted(miss.num_contexts, "context");
    switch (miss.reason) {
      case Reason::kOtherModel:
        text += std::string(one ? " is" : " are") + " of another model, kv_dtype or RoPE setting";
        break;
      case Reason::kOtherPosition:
        text += std::string(one ? " begins" : " begin") + " at another position";
        break;
      case Reason::kDamaged:
        text += one ? " is damaged" : " are damaged";
        break;
      case Reason::kExpired:
        text += one ? " has expired" : " have expired";
        break;
    }
    if (miss.best.num_tokens > 0) {
      text += "; the best agrees for " + Counted(miss.best.num_tokens, "token");
    }
    reasons.push_back(std::move(text));
  }
  return reasons;
}

}  // namespace attndb::store
