// POST /attndb/v1/find: the passages that the question's heads attend to.
#ifndef ATTNDB_SERVER_ROUTES_FIND_H_
#define ATTNDB_SERVER_ROUTES_FIND_H_

#include <functional>
#include <span>
#include <string>

#include "server/openai/text_request.h"
#include "server/service.h"

namespace attndb::server {

// {"question": TEXT, "context": NAME or "contexts": [NAME...], "top": 10, "passage_tokens": 64} ->
// what `attndb find --json` says. Without a context: all of the tenant's. Nothing is stored, and no
// context counts as used. Answers later, on other threads.
void AnswerFind(Service* service, Call call);

// RunWhenStored (service.h) of several names.
void RunWhenAllStored(Service* service, const Call& call, std::span<const std::string> names,
                      const std::function<void()>& work);

// If the request has a number of contexts to find, finds them for its question, among those that it
// names or all, and makes them its contexts; the best one alone becomes its `context`.
// Conversations are passed over. Calls `then` once, on a thread of run_later's, unless the client
// goes before. `asked` lives until then.
void FindSources(Service* service, const Call& call, TextRequest* asked,
                 std::function<void(Status)> then);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_FIND_H_
