// POST /v1/responses, and GET and DELETE of /v1/responses/ID: OpenAI's Responses.
//
// A response is the context that its turn is stored as, and what that says (response_record.h) is
// the context's note: it lives as long, and is its tenant's alone.
#ifndef ATTNDB_SERVER_ROUTES_RESPONSES_H_
#define ATTNDB_SERVER_ROUTES_RESPONSES_H_

#include <string>

#include "server/service.h"

namespace attndb::server {

// Answers later, on other threads.
void AnswerResponses(Service* service, Call call);
// `rest`: the path behind /v1/responses/: an id, or an id and "/input_items".
void AnswerResponse(Service* service, Call call, const std::string& rest);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_RESPONSES_H_
