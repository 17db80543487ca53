// Whether a document is longer than its model's training length.
//
// Units:   tokens, including those of the prompt's template.
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_TRAINED_LENGTH_H_
#define ATTNDB_CLI_COMMON_TRAINED_LENGTH_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "attndb/result.h"
#include "cli/environment.h"
#include "engines/llama/llama_engine.h"

namespace attndb::cli {

// The name of the model in messages: its file, which the user knows.
std::string ModelNameOf(const llama::ModelInfo& info);

// Tokens of a text that are counted at most: no scaling reaches more. UINT64_MAX: the model file
// says nothing of lengths.
uint64_t MostCounted(const llama::ModelInfo& info);

// For texts that are tokenized for this model: no more tokens than MostCounted, a progress line for
// a text of several megabytes, and a signal ends it (interrupt.h) with kCancelled. `env` outlives
// the limits.
llama::TokenizeLimits TextLimits(Environment* env, const llama::ModelInfo& info);

// Errors: kInvalidArgument: `document` has more tokens than the model, stretched by `scaling`, was
//         trained on. The advice is the scaling that suffices, and --split if `can_split`.
Status CheckTrainedLength(Environment* env, const llama::ModelInfo& info,
                          const llama::RopeScaling& scaling, const std::string& document,
                          uint64_t num_tokens, bool can_split = false);

// Errors: kInvalidArgument: the question has more tokens than MostCounted; kCancelled after a
//         signal.
Status CheckQuestion(Environment* env, const llama::LlamaEngine& engine, std::string_view question);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_TRAINED_LENGTH_H_
