// Rendered prompts of stored tokens and of parts: LlamaEngine::RenderTokens and RenderParts.
//
// Errors:  as Tokenizer's.
// Threads: stateless.
#ifndef ATTNDB_ENGINES_LLAMA_RENDERED_PROMPT_H_
#define ATTNDB_ENGINES_LLAMA_RENDERED_PROMPT_H_

#include <span>

#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/chat_prompt.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/tokenizer.h"

namespace attndb::llama {

// Each run of tokens between control tokens is a text that keeps its spaces. The begin-of-text
// token that the model sets in front of a text is no item.
Result<RenderedPrompt> RenderedTokens(const Tokenizer& tokenizer, std::span<const TokenId> tokens);

// The contents of all parts are messages.
Result<RenderedPrompt> RenderedParts(const Tokenizer& tokenizer, std::span<const PromptPart> parts);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_RENDERED_PROMPT_H_
