// The place at which a prompt says something else than the stored turn that it goes on from.
//
//   MESSAGE    index of the message, as the request has it
//   CHARACTER  offset in the content of this message, in whole characters of UTF-8
//
// A place in the template's own words is the first character of the message behind them.
//
// Threads: stateless.
// Errors:  as LlamaEngine::Detokenize.
#ifndef ATTNDB_SERVER_BATCH_PARTING_H_
#define ATTNDB_SERVER_BATCH_PARTING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/llama_engine.h"

namespace attndb::server {

inline constexpr size_t kMaxPartedBytes = 64;

struct Parted {
  size_t message = 0;
  uint64_t character = 0;
  // The next bytes of both texts, kMaxPartedBytes at most, by Escaped. They are for the tenant
  // alone that owns them.
  std::string asked;
  std::string stored;
};

// "MESSAGE:CHARACTER".
std::string PlaceText(const Parted& parted);

// ASCII that is visible, or a space. Other bytes, quotes and backslashes are escaped as in C.
std::string Escaped(std::string_view bytes);

// Returns the place in a chat. `rendered`: its prompt; the messages in it are `messages`. `stored`:
// the tokens of the turn. nullopt: the prompt does not show where the messages are.
Result<std::optional<Parted>> PartedAt(const llama::LlamaEngine& engine,
                                       const llama::PromptParting& place,
                                       const llama::RenderedPrompt& rendered,
                                       std::span<const llama::ChatMessage> messages,
                                       std::span<const TokenId> stored);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_PARTING_H_
