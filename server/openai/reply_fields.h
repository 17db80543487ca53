// The fields of a request that say what a reply has to be, and how the model thinks before it.
//
//   response_format, json_schema, grammar             what the reply has to be: one of them
//   reasoning_effort, enable_thinking,                how the model thinks
//   reasoning_format
//   reasoning_budget_tokens, thinking_budget_tokens,  how long it thinks
//   reasoning_budget_message, reasoning_control
//   chat_template_kwargs                              more variables of the template
//   continue_final_message, add_generation_prompt     where the reply begins
//   stop                                              where it ends
//
// Errors:  kInvalidArgument with the field, what was expected and what was found.
// Threads: stateless.
#ifndef ATTNDB_SERVER_OPENAI_REPLY_FIELDS_H_
#define ATTNDB_SERVER_OPENAI_REPLY_FIELDS_H_

#include <string>
#include <vector>

#include "attndb/status.h"
#include "server/json.h"
#include "server/openai/text_request.h"

namespace attndb::server {

// Sets request->grammar or request->chat.json_schema. A reply with tools can have no grammar of the
// client's: read the tools first.
Status ReadReplyForm(const Json& body, TextRequest* request);

// Sets request->reasoning_budget, reasoning_message and controls_reasoning, and of request->chat
// reasoning_format, enable_thinking and variables.
Status ReadThinking(const Json& body, TextRequest* request);

// Sets request->reasoning_budget and reasoning_message. A budget of 0 sets
// request->chat.enable_thinking, too.
Status ReadReasoningBudget(const Json& body, TextRequest* request);

// Reads "chat_template_kwargs", an object, into `chat`. `name`: how errors call it.
Status ReadTemplateVariables(const Json& variables, const std::string& name,
                             llama::ChatOptions* chat);

// Reads "stop", a text or a list of texts, each of which ends the reply.
Status ReadStop(const Json& body, std::vector<std::string>* stop);

// Sets request->chat.continues_last. Unless the request says otherwise, a reply continues the last
// message if the assistant's is last, as with llama.cpp's server.
Status ReadContinuation(const Json& body, TextRequest* request);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_OPENAI_REPLY_FIELDS_H_
