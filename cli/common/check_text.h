// What `ask --check` says about an answer that plain llama.cpp was asked to judge.
//
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_CHECK_TEXT_H_
#define ATTNDB_CLI_COMMON_CHECK_TEXT_H_

#include <cstdint>
#include <string>

#include "cli/common/answer.h"
#include "cli/common/prefill_cost.h"
#include "cli/environment.h"
#include "engines/llama/llama_engine.h"

namespace attndb::cli {

// Said before the answer: what the check of a prompt of so many tokens will run, and how long.
// `cost`: of the engine's own prefill.
std::string CheckNotice(uint64_t num_tokens, const PrefillCost& cost);

// Equal, or different only where plain llama.cpp's own choice of kernels could decide either way.
bool WithinSpread(const llama::CheckReport& report);

Json ToJson(const llama::CheckReport& report, const AnswerStats& stats);
// In words. `plan`: by which the answer was given.
std::string CheckText(const llama::LlamaEngine& engine, const llama::CheckReport& report,
                      const AnswerStats& stats, const std::string& plan);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_CHECK_TEXT_H_
