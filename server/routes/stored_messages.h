// POST /attndb/v1/messages: the messages of a stored conversation, so that a person can open it.
// docs/serving.md describes it.
#ifndef ATTNDB_SERVER_ROUTES_STORED_MESSAGES_H_
#define ATTNDB_SERVER_ROUTES_STORED_MESSAGES_H_

#include "server/service.h"

namespace attndb::server {

// {"context": NAME} -> {"context", "num_tokens", "form", "messages": [{"role", "content", ...}]}.
// Answers once nothing is being stored under the name. This is no use of the context.
void AnswerStoredMessages(Service* service, Call call);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_STORED_MESSAGES_H_
