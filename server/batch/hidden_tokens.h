// Control tokens inside replies, which no client sees: a model may sample them, above all where its
// end-of-generation token is ignored.
//
// A client sends the words of a reply back without them. The prompt has to show them for the tokens
// of the reply to stay.
//
// Errors:  as LlamaEngine::Detokenize.
// Threads: stateless.
#ifndef ATTNDB_SERVER_BATCH_HIDDEN_TOKENS_H_
#define ATTNDB_SERVER_BATCH_HIDDEN_TOKENS_H_

#include <cstddef>
#include <span>

#include "attndb/result.h"
#include "engines/llama/llama_engine.h"
#include "server/batch/kept_text.h"

namespace attndb::server {

// Returns a chat's prompt with the control tokens that the turn has between the words of its
// replies. `reply`: index of the message that is the turn's last reply. A token behind all words of
// a reply is left out, because the template ends a reply itself.
Result<llama::RenderedPrompt> WithHiddenTokens(const llama::LlamaEngine& engine,
                                               const llama::RenderedPrompt& prompt,
                                               std::span<const llama::ChatMessage> messages,
                                               size_t reply, const KeptText& turn);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_HIDDEN_TOKENS_H_
