// One answer of a server's model, streamed as it comes, and its figures.
//
// Units:   milliseconds, as the client sees them: the way to the server and its queue are in them.
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_CLIENT_SERVER_ANSWER_H_
#define ATTNDB_CLI_CLIENT_SERVER_ANSWER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "cli/client/server_client.h"
#include "cli/common/answer.h"
#include "cli/environment.h"

namespace attndb::cli {

struct ServerAnswer {
  std::string text;
  std::string finish;  // "end", "length", ...: as `ask` has it.
  AnswerStats stats;   // Without the ranges that were dropped: a server tells their number only.
  uint64_t num_dropped = 0;        // Tokens of prompt and reply that have left the window.
  bool interrupted = false;        // The text is the part that came until then.
  std::vector<std::string> found;  // The contexts that the server found for the question.
};

// Asks `body`, a request of OpenAI's for a chat, and writes pieces to stdout unless --json. The
// line is ended. Errors: as ServerClient::Stream; kCancelled when interrupted before the first
// piece.
Result<ServerAnswer> StreamAnswer(Environment* env, const ServerClient& client, Json body);

// Like ToJson of AnswerStats, with the number of dropped tokens.
Json ToJson(const ServerAnswer& answer);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_CLIENT_SERVER_ANSWER_H_
