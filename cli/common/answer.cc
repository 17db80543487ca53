#include "cli/common/answer.h"

#include <cstdio>
#include <string_view>
#include <utility>

#include "cli/common/interrupt.h"
#include "cli/common/overflow_flags.h"
#include "cli/common/progress.h"
#include "cli/common/units.h"

namespace attndb::cli {

Result<Answer> Generate(Environment* env, llama::LlamaEngine* engine, Session* session,
                        std::span<const TokenId> rest, llama::GenerateOptions options,
                        double lookup_ms) {
  const uint64_t num_before = session->num_tokens();
  ProgressLine progress(
      {.label = "prompt", .unit = "tokens", .enabled = env->show_progress() && rest.size() > 512});
  options.prefill.progress = [&](const llama::PrefillProgress& p) {
    progress.Update(p.tokens_done, p.tokens_total);
    return !Interrupted();
  };
  options.on_piece = [&](std::string_view piece) {
    progress.Clear();
    env->Print(piece);
    if (!env->json()) std::fflush(stdout);
    return !Interrupted();
  };
  Answer answer;
  ATTNDB_ASSIGN_OR_RETURN(answer.generation, engine->Generate(*session, rest, options));
  progress.Clear();
  if (answer.generation.text.empty() || answer.generation.text.back() != '\n') env->Print("\n");
  std::fflush(stdout);  // Later notes go to stderr, which may be the same file.
  const llama::Generation& generation = answer.generation;
  answer.stats.reused_tokens = num_before;
  answer.stats.new_tokens = rest.size();
  answer.stats.generated_tokens = generation.tokens.size();
  answer.stats.first_token_ms = lookup_ms + generation.first_token_ms;
  if (generation.second_token_ms > 0) {
    answer.stats.second_token_ms = lookup_ms + generation.second_token_ms;
  }
  if (generation.decode_ms_per_token > 0) {
    answer.stats.tokens_per_second = 1e3 / generation.decode_ms_per_token;
  }
  return answer;
}

void NoteDropped(Environment* env, const llama::WindowOptions& window, const Session& session,
                 size_t num_cuts, AnswerStats* stats) {
  stats->dropped = DroppedSince(session, num_cuts);
  if (stats->dropped.empty()) return;
  env->Note(DroppedText(window, stats->dropped, llama::TokensInFront(session)));
}

Json ToJson(const AnswerStats& stats) {
  return JsonObject({{"reused_tokens", stats.reused_tokens},
                     {"new_tokens", stats.new_tokens},
                     {"generated_tokens", stats.generated_tokens},
                     {"first_token_ms", stats.first_token_ms},
                     {"second_token_ms", stats.second_token_ms},
                     {"tokens_per_second", stats.tokens_per_second},
                     {"dropped", ToJson(stats.dropped)}});
}

std::string ToText(const AnswerStats& stats) {
  std::string text = "reused " + Counted(stats.reused_tokens, "token") + ", ran " +
                     FormatCount(stats.new_tokens) + " new; first token after " +
                     FormatSeconds(stats.first_token_ms / 1e3);
  if (stats.second_token_ms > 0) {
    text += ", second after " + FormatSeconds(stats.second_token_ms / 1e3);
  }
  text += "; " + Counted(stats.generated_tokens, "token");
  if (stats.tokens_per_second > 0) {
    text += " at " + FormatFixed(stats.tokens_per_second, 1) + " tokens/s";
  }
  return text;
}

}  // namespace attndb::cli
