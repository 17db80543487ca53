// The biases of single tokens that a request's logit_bias asks for.
//
// Threads: stateless; they only read the engine.
#ifndef ATTNDB_SERVER_OPENAI_TOKEN_BIAS_H_
#define ATTNDB_SERVER_OPENAI_TOKEN_BIAS_H_

#include <span>
#include <vector>

#include "attndb/result.h"
#include "engines/llama/llama_engine.h"
#include "server/openai/logit_bias.h"

namespace attndb::server {

// Returns one bias for an id, and one for each token of a text, which is tokenized without the
// model's begin of text.
// Errors: kInvalidArgument: an id that is not in the vocabulary; no token is left to choose;
//         kUnsupported (a text, and the model has no tokenizer).
Result<std::vector<llama::TokenBias>> TokenBiases(const llama::LlamaEngine& engine,
                                                  std::span<const BiasEntry> entries);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_OPENAI_TOKEN_BIAS_H_
