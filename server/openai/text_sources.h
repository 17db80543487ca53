// Sources of a request for text that are more than one context: several contexts, some tokens of a
// context, or the contexts that are found for the question. `attndb ask` has the same ones.
//
// Errors:  kInvalidArgument with the field, what was expected and what was found.
// Threads: stateless.
#ifndef ATTNDB_SERVER_OPENAI_TEXT_SOURCES_H_
#define ATTNDB_SERVER_OPENAI_TEXT_SOURCES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "server/json.h"

namespace attndb::server {

struct TextSources {
  std::vector<std::string> contexts;  // "contexts": two or more, asked together. Empty: none.
  std::vector<TokenRange> tokens;     // "tokens": of the one context; empty: all.
  uint32_t find = 0;  // "find": the number of contexts to find for the question; 0: none.
  std::vector<std::string> found;  // The contexts that were found then, best first.

  bool empty() const { return contexts.empty() && tokens.empty() && find == 0; }
};

// `context`: the request's own one. A list of one context becomes `context`.
Result<TextSources> ReadTextSources(const Json& body, std::string* context);

// Whether the sources go with the request's context, which its header may have named, and with the
// name that its turn is to be stored under.
Status CheckTextSources(const TextSources& sources, const std::string& context,
                        const std::string& store_as);

// "contexts": a list of 1 to DB::kMaxSessionContexts names, each once. An absent or null field
// leaves *contexts as it is.
Status ReadContexts(const Json& body, std::vector<std::string>* contexts);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_OPENAI_TEXT_SOURCES_H_
