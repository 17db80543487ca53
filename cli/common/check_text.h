// The text of `ask --check` about an answer that plain llama.cpp has judged.
//
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_CHECK_TEXT_H_
#define ATTNDB_CLI_COMMON_CHECK_TEXT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "attndb/result.h"
#include "attndb/types.h"
#include "cli/common/answer.h"
#include "cli/common/prefill_cost.h"
#include "cli/environment.h"
#include "engines/llama/llama_engine.h"

namespace attndb::cli {

// The notice before the answer: what the check of a prompt of num_tokens tokens will run, and how
// long. `cost`: of the engine's own prefill.
std::string CheckNotice(uint64_t num_tokens, const PrefillCost& cost);

// Whether the answers are equal, or differ only where plain llama.cpp's own kernels could decide
// either way.
bool WithinSpread(const llama::CheckReport& report);

struct AnswerCheck {
  llama::CheckReport report;
  // The first id of the prompt that is not the one of the whole text, tokenized at once.
  std::optional<uint64_t> first_other_id;
};

// Has plain llama.cpp run the whole text of `prompt`, tokenized at once: the ids that were stored
// are checked, too. Errors: as LlamaEngine::CheckAgainstPlain; kCancelled (a signal).
Result<AnswerCheck> CheckAnswer(Environment* env, const llama::LlamaEngine& engine,
                                std::span<const TokenId> prompt, std::span<const TokenId> answer);

Json ToJson(const AnswerCheck& check, const AnswerStats& stats);
// In words. `plan`: by which the answer was given.
std::string CheckText(const llama::LlamaEngine& engine, const AnswerCheck& check,
                      const AnswerStats& stats, const std::string& plan);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_CHECK_TEXT_H_
