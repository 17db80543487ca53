// The grammar of a JSON schema, by llama.cpp's `common`.
//
// Errors:  kInvalidArgument: what llama.cpp can't compile, in its words, with the place as a JSON
//          pointer ("#/properties/age").
// Threads: stateless.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_SCHEMA_GRAMMAR_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_SCHEMA_GRAMMAR_H_

#include <string>

#include "attndb/result.h"

namespace attndb::llama {

// Returns GBNF.
Result<std::string> GrammarOfSchema(const std::string& schema);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_SCHEMA_GRAMMAR_H_
