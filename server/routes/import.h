// POST /attndb/v1/contexts: a text goes through the model and becomes a context, as `attndb import`
// makes one: what is asked of it goes on from it, here or in a process of its own.
//
// Promise: the answer comes when the context is durable. With "stream" it is a stream of events:
//          how far it is, then the answer.
#ifndef ATTNDB_SERVER_ROUTES_IMPORT_H_
#define ATTNDB_SERVER_ROUTES_IMPORT_H_

#include <span>
#include <string>

#include "server/service.h"

namespace attndb::server {

void AnswerImport(Service* service, Call call);

// Whether the tenant has this name for these tokens already, of the engine's model.
// Errors: kAlreadyExists (it is another context's, and the text may not take it); as DB::Describe.
Result<bool> IsImported(const Service& service, const DB& db, const StoreOptions& store,
                        std::span<const TokenId> tokens);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_IMPORT_H_
