// Requests of POST /v1/messages and /v1/messages/count_tokens, as Anthropic's clients send them.
//
// Known fields are checked; unknown ones are ignored, and so are those that have no meaning here:
// metadata, service_tier, context_management. What can't be honoured is refused by name: tools that
// Anthropic's servers run, images and documents, a container.
//
// Errors:  kInvalidArgument with the place ("messages.0.content.1"), what was expected and what was
//          found.
// Threads: stateless.
#ifndef ATTNDB_SERVER_ANTHROPIC_MESSAGE_REQUEST_H_
#define ATTNDB_SERVER_ANTHROPIC_MESSAGE_REQUEST_H_

#include "attndb/result.h"
#include "server/json.h"
#include "server/openai/text_request.h"

namespace attndb::server {

Result<TextRequest> ParseMessages(const Json& body);

// A request to count the tokens of a prompt, which has no max_tokens.
Result<TextRequest> ParseTokenCount(const Json& body);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ANTHROPIC_MESSAGE_REQUEST_H_
