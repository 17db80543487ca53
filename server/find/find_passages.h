// Looks through a tenant's contexts for what a question asks, as `attndb find` does.
//
// Method:  the question is a turn of the scheduler's (question_turn.h), and the contexts' keys are
//          scored behind it, on a thread that may wait for the disk: no pass waits for that.
// Errors:  kInvalidArgument (no question, or one of more tokens than a pass takes); kNotFound (a
//          named context; no context of this model); as DB::Find and ScheduleTurn; kCancelled (the
//          client has gone).
// Threads: thread-safe.
#ifndef ATTNDB_SERVER_FIND_FIND_PASSAGES_H_
#define ATTNDB_SERVER_FIND_FIND_PASSAGES_H_

#include <functional>
#include <string>

#include "attndb/find.h"
#include "attndb/result.h"
#include "server/service.h"

namespace attndb::server {

struct FindAsked {
  std::string question;
  FindOptions options;
};

struct FoundPassages {
  FindResult result;       // One context at least was looked through.
  double question_ms = 0;  // From the call to the question's q.
  double find_ms = 0;      // The search for its passages.
};

// Calls `then` once, on any thread but the scheduler's if it is Ok, unless the client goes before:
// the call is noted as gone then. The turn is the call's tenant's. `call` has no request.
void FindPassages(Service* service, const Call& call, FindAsked asked,
                  std::function<void(Result<FoundPassages>)> then);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_FIND_FIND_PASSAGES_H_
