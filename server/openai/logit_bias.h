// The field logit_bias of a request for text, in the forms of OpenAI and of llama.cpp's server:
//   {"15043": -100, "Hello": 5}            an id, or a text that stands for each of its tokens
//   [[15043, -100], ["Hello", 5], [2, false]]
// A bias of false forbids the token.
//
// Errors:  kInvalidArgument with the entry, what was expected and what was found.
// Threads: stateless.
#ifndef ATTNDB_SERVER_OPENAI_LOGIT_BIAS_H_
#define ATTNDB_SERVER_OPENAI_LOGIT_BIAS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "server/json.h"

namespace attndb::server {

inline constexpr double kMaxLogitBias = 1e6;  // On either side of 0.
inline constexpr size_t kMaxBiasEntries = size_t{1} << 18;
inline constexpr size_t kMaxBiasTexts = 1024;
inline constexpr size_t kMaxBiasTextBytes = 256;  // Each.
// Entries of the form of an object, whose members are sought one by one. A list may have more.
inline constexpr WideField kBiasField = {.name = "logit_bias", .members = 4096};

struct BiasEntry {
  std::string text;  // Empty: the entry names `token`.
  TokenId token = 0;
  float bias = 0;  // Minus infinity: forbidden.
};

// The entries of `body` in their order; none where it has no such field.
Result<std::vector<BiasEntry>> ReadLogitBias(const Json& body);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_OPENAI_LOGIT_BIAS_H_
