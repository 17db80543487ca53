// The title of a turn: what a person looks for among conversations.
//
// Threads: pure functions.
#ifndef ATTNDB_SERVER_BATCH_TURN_TITLE_H_
#define ATTNDB_SERVER_BATCH_TURN_TITLE_H_

#include <span>
#include <string>
#include <string_view>

#include "engines/llama/llama_engine.h"

namespace attndb::server {

// The first words of the first message of a user that has any, so that all turns of a conversation
// have one title. Without messages, those of `prompt`. "": nothing in it can be seen.
std::string TitleOfTurn(std::span<const llama::ChatMessage> messages, std::string_view prompt);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_TURN_TITLE_H_
