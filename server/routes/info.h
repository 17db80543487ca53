// What the server says of itself: /health, /ready, /v1/models, /metrics, and /tokenize.
#ifndef ATTNDB_SERVER_ROUTES_INFO_H_
#define ATTNDB_SERVER_ROUTES_INFO_H_

#include <string>

#include "server/service.h"

namespace attndb::server {

// Liveness: 200 as long as the process serves at all, while it stops, too.
void AnswerHealth(Service* service, Call call);
// Readiness, for whoever decides where requests go: 503 before pinned prompts are read, and while
// the server stops.
void AnswerReady(Service* service, Call call);
void AnswerModels(Service* service, Call call);
// The one model by its id; 404 for any other id.
void AnswerModel(Service* service, Call call, const std::string& id);
void AnswerMetrics(Service* service, Call call);
// {"content": TEXT, "add_special": false, "parse_special": false} -> {"tokens": [...]}
void AnswerTokenize(Service* service, Call call);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_INFO_H_
