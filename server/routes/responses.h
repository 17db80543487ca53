// POST /v1/responses, and GET and DELETE of /v1/responses/ID: OpenAI's Responses.
//
// A response is the context that its turn is stored as, and what that says (response_record.h) is
// the context's note: it lives as long, and is its tenant's alone.
#ifndef ATTNDB_SERVER_ROUTES_RESPONSES_H_
#define ATTNDB_SERVER_ROUTES_RESPONSES_H_

#include <string>

#include "attndb/result.h"
#include "server/responses/items.h"
#include "server/service.h"

namespace attndb::server {

// Answers later, on other threads.
void AnswerResponses(Service* service, Call call);
// The messages of the response that is stored as this context, and its reply.
// Errors: kNotFound: it is none of the tenant's responses.
Result<ChatMessages> ConversationOf(const Service& service, const std::string& tenant,
                                    const std::string& context);
// The same for a response's id.
Result<ChatMessages> ConversationOfResponse(const Service& service, const std::string& tenant,
                                            const std::string& id);
// `rest`: the path behind /v1/responses/: an id, or an id and "/input_items".
void AnswerResponse(Service* service, Call call, const std::string& rest);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_RESPONSES_H_
