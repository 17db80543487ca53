// How a turn is stored under a name that a context may have: what has the name may change while the
// turn runs.
//
// Errors:  as DB::Describe and DB::Tokens.
// Threads: one thread at a time.
#ifndef ATTNDB_SERVER_ROUTES_STORE_PLACE_H_
#define ATTNDB_SERVER_ROUTES_STORE_PLACE_H_

#include <cstdint>
#include <string>

#include "attndb/db.h"
#include "attndb/options.h"
#include "attndb/result.h"
#include "attndb/stats.h"
#include "engines/llama/llama_engine.h"

namespace attndb::server {

// The place of a dialogue: its next turn takes its name, its pin and its time to live.
class DialoguePlace {
 public:
  // `engine` outlives it. `life`: of a dialogue that is new.
  DialoguePlace(const llama::LlamaEngine* engine, DB db, StoreOptions life);

  // How the turn is stored if it takes the name now.
  // Errors: kInvalidArgument (a document has the name, which the turn would replace).
  Result<StoreOptions> Look(const std::string& name);

 private:
  const llama::LlamaEngine* const engine_;
  const DB db_;
  const StoreOptions life_;
  // The last context that was seen to be no document.
  ContextId seen_ = ContextId::kNone;
  uint64_t num_seen_ = 0;  // Its tokens.
};

// What the name of an appended text's context stands for by now must be what `began` says. Gives
// `store` its pin and time to live. Errors: kFailedPrecondition (it was replaced, renamed,
// dropped).
Status FitAppend(const DB& db, const ContextInfo& began, StoreOptions* store);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_STORE_PLACE_H_
