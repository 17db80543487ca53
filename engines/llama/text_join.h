// Token ids of texts that follow each other: they are those of the whole text, tokenized at once.
//
// A run is the text between two control tokens. Each run is tokenized as one text, whoever wrote
// its parts, as llama.cpp does with a whole prompt. So no part gets a space of its own in front,
// and tokens may go across the end of a part.
//
// Stored tokens: the text behind them belongs to their last run, and the end of this run is
// tokenized again, from the last place at which a text may be cut (text_cuts.h). Tokens that come
// out equal stay, usually all. If the tokenizer would not make the stored tokens of their text,
// because a model wrote them, all of them stay, and only the ids of the new text are taken.
//
// Errors:  as Tokenizer's.
// Threads: stateless.
#ifndef ATTNDB_ENGINES_LLAMA_TEXT_JOIN_H_
#define ATTNDB_ENGINES_LLAMA_TEXT_JOIN_H_

#include <span>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/tokenizer.h"

namespace attndb::llama {

// LlamaEngine::Join.
Result<JoinedText> JoinText(const Tokenizer& tokenizer, std::span<const TokenId> before,
                            std::span<const PromptPart> parts, const JoinOptions& options);

// LlamaEngine::TokenizedAtOnce.
Result<std::vector<TokenId>> TokenizedAtOnce(const Tokenizer& tokenizer,
                                             std::span<const TokenId> tokens,
                                             const TokenizeLimits& limits);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_TEXT_JOIN_H_
