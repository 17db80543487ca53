// Texts of stored contexts: what `attndb cat` prints, what `attndb append` stores behind one, and
// what `attndb import` stores where it finds an earlier import of the text.
//
// Errors:  kNotFound (the context); kOtherModel; kCorruption; as the engine's Tokenize and
//          Detokenize.
// Threads: stateless.
#ifndef ATTNDB_ENGINES_LLAMA_STORED_TEXT_H_
#define ATTNDB_ENGINES_LLAMA_STORED_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "attndb/db.h"
#include "attndb/result.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/prompt_layout.h"

namespace attndb::llama {

struct StoredText {
  uint64_t num_tokens = 0;  // In the whole context.
  std::string text;
};

// Returns the text of a context without the pieces that left it (PiecesOf in window.h).
// `render_special`: the text also has the control tokens that the chat template set.
Result<StoredText> TextOf(const LlamaEngine& engine, const DB& db, const std::string& context,
                          bool render_special);

// Returns the ids of a context with `text` behind all that it holds. They are those of the whole
// text, so the last ids of the context may change. A byte order mark in front of `text` is dropped.
// Errors: also kFailedPrecondition (it has lost tokens, so that the text would not see all of it;
//         or it is a dialogue).
Result<PromptText> AppendedText(const LlamaEngine& engine, const DB& db, const std::string& context,
                                std::string_view text, const TokenizeLimits& limits);

// A document that is to be imported under a name.
struct ImportedDocument {
  std::string name;
  bool raw = false;
  std::string_view system;
  std::string_view text;
};

// Returns DocumentText, with the time of an earlier import if this import goes on from its words:
// of the context with the name, or of one without a name, which an interrupted import left. With a
// template that shows no time nothing is looked up.
Result<PromptText> ImportedText(const LlamaEngine& engine, const DB& db,
                                const ImportedDocument& document, const TokenizeLimits& limits);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_STORED_TEXT_H_
