// System prompts that are read before the first request, and kept: every conversation that begins
// with one goes on from its tokens.
//
// Method:  each is a turn like others, stored under a name of its own as a pinned context. What is
//          there from an earlier start is not run again. One that is no longer asked for stays:
//          `attndb rm` removes it.
// Threads: stateless.
#ifndef ATTNDB_SERVER_BATCH_PINNED_PROMPTS_H_
#define ATTNDB_SERVER_BATCH_PINNED_PROMPTS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "engines/llama/llama_engine.h"
#include "server/batch/conversations.h"
#include "server/batch/turn.h"

namespace attndb::server {

// A system prompt, as conversations that begin with it have it.
struct PinnedPrompt {
  std::string name;  // "system-", and a digest of the text.
  std::vector<TokenId> tokens;
  TextLayout text;  // Whose words they are.
};

// Errors: kInvalidArgument (empty; longer than the model is meant for); kCancelled (by the engine's
//         keep_going); as DocumentText.
Result<PinnedPrompt> MakePinnedPrompt(const llama::LlamaEngine& engine, const std::string& text);

// The turn that reads the prompt for the tenant; null: it is there, and pinned. `on_end` is called
// once, when the turn has ended.
// Reads what of it is on disk. Errors: as DB::CreateSession, DB::Pin.
Result<std::shared_ptr<Turn>> TurnOf(const llama::LlamaEngine& engine, Conversations* conversations,
                                     const std::string& tenant, const PinnedPrompt& prompt,
                                     std::function<void(const Status&)> on_end);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_PINNED_PROMPTS_H_
