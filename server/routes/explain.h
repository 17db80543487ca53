// POST /attndb/v1/explain: how a request is, or was, attended to.
#ifndef ATTNDB_SERVER_ROUTES_EXPLAIN_H_
#define ATTNDB_SERVER_ROUTES_EXPLAIN_H_

#include "server/service.h"

namespace attndb::server {

// {"messages": [...], "context": NAME, "plan": PLAN, "token": 0, "top": 32} -> what each head
// weighed when token `token` of the reply was chosen, the `top` heaviest tokens of each: of the
// last message if it is a reply, else of the one to come. With it, under "explain", what `attndb
// explain --json` says, and under "reuse" whence the prompt's first tokens came. Without messages,
// of a context or of a text: explain_stored.h.
// Nothing is stored. Answers later, on other threads.
void AnswerExplain(Service* service, Call call);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_EXPLAIN_H_
