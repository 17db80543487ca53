// The layout of a stored context under a chat template, and the ids that ask something of it.
//
//   raw        the text alone; or the model has no template that llama.cpp knows;
//   document   the user's message is open;
//   dialogue   the text ends inside or after a reply.
//
// A context is stored with its layout and with the places of its messages (TextLayout). Earlier
// versions stored no layout. The ids of their contexts are judged instead: a document begins as
// the template begins, and a dialogue has an assistant's header.
//
// Errors:  as the engine's Tokenize.
// Threads: stateless.
#ifndef ATTNDB_ENGINES_LLAMA_PROMPT_LAYOUT_H_
#define ATTNDB_ENGINES_LLAMA_PROMPT_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/db.h"
#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/llama_engine.h"

namespace attndb::llama {

enum class PromptLayout : uint8_t { kRaw, kDocument, kDialogue };
std::string_view PromptLayoutName(PromptLayout layout);

// A context to go on from.
struct StoredContext {
  std::vector<TokenId> tokens;
  TextLayout text;
  PromptLayout layout = PromptLayout::kRaw;
};

// Tokens to run or to store, and whose words they are.
struct PromptText {
  std::vector<TokenId> tokens;
  uint64_t num_kept = 0;  // The first tokens are the context's, up to here.
  TextLayout text;        // Unknown if the layout of the context is unknown.
};

Result<PromptLayout> LayoutOf(const LlamaEngine& engine, const TextLayout& text,
                              std::span<const TokenId> tokens);

// Returns a context without the pieces that left its text (PiecesOf in window.h): the model does
// not have them, so that nothing may go on from them. Errors: also those of DB::Describe.
Result<StoredContext> OpenContext(const LlamaEngine& engine, const DB& db,
                                  const std::string& context);
// Returns all tokens of the context, these pieces included: a session that holds the stored context
// with its cuts. Errors: as OpenContext.
Result<StoredContext> OpenWholeContext(const LlamaEngine& engine, const DB& db,
                                       const std::string& context);

// The tokens of a system message in front of a context, the headers around it included, up to where
// the user's message begins: 0 if there is none.
Result<uint64_t> SystemTokens(const LlamaEngine& engine, const TextLayout& text,
                              std::span<const TokenId> tokens);

// Returns the ids of a context and of `question` behind it, so that the model answers. With
// `keeps_before` all ids of the context stay. The template shows the time of the context.
Result<PromptText> QuestionBehind(const LlamaEngine& engine, const StoredContext& context,
                                  std::string_view question, bool keeps_before = false,
                                  const TokenizeLimits& limits = {});

// Returns the text that `document` is stored as, without a byte order mark in front. `raw` leaves
// the template out: the system message is then a line before the document. `now`: the time that the
// template shows; 0: the engine's ChatTime. It is noted in the text's layout.
Result<PromptText> DocumentText(const LlamaEngine& engine, bool raw, std::string_view system,
                                std::string_view document, const TokenizeLimits& limits = {},
                                int64_t now = 0);

// Returns the layout of `joined`: the messages of `before`, whose tokens stand in front, and then
// the parts of `joined`, which have these roles.
TextLayout Continued(TextLayout before, const JoinedText& joined, std::span<const TextRole> roles);
// Notes a reply of these tokens behind a text's messages. An open document becomes a dialogue.
void AddReply(TokenRange reply, TextLayout* text);
// The text of the first `num_tokens` alone.
TextLayout FirstOf(TextLayout text, uint64_t num_tokens);

// Returns the tokens outside of the ranges, which are in order.
std::vector<TokenId> Without(std::span<const TokenId> tokens, std::span<const TokenRange> left_out);
// Takes these ranges, which are in order, out of a text and its tokens. A message that has no other
// token is gone, too. No piece has left the text then: TextLayout::left_out is empty.
void TakeOut(std::span<const TokenRange> left_out, std::vector<TokenId>* tokens, TextLayout* text);

// Whether `tokens` begin with the text of `beginning`. The last tokens of `beginning` may be others
// there, because a text follows them. Errors: as LlamaEngine::Detokenize.
Result<bool> BeginsWithText(const LlamaEngine& engine, std::span<const TokenId> tokens,
                            std::span<const TokenId> beginning);

// Pure parts, for tests. Number of ids at the start, or at the end, in which `a` and `b` agree.
size_t CommonPrefix(std::span<const TokenId> a, std::span<const TokenId> b);
size_t CommonSuffix(std::span<const TokenId> a, std::span<const TokenId> b);
bool Contains(std::span<const TokenId> tokens, std::span<const TokenId> part);
// Where the first `part` in `tokens` ends; nullopt if there is none.
std::optional<size_t> EndOfFirst(std::span<const TokenId> tokens, std::span<const TokenId> part);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_PROMPT_LAYOUT_H_
