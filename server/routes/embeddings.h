// Embeddings of texts, where the model has them: POST /v1/embeddings.
//
// One input is embedded at a time, by one thread of the pool that tokenizes; requests that are
// answered at the same time take turns, input by input. It runs beside the scheduler's passes, on
// one thread while turns share them, else on as many as they have: replies get slower meanwhile if
// no core is free. Memory for the KV cache of the longest input is waited for as that of a turn is.
#ifndef ATTNDB_SERVER_ROUTES_EMBEDDINGS_H_
#define ATTNDB_SERVER_ROUTES_EMBEDDINGS_H_

#include <cstdint>

#include "server/service.h"

namespace attndb::server {

// Under way or waiting: each holds its inputs and its answer. More get a 503.
inline constexpr uint32_t kMaxEmbeddingCalls = 64;

// {"input": TEXT, TEXTS, IDS or LISTS OF IDS, "encoding_format": "float"} -> an embedding of each.
// Models without embeddings: 400.
void AnswerEmbeddings(Service* service, Call call);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_EMBEDDINGS_H_
