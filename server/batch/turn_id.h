// The id of a turn, under which it is stored: "turn-", a digest of the messages that it answers,
// and what tells it from other answers to the same. So the store itself knows which turns a
// conversation has had, whoever asks, and after a restart.
//
// Threads: stateless.
// Errors:  kInternal (OpenSSL).
#ifndef ATTNDB_SERVER_BATCH_TURN_ID_H_
#define ATTNDB_SERVER_BATCH_TURN_ID_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/llama_engine.h"

namespace attndb::server {

// Element i: a digest of messages [0, i]. 24 hexadecimal digits. Of a message count its role, its
// content, and of tool calls the names and the bytes of the arguments. Clients may change all else
// when they send a message back: ids, reasoning, whether an empty content is null.
// Errors: also kInvalidArgument (tool calls of another form than OpenAI's).
Result<std::vector<std::string>> DigestsOf(std::span<const llama::ChatMessage> messages);

// A digest of the ids of tokens: what a context holds, whatever it is called.
Result<std::string> DigestOf(std::span<const TokenId> tokens);

// An id that no other turn has. `digest`: of the messages that it answers; empty: of bare text.
std::string NewTurnId(const std::string& digest);

// Whether a context has such an id for its name: no client chose it.
bool IsTurnId(std::string_view name);

// The digest in an id; none: it is no turn's, or one of bare text.
std::optional<std::string> DigestIn(std::string_view id);

// Bits that nobody can foretell.
uint64_t RandomBits();

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_TURN_ID_H_
