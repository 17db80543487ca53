#include "cli/common/check_text.h"

#include <algorithm>
#include <span>

#include "cli/common/units.h"

namespace attndb::cli {
namespace {

// A token as a reader sees it: 'text', or its number where it has none.
std::string Quoted(const llama::LlamaEngine& engine, TokenId token) {
  const Result<std::string> text = engine.Detokenize(std::span(&token, 1), true);
  return text.ok() ? Json(*text).dump(-1, ' ', false, Json::error_handler_t::replace)
                   : "token " + std::to_string(token);
}

std::string DifferenceText(const llama::LlamaEngine& engine, const llama::CheckReport& report) {
  const llama::TokenDifference& first = report.differences.front();
  return "token " + std::to_string(first.index + 1) + " of " + std::to_string(report.num_compared) +
         " differs from plain llama.cpp's: " + Quoted(engine, first.ours) + " here, " +
         Quoted(engine, first.plain) + " there; logit gap " + FormatFixed(first.logit_gap, 4) +
         ", plain llama.cpp's own spread (flash attention on, off) " +
         FormatFixed(report.own_spread, 4) +
         (WithinSpread(report) ? ": rounding decides" : ": more than rounding");
}

double ShareOfCold(const llama::CheckReport& report, const AnswerStats& stats) {
  return report.plain_prefill_ms > 0 ? stats.first_token_ms / report.plain_prefill_ms : 0;
}

}  // namespace

bool WithinSpread(const llama::CheckReport& report) {
  return std::all_of(report.differences.begin(), report.differences.end(),
                     [&](const auto& d) { return d.logit_gap <= report.own_spread; });
}

Json ToJson(const llama::CheckReport& report, const AnswerStats& stats) {
  Json differences = Json::array();
  for (const llama::TokenDifference& d : report.differences) {
    differences.push_back(
        {{"index", d.index}, {"ours", d.ours}, {"plain", d.plain}, {"logit_gap", d.logit_gap}});
  }
  return {{"equal", report.equal()},
          {"within_spread", WithinSpread(report)},
          {"num_compared", report.num_compared},
          {"differences", std::move(differences)},
          {"own_spread", report.own_spread},
          {"cold_prefill_ms", report.plain_prefill_ms},
          {"first_token_share_of_cold", ShareOfCold(report, stats)}};
}

std::string CheckText(const llama::LlamaEngine& engine, const llama::CheckReport& report,
                      const AnswerStats& stats) {
  std::string text = "check: ";
  if (report.equal()) {
    text += "all " + std::to_string(report.num_compared) +
            " tokens are plain llama.cpp's greedy choice";
  } else {
    text += DifferenceText(engine, report);
  }
  text += "\ncheck: plain llama.cpp's cold prefill took " +
          FormatSeconds(report.plain_prefill_ms / 1e3) + "; the first token here took " +
          FormatFixed(100 * ShareOfCold(report, stats), 1) + " % of that";
  return text;
}

}  // namespace attndb::cli
