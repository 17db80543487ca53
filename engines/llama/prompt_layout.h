// What a stored context is to a chat template, and the ids that ask something of it.
//
// A context holds ids only. Control tokens stand in them only where the template put them (content
// is never parsed for them), so the ids themselves say what they are:
//   raw        does not begin as the template begins: plain text, or a model without template;
//   document   begins so and has no assistant's header yet: the user's message is open;
//   dialogue   has an assistant's header: it ends inside or after a reply.
//
// Errors:  as the engine's Tokenize.
// Threads: stateless.
#ifndef ATTNDB_ENGINES_LLAMA_PROMPT_LAYOUT_H_
#define ATTNDB_ENGINES_LLAMA_PROMPT_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/llama_engine.h"

namespace attndb::llama {

enum class PromptLayout : uint8_t { kRaw, kDocument, kDialogue };
std::string_view PromptLayoutName(PromptLayout layout);

Result<PromptLayout> LayoutOf(const LlamaEngine& engine, std::span<const TokenId> tokens);

// The tokens of a system message in front of a context, the headers around it included, up to where
// the user's message begins: 0 if there is none.
Result<uint64_t> SystemTokens(const LlamaEngine& engine, std::span<const TokenId> tokens);

// The ids to append to a context of that layout so that the model answers `question`.
Result<std::vector<TokenId>> QuestionTokens(const LlamaEngine& engine, PromptLayout layout,
                                            std::string_view question);

// The ids that `document` is stored as.
Result<std::vector<TokenId>> DocumentTokens(const LlamaEngine& engine, bool raw,
                                            std::string_view system, std::string_view document,
                                            const TokenizeLimits& limits = {});

// Pure parts, for tests. Number of ids at the start, or at the end, in which `a` and `b` agree.
size_t CommonPrefix(std::span<const TokenId> a, std::span<const TokenId> b);
size_t CommonSuffix(std::span<const TokenId> a, std::span<const TokenId> b);
bool Contains(std::span<const TokenId> tokens, std::span<const TokenId> part);
// Where the first `part` in `tokens` ends; nullopt if there is none.
std::optional<size_t> EndOfFirst(std::span<const TokenId> tokens, std::span<const TokenId> part);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_PROMPT_LAYOUT_H_
