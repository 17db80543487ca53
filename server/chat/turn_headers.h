// The headers with which a turn is answered, in all interfaces.
#ifndef ATTNDB_SERVER_CHAT_TURN_HEADERS_H_
#define ATTNDB_SERVER_CHAT_TURN_HEADERS_H_

#include <cstdint>

#include "server/batch/turn.h"
#include "server/http/exchange.h"

namespace attndb::server {

// Names the context that a turn is stored as; of a request, one that it asks.
inline constexpr const char* kContextHeader = "X-Attndb-Context";
// Tokens that are no longer attended to; absent if none. A stream's are those of the prompt: its
// usage has all of them.
inline constexpr const char* kDroppedHeader = "X-Attndb-Dropped";
// Stored tokens that the prompt leaves out, while the tokens behind them stay (batch/edits.h);
// absent if there are none.
inline constexpr const char* kCutHeader = "X-Attndb-Cut";
// "MESSAGE:CHARACTER" at which a chat parts from the stored turn that it follows (batch/parting.h);
// absent if nowhere.
inline constexpr const char* kPartedHeader = "X-Attndb-Parted";
// The contexts that were found for the question ("find"), "#7,#2", best first; absent if none.
inline constexpr const char* kFoundHeader = "X-Attndb-Found";

Headers TurnHeaders(const TurnStart& start, uint64_t num_dropped_tokens);

// The head of a stream of server-sent events, which no proxy keeps back.
Response StreamHead(Headers headers);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_CHAT_TURN_HEADERS_H_
