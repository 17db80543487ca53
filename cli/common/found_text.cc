#include "cli/common/found_text.h"

#include <cstddef>
#include <vector>

#include "cli/common/display_width.h"
#include "cli/common/progress.h"
#include "cli/common/units.h"

namespace attndb::cli {
namespace {

constexpr size_t kTextWidth = 96;

std::string RangeText(TokenRange tokens) {
  return FormatCount(tokens.begin) + "-" + FormatCount(tokens.end - 1);
}

}  // namespace

std::string OneLine(std::string_view text, size_t max_width) {
  std::string line;
  for (const char c : text) {
    const bool is_space = c == ' ' || (c >= '\t' && c <= '\r');
    const bool is_control = !is_space && static_cast<unsigned char>(c) < 0x20;
    if (is_control || c == 0x7f) continue;  // Nothing that a terminal would obey.
    if (!is_space) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  if (!line.empty() && line.back() == ' ') line.pop_back();
  return CutToWidth(line, max_width);
}

Json ToJson(const FindResult& found, std::span<const std::string> texts, const FindTimes& times) {
  Json passages = Json::array();
  for (size_t i = 0; i < found.passages.size(); ++i) {
    const Passage& passage = found.passages[i];
    passages.push_back(JsonObject({{"context", passage.context},
                                   {"first_token", passage.tokens.begin},
                                   {"num_tokens", passage.tokens.end - passage.tokens.begin},
                                   {"score", passage.score},
                                   {"text", texts[i]}}));
  }
  Json skipped = Json::array();
  for (const SkippedContext& context : found.skipped) {
    skipped.push_back(JsonObject({{"context", context.context}, {"reason", context.reason}}));
  }
  return JsonObject({{"passages", passages},
                     {"skipped", skipped},
                     {"num_contexts", found.num_contexts},
                     {"num_tokens", found.num_tokens},
                     {"num_passages", found.num_passages},
                     {"key_bytes", found.key_bytes},
                     {"question_ms", times.question_ms},
                     {"find_ms", times.find_ms}});
}

std::string FoundTable(const FindResult& found, std::span<const std::string> texts,
                       size_t max_width) {
  Table table({{"SCORE", Align::kRight},
               {.header = "CONTEXT", .min_width = 16},
               {"TOKENS", Align::kRight},
               {.header = "TEXT", .min_width = 30}});
  for (size_t i = 0; i < found.passages.size(); ++i) {
    const Passage& passage = found.passages[i];
    table.AddRow({FormatFixed(passage.score, 2), passage.context, RangeText(passage.tokens),
                  OneLine(texts[i], kTextWidth)});
  }
  return table.ToText(max_width);
}

void PrintFound(Environment* env, const FindResult& found, std::span<const std::string> texts,
                const FindTimes& times) {
  if (found.passages.empty()) {
    env->Print("No passage stands out from the others.\n");
  } else {
    env->Print(FoundTable(found, texts, StdoutWidth()));
  }
  env->Note(ToText(found, times));
}

std::string ToText(const FindResult& found, const FindTimes& times) {
  return "looked through " + Counted(found.num_tokens, "token") + " of " +
         Counted(found.num_contexts, "context") + " in " + FormatSeconds(times.find_ms / 1e3) +
         ", after " + FormatSeconds(times.question_ms / 1e3) + " for the question";
}

}  // namespace attndb::cli
