// The prompt of POST /infill, in the layout of llama.cpp's server: that of repositories in
// Qwen2.5-Coder (arXiv:2409.12186), which models without tokens for files get with a line between
// the texts.
//
//   [repository] "myproject\n"  per file: [file] "NAME\n" TEXT  [file] "filename\n"
//   [begin of text]  [prefix] PREFIX PROMPT  [suffix] SUFFIX  [middle]
//
// Errors:  kUnsupported (the model has no tokens for it: named); as LlamaEngine::Tokenize.
// Threads: stateless.
#ifndef ATTNDB_SERVER_LLAMA_INFILL_PROMPT_H_
#define ATTNDB_SERVER_LLAMA_INFILL_PROMPT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/llama_engine.h"
#include "server/llama/completion_request.h"

namespace attndb::server {

// How much of the texts is taken. The prefix loses its beginning, the suffix its end, and the other
// files those in front.
struct InfillLimits {
  // Prefix and suffix share these tokens, three to one.
  uint64_t near_tokens = 2048;  // llama.cpp's server has as many: its default batch.
  uint64_t file_tokens = UINT64_MAX;
};

// Tokens of an infill's texts.
struct InfillTexts {
  struct File {
    std::vector<TokenId> name;  // With the end of its line.
    std::vector<TokenId> text;
  };
  std::vector<TokenId> repository;  // Likewise.
  std::vector<File> files;
  std::vector<TokenId> own_name;   // The name of the file that is filled in.
  std::vector<TokenId> separator;  // In front of each file, where there is no token for files.
  std::vector<TokenId> prefix, suffix, prompt;
};

// Pure part, for tests. `begin`: the token that a text begins with; nullopt: none.
// REQUIRES: prefix, suffix and middle of `fim`.
std::vector<TokenId> InfillTokens(const llama::FimTokens& fim, std::optional<TokenId> begin,
                                  const InfillTexts& texts, const InfillLimits& limits);

// Errors: kUnsupported: the model lacks one of the tokens.
Status CheckFillsIn(const llama::FimTokens& fim);

Result<std::vector<TokenId>> InfillPrompt(const llama::LlamaEngine& engine,
                                          const InfillRequest& request, const InfillLimits& limits,
                                          const llama::TokenizeLimits& tokenize);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_LLAMA_INFILL_PROMPT_H_
