// A request for embeddings, as POST /v1/embeddings takes it.
//
// Known fields are checked; unknown ones are ignored. `input` is a text, ids of tokens, or a list
// of either; lists that mix them are refused.
//
// Errors:  kInvalidArgument with the field, what was expected and what was found.
// Threads: stateless.
#ifndef ATTNDB_SERVER_OPENAI_EMBEDDING_REQUEST_H_
#define ATTNDB_SERVER_OPENAI_EMBEDDING_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "server/json.h"

namespace attndb::server {

inline constexpr size_t kMaxEmbeddingInputs = 2048;  // As OpenAI has it.

struct EmbeddingRequest {
  // One of them has an entry for each input, none of which is empty; the other has none.
  std::vector<std::string> texts;
  std::vector<std::vector<TokenId>> tokens;  // Ids from 0 on, of any vocabulary.
  bool base64 = false;                       // "encoding_format".
  uint64_t dimensions = 0;                   // 0: it does not say.
};

Result<EmbeddingRequest> ParseEmbedding(const Json& body);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_OPENAI_EMBEDDING_REQUEST_H_
