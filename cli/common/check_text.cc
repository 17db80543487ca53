#include "cli/common/check_text.h"

#include <algorithm>
#include <span>
#include <vector>

#include "cli/common/interrupt.h"
#include "cli/common/trained_length.h"
#include "cli/common/units.h"

namespace attndb::cli {
namespace {

// A token as a reader sees it: 'text', or its number where it has none.
std::string Quoted(const llama::LlamaEngine& engine, TokenId token) {
  const Result<std::string> text = engine.Detokenize(std::span(&token, 1), true);
  return text.ok() ? Dump(*text) : "token " + std::to_string(token);
}

// The cause of a difference that is larger than rounding.
std::string CauseText(const std::string& plan) {
  if (plan == "full") return "more than rounding, although the plan is exact";
  return "more than rounding: the plan's approximation, which --plan full is without";
}

std::string DifferenceText(const llama::LlamaEngine& engine, const llama::CheckReport& report,
                           const std::string& plan) {
  const llama::TokenDifference& first = report.differences.front();
  return "token " + std::to_string(first.index + 1) + " of " + std::to_string(report.num_compared) +
         " differs: attndb (plan " + plan + ") chose " + Quoted(engine, first.ours) +
         ", plain llama.cpp " + Quoted(engine, first.plain) +
         " after the same tokens\ncheck: llama.cpp's logits of these two tokens are " +
         FormatFixed(first.logit_gap, 4) +
         " apart; its own kernels (flash attention on or off) change that by " +
         FormatFixed(first.own_spread, 4) + " here, by " + FormatFixed(report.own_spread, 4) +
         " at most: " + (WithinSpread(report) ? "rounding decides" : CauseText(plan));
}

double ShareOfCold(const llama::CheckReport& report, const AnswerStats& stats) {
  return report.plain_prefill_ms > 0 ? stats.first_token_ms / report.plain_prefill_ms : 0;
}

}  // namespace

std::string CheckNotice(uint64_t num_tokens, const PrefillCost& cost) {
  // Plain llama.cpp reads weights as fast as here, and attends about half as fast.
  const PrefillCost plain = {.token_seconds = cost.token_seconds, .growth = 2 * cost.growth};
  return "check: behind the answer, plain llama.cpp reads the whole prompt of " +
         Counted(num_tokens, "token") + " once; that takes about " +
         FormatSeconds(plain.Seconds(0, num_tokens));
}

bool WithinSpread(const llama::CheckReport& report) {
  return std::all_of(report.differences.begin(), report.differences.end(),
                     [&](const auto& d) { return d.logit_gap <= report.own_spread; });
}

Result<AnswerCheck> CheckAnswer(Environment* env, const llama::LlamaEngine& engine,
                                std::span<const TokenId> prompt, std::span<const TokenId> answer) {
  const llama::TokenizeLimits limits = TextLimits(env, engine.info());
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> whole, engine.TokenizedAtOnce(prompt, limits));
  if (whole.size() > limits.max_tokens) {
    return Status::InvalidArgument("the whole text has more than " +
                                   Counted(limits.max_tokens, "token") +
                                   ", which no scaling of the model reaches");
  }
  AnswerCheck check;
  if (!std::ranges::equal(prompt, whole)) {
    const auto differ = std::ranges::mismatch(prompt, whole);
    check.first_other_id = static_cast<uint64_t>(differ.in1 - prompt.begin());
  }
  ATTNDB_ASSIGN_OR_RETURN(
      check.report,
      engine.CheckAgainstPlain(whole, answer, {.keep_going = [] { return !Interrupted(); }}));
  return check;
}

Json ToJson(const AnswerCheck& check, const AnswerStats& stats) {
  const llama::CheckReport& report = check.report;
  Json differences = Json::array();
  for (const llama::TokenDifference& d : report.differences) {
    differences.push_back(JsonObject({{"index", d.index},
                                      {"ours", d.ours},
                                      {"plain", d.plain},
                                      {"logit_gap", d.logit_gap},
                                      {"own_spread", d.own_spread}}));
  }
  return JsonObject(
      {{"equal", report.equal()},
       {"within_spread", WithinSpread(report)},
       {"num_compared", report.num_compared},
       {"differences", differences},
       {"own_spread", report.own_spread},
       {"first_other_id", check.first_other_id ? Json(*check.first_other_id) : Json()},
       {"cold_prefill_ms", report.plain_prefill_ms},
       {"first_token_share_of_cold", ShareOfCold(report, stats)}});
}

std::string CheckText(const llama::LlamaEngine& engine, const AnswerCheck& check,
                      const AnswerStats& stats, const std::string& plan) {
  const llama::CheckReport& report = check.report;
  std::string text;
  if (check.first_other_id) {
    text = "check: token " + FormatCount(*check.first_other_id + 1) +
           " of the prompt is another than in the whole text, tokenized at once, which plain "
           "llama.cpp ran\n";
  }
  text += "check: ";
  if (report.equal()) {
    text += report.num_compared == 1 ? "the one token is"
                                     : "all " + Counted(report.num_compared, "token") +
                                           ", each after the same tokens, are";
    text +=
        " plain llama.cpp's greedy choice (plan " + plan + " here, attention to all tokens there)";
  } else {
    text += DifferenceText(engine, report, plan);
  }
  text += "\ncheck: plain llama.cpp's cold prefill took " +
          FormatSeconds(report.plain_prefill_ms / 1e3) + "; the first token here took " +
          FormatFixed(100 * ShareOfCold(report, stats), 1) + " % of that";
  return text;
}

}  // namespace attndb::cli
