// /attndb/v1/contexts[/ID]: list, describe, delete, pin; and /attndb/v1/text, what one holds.
// docs/serving.md describes them.
#ifndef ATTNDB_SERVER_ROUTES_CONTEXTS_H_
#define ATTNDB_SERVER_ROUTES_CONTEXTS_H_

#include <string>

#include "server/service.h"

namespace attndb::server {

// GET: {"contexts": [...]}, as `attndb ls --json`.
void AnswerContexts(Service* service, Call call);
// GET: {"id", "durable", ...}, and once it is durable what `attndb describe --json` says.
// DELETE: removes it. POST {"pinned": BOOL, "ttl_seconds": N or null, "name": TEXT}: changes it.
void AnswerContext(Service* service, Call call, const std::string& id);

// {"context": NAME, "special": false} -> {"context", "num_tokens", "text"}, as `attndb cat`.
void AnswerStoredText(Service* service, Call call);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_CONTEXTS_H_
