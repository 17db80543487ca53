// What the owner of a store sees to while it is served: POST /attndb/v1/verify, /attndb/v1/compact,
// /attndb/v1/build and /attndb/v1/quota. They are of the tenant whose key asks, which must be an
// operator's: 403.
//
// All but the last take their time. They run one after the other beside all requests, tell how
// far they are to who asks for a stream, and end when that client goes or the server stops: behind
// the segment that they read. Only while Verify checks the catalog, before the segments, do
// requests wait for it.
#ifndef ATTNDB_SERVER_ROUTES_UPKEEP_H_
#define ATTNDB_SERVER_ROUTES_UPKEEP_H_

#include "server/service.h"

namespace attndb::server {

// {"context": NAME, "stream": false} -> {"ok", "num_segments", "num_bytes", "damages"}
void AnswerVerify(Service* service, Call call);
// {"context": NAME, "segment_tokens": N, "stream": false} -> counts before and after
void AnswerCompact(Service* service, Call call);
// {"context": NAME, "index": TEXT, "stream": false} -> what `attndb build --json` says
void AnswerBuild(Service* service, Call call);
// {"quota_bytes": N}; null = none -> {"quota_bytes", "file_bytes"}
void AnswerQuota(Service* service, Call call);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_UPKEEP_H_
