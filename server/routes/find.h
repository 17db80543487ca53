// POST /attndb/v1/find: the passages that the question's heads attend to.
#ifndef ATTNDB_SERVER_ROUTES_FIND_H_
#define ATTNDB_SERVER_ROUTES_FIND_H_

#include <functional>
#include <span>
#include <string>

#include "server/service.h"

namespace attndb::server {

// {"question": TEXT, "context": NAME or "contexts": [NAME...], "top": 10, "passage_tokens": 64} ->
// what `attndb find --json` says. Without a context: all of the tenant's. Nothing is stored, and no
// context counts as used. Answers later, on other threads.
void AnswerFind(Service* service, Call call);

// RunWhenStored (service.h) of several names.
void RunWhenAllStored(Service* service, const Call& call, std::span<const std::string> names,
                      const std::function<void()>& work);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_FIND_H_
