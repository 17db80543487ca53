// One answer of the model on a session, streamed as it comes, and its figures.
//
// Threads: one thread at a time.
// Units:   milliseconds; the model's loading is in none of them.
#ifndef ATTNDB_CLI_COMMON_ANSWER_H_
#define ATTNDB_CLI_COMMON_ANSWER_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "attndb/session.h"
#include "attndb/types.h"
#include "cli/environment.h"
#include "engines/llama/llama_engine.h"

namespace attndb::cli {

struct AnswerStats {
  uint64_t reused_tokens = 0;  // Tokens found in a stored context, not run again.
  uint64_t new_tokens = 0;     // Tokens of the prompt that were run.
  uint64_t generated_tokens = 0;
  double first_token_ms = 0;   // From finding the context to the first token.
  double second_token_ms = 0;  // From finding the context to the second token; 0 if there is none.
  double tokens_per_second = 0;     // Rate after the first token; 0 if there is none.
  std::vector<TokenRange> dropped;  // Tokens that have left the session meanwhile.
};

struct Answer {
  llama::Generation generation;
  AnswerStats stats;
};

// Runs `rest` on `session` and generates, writing pieces to stdout unless --json. Ends the line.
// `lookup_ms`: the time of CreateSession.
// Errors: as LlamaEngine::Generate; kCancelled if interrupted before the first token.
Result<Answer> Generate(Environment* env, llama::LlamaEngine* engine, Session* session,
                        std::span<const TokenId> rest, llama::GenerateOptions options,
                        double lookup_ms);

// Reports on stderr the tokens dropped since the session had `num_cuts` cuts, and records them in
// `stats`.
void NoteDropped(Environment* env, const llama::WindowOptions& window, const Session& session,
                 size_t num_cuts, AnswerStats* stats);

Json ToJson(const AnswerStats& stats);
std::string ToText(const AnswerStats& stats);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_ANSWER_H_
