#include "engines/llama/chat/schema_grammar.h"

#include <llama-common/json-schema-to-grammar.h>

#include <algorithm>
#include <exception>

namespace attndb::llama {

Result<std::string> GrammarOfSchema(const std::string& schema) {
  try {
    return json_schema_to_grammar(common_json::parse(schema));
  } catch (const std::exception& error) {
    std::string words = error.what();
    std::ranges::replace(words, '\n', ' ');
    return Status::InvalidArgument(words);
  }
}

}  // namespace attndb::llama
