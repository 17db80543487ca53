// POST /v1/chat/completions and /v1/completions.
#ifndef ATTNDB_SERVER_ROUTES_TEXT_H_
#define ATTNDB_SERVER_ROUTES_TEXT_H_

#include "server/service.h"

namespace attndb::server {

// Answers later, on other threads: Service::run_later, then the scheduler's.
void AnswerChat(Service* service, Call call);
void AnswerCompletion(Service* service, Call call);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_TEXT_H_
