// What /attndb/v1/explain says of what is stored, without running the model.
//
// Threads: thread-safe. Reads the catalog and token ids.
#ifndef ATTNDB_SERVER_ROUTES_EXPLAIN_STORED_H_
#define ATTNDB_SERVER_ROUTES_EXPLAIN_STORED_H_

#include "server/batch/reuse_prices.h"
#include "server/json.h"
#include "server/service.h"

namespace attndb::server {

// {"way": "memory", "tokens": 90, "bytes": 0, "read_ms": null, "run_ms": 612.5}: whence the first
// tokens of a prompt come, and what the alternatives were predicted to take; null: not known.
Json JsonOf(const ReusePrice& price);

// {"context": NAME, "plan": PLAN}: how a context would be attended to, as `attndb explain CONTEXT`
// has it: "explain", "reuse", and "report" and "tables" for people. Errors: as DB::CreateSession.
Result<Json> ExplainContext(const Service& service, const Call& call, const Json& body);

// {"text": TEXT, "system": TEXT, "raw": false, "context": NAME}: what of a text is stored, as
// `attndb explain --prompt TEXT` has it: "prefix", and "report" for people.
// Errors: kInvalidArgument (fields); as DB::ExplainPrefix.
Result<Json> ExplainText(const Service& service, const Call& call, const Json& body);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_EXPLAIN_STORED_H_
