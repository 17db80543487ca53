// The trial of a model's heads (engines/llama/find_heads.h) beside all that a server does: its text
// and its questions are turns, which share passes with others, and are no tenant's.
//
// Threads: thread-safe.
#ifndef ATTNDB_SERVER_FIND_HEAD_TRIAL_RUN_H_
#define ATTNDB_SERVER_FIND_HEAD_TRIAL_RUN_H_

#include <functional>
#include <vector>

#include "attndb/result.h"
#include "engines/llama/find_heads.h"
#include "server/service.h"

namespace attndb::server {

// Calls `done` once, here or later, on any thread. The service outlives the trial.
void RunHeadTrial(Service* service,
                  std::function<void(Result<std::vector<llama::RankedHead>>)> done);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_FIND_HEAD_TRIAL_RUN_H_
