#include "server/openai/token_bias.h"

#include "engines/llama/sampler.h"

namespace attndb::server {

Result<std::vector<llama::TokenBias>> TokenBiases(const llama::LlamaEngine& engine,
                                                  std::span<const BiasEntry> entries) {
  std::vector<llama::TokenBias> biases;
  biases.reserve(entries.size());
  for (const auto& [text, token, bias] : entries) {
    if (text.empty()) {
      biases.push_back({token, bias});
      continue;
    }
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, engine.Tokenize(text, false, false));
    for (const TokenId id : tokens) biases.push_back({id, bias});
  }
  ATTNDB_RETURN_IF_ERROR(llama::CheckLogitBias(biases, engine.info().vocab_size));
  return biases;
}

}  // namespace attndb::server
