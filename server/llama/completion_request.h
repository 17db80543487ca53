// Requests of llama.cpp's server: POST /completion and POST /infill, in its own form.
//
// Fields of POST /v1/completions (text_request.h) mean the same here, but for the prompt and for
// n_predict: without it a reply goes on until the model or the window ends it.
//
// Errors:  kInvalidArgument with the field, what was expected and what was found.
// Threads: stateless.
#ifndef ATTNDB_SERVER_LLAMA_COMPLETION_REQUEST_H_
#define ATTNDB_SERVER_LLAMA_COMPLETION_REQUEST_H_

#include <string>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "server/json.h"
#include "server/openai/text_request.h"

namespace attndb::server {

inline constexpr size_t kMaxInfillFiles = 1024;

// A part of a prompt: a text, in which names of control tokens are these tokens, or ids.
struct LlamaPromptPart {
  std::string text;
  std::vector<TokenId> ids;  // Not empty: `text` is.
};

struct LlamaCompletion {
  TextRequest text;                     // Without a prompt.
  std::vector<LlamaPromptPart> prompt;  // One part at least.
};
Result<LlamaCompletion> ParseLlamaCompletion(const Json& body);

struct InfillFile {
  std::string name;
  std::string text;
};
struct InfillRequest {
  TextRequest text;  // Without a prompt.
  std::string prefix;
  std::string suffix;
  std::string prompt;             // Behind the prefix, before what is filled in.
  std::vector<InfillFile> files;  // "input_extra": other texts of the project.
};
Result<InfillRequest> ParseInfill(const Json& body);

// POST /detokenize. No token: an empty text.
Result<std::vector<TokenId>> ParseDetokenize(const Json& body);

// The id of the turn whose thinking POST /v1/chat/completions/control ends: that in the id of its
// answer.
Result<std::string> ParseChatControl(const Json& body);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_LLAMA_COMPLETION_REQUEST_H_
