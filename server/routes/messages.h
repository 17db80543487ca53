// POST /v1/messages and /v1/messages/count_tokens: Anthropic's interface.
#ifndef ATTNDB_SERVER_ROUTES_MESSAGES_H_
#define ATTNDB_SERVER_ROUTES_MESSAGES_H_

#include "server/service.h"

namespace attndb::server {

// Answers later, on other threads.
void AnswerMessages(Service* service, Call call);
// Counts the tokens of the prompt and runs none of them.
void AnswerCountTokens(Service* service, Call call);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_MESSAGES_H_
