// The session of a request that is asked of several contexts, or of some tokens of one, as
// `attndb ask` has it. What runs in it saw no whole prompt: it can't be stored.
//
// Errors:  kNotFound (a context); kInvalidArgument (messages or layouts that don't go together;
//          ranges beyond the context; more tokens than the window has); kUnsupported (the model has
//          layers with sliding windows); as DB::CreateSessionOver and DB::CreateSession.
// Threads: stateless.
#ifndef ATTNDB_SERVER_ROUTES_SOURCE_SESSION_H_
#define ATTNDB_SERVER_ROUTES_SOURCE_SESSION_H_

#include <string>
#include <vector>

#include "attndb/session.h"
#include "server/batch/prompts.h"
#include "server/openai/text_request.h"
#include "server/service.h"

namespace attndb::server {

struct SourceSession {
  Session session;
  std::vector<TokenId> rest;  // Left to run.
  // Its tokens are those of the session, and `rest`; it has no digest.
  Prompt prompt;
};

// `asked`: has sources, and no number of contexts to find. `limits`: of its texts. `plan`: the
// session's.
Result<SourceSession> OpenSourceSession(const Service& service, const std::string& tenant,
                                        const TextRequest& asked, const std::string& plan,
                                        const llama::TokenizeLimits& limits);

// The texts of a request behind a context of this layout: parts of a prompt that refer to the
// request's texts. `now`: the context's TextLayout::rendered_at. For tests.
Result<llama::PromptParts> PartsBehind(const llama::LlamaEngine& engine, llama::PromptLayout layout,
                                       const TextRequest& asked, int64_t now = 0);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_SOURCE_SESSION_H_
