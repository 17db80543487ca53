// Routes of llama.cpp's server, in its own forms, for programs that were written for it.
#ifndef ATTNDB_SERVER_ROUTES_LLAMA_COMPAT_H_
#define ATTNDB_SERVER_ROUTES_LLAMA_COMPAT_H_

#include "server/service.h"

namespace attndb::server {

// GET /props: the model's template and tokens, and what a request gets that says nothing.
void AnswerProps(Service* service, Call call);
// POST /v1/chat/completions/control: ends the thinking of a chat that is under way.
void AnswerChatControl(Service* service, Call call);
// POST /detokenize: {"tokens": [...]} -> {"content": TEXT}, with the names of control tokens.
void AnswerDetokenize(Service* service, Call call);
// POST /apply-template: a chat -> {"prompt": TEXT}, what the model would be asked.
void AnswerApplyTemplate(Service* service, Call call);

// POST /completion, /completions and /infill. They answer later, on other threads.
void AnswerLlamaCompletion(Service* service, Call call);
void AnswerInfill(Service* service, Call call);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_LLAMA_COMPAT_H_
