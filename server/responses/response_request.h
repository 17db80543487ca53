// A request of POST /v1/responses, as OpenAI's client sends it.
//
// Known fields are checked; unknown ones are ignored. What can't be honoured is refused by name:
// tools that OpenAI's servers run, images and files, items by reference, "background",
// "conversation", "prompt".
//
// Errors:  kInvalidArgument with the place, what was expected and what was found.
// Threads: stateless.
#ifndef ATTNDB_SERVER_RESPONSES_RESPONSE_REQUEST_H_
#define ATTNDB_SERVER_RESPONSES_RESPONSE_REQUEST_H_

#include <string>

#include "attndb/result.h"
#include "server/json.h"
#include "server/openai/text_request.h"
#include "server/responses/items.h"

namespace attndb::server {

struct ResponseRequest {
  TextRequest text;  // Without messages: TakeConversation sets them.
  ChatMessages instructions;
  std::string previous_id;  // "previous_response_id"; empty: there is none.
  bool store = true;        // Whether the response can be asked for by its id.
  Json input;               // The items.
  // The response repeats these members of its request: instructions, tools, temperature, ...
  Json settings;
  // The conversation that the reply answers, without the instructions: those of a response are not
  // those of the next.
  ChatMessages conversation;
};

Result<ResponseRequest> ParseResponse(const Json& body);

// Sets what the reply answers: the input behind `before`, the messages of the previous response and
// its reply. Errors: kInvalidArgument: an item of the input.
Status TakeConversation(ChatMessages before, ResponseRequest* request);

// "previous_response_id" of a body that may be anything; empty: it has none.
std::string PreviousIdIn(const Json& body);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_RESPONSES_RESPONSE_REQUEST_H_
