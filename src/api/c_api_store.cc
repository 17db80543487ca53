// Calls of the C ABI that make contexts: Import, Store, and a Store that goes on behind its
// session.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "api/c_api_call.h"
#include "api/c_api_convert.h"
#include "attndb/c_api.h"
#include "attndb/db.h"
#include "attndb/options.h"
#include "attndb/result.h"
#include "attndb/status.h"
#include "attndb/tensor_view.h"
#include "attndb/types.h"

using attndb::ModelSpec;
using attndb::Status;
using attndb::StoreOptions;
using attndb::TensorView;
using attndb::internal::Call;
using attndb::internal::NotNull;
using attndb::internal::ToModelSpec;
using attndb::internal::ToStoreOptions;
using attndb::internal::ToTokens;
using attndb::internal::ToViews;

extern "C" {

attndb_code attndb_db_import(const attndb_db* db, const attndb_model_spec* spec,
                             const int32_t* tokens, size_t num_tokens, const attndb_tensor* keys,
                             const attndb_tensor* values, const attndb_tensor* queries,
                             const attndb_store_options* options, int64_t* context_id) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_ASSIGN_OR_RETURN(const ModelSpec converted, ToModelSpec(spec));
    ATTNDB_ASSIGN_OR_RETURN(const auto ids, ToTokens(tokens, num_tokens));
    ATTNDB_ASSIGN_OR_RETURN(const StoreOptions how, ToStoreOptions(options));
    const size_t num_layers = converted.layers.size();
    ATTNDB_ASSIGN_OR_RETURN(const auto k, ToViews(keys, num_layers, "keys"));
    ATTNDB_ASSIGN_OR_RETURN(const auto v, ToViews(values, num_layers, "values"));
    std::vector<TensorView> q;
    if (queries != nullptr) {
      ATTNDB_ASSIGN_OR_RETURN(q, ToViews(queries, num_layers, "queries"));
    }
    std::vector<attndb::LayerKv> layers;
    for (size_t i = 0; i < num_layers; ++i) layers.push_back({k[i], v[i]});
    ATTNDB_ASSIGN_OR_RETURN(const attndb::ContextId id,
                            db->db.Import(converted, ids, layers, how, q));
    if (context_id != nullptr) *context_id = static_cast<int64_t>(id);
    return Status();
  });
}

attndb_code attndb_db_store(const attndb_db* db, attndb_session* session, const int32_t* tokens,
                            size_t num_tokens, const attndb_store_options* options,
                            int64_t* context_id) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_ASSIGN_OR_RETURN(const auto ids, ToTokens(tokens, num_tokens));
    ATTNDB_ASSIGN_OR_RETURN(const StoreOptions how, ToStoreOptions(options));
    ATTNDB_ASSIGN_OR_RETURN(const attndb::ContextId id, db->db.Store(session->session, ids, how));
    if (context_id != nullptr) *context_id = static_cast<int64_t>(id);
    return Status();
  });
}

attndb_code attndb_db_store_async(const attndb_db* db, attndb_session* session,
                                  const int32_t* tokens, size_t num_tokens,
                                  const attndb_store_options* options,
                                  attndb_pending_store** pending) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_RETURN_IF_ERROR(NotNull(pending, "pending"));
    ATTNDB_ASSIGN_OR_RETURN(const auto ids, ToTokens(tokens, num_tokens));
    ATTNDB_ASSIGN_OR_RETURN(const StoreOptions how, ToStoreOptions(options));
    ATTNDB_ASSIGN_OR_RETURN(attndb::PendingStore store,
                            db->db.StoreAsync(session->session, ids, how));
    *pending =
        std::make_unique<attndb_pending_store>(attndb_pending_store{std::move(store)}).release();
    return Status();
  });
}

attndb_code attndb_pending_store_done(const attndb_pending_store* pending, int32_t* done) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(pending, "pending"));
    ATTNDB_RETURN_IF_ERROR(NotNull(done, "done"));
    *done = pending->store.done() ? 1 : 0;
    return Status();
  });
}

attndb_code attndb_pending_store_wait(const attndb_pending_store* pending, int64_t* context_id) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(pending, "pending"));
    ATTNDB_ASSIGN_OR_RETURN(const attndb::ContextId id, pending->store.Wait());
    if (context_id != nullptr) *context_id = static_cast<int64_t>(id);
    return Status();
  });
}

void attndb_pending_store_free(attndb_pending_store* pending) {
  std::unique_ptr<attndb_pending_store>{pending}.reset();
}

}  // extern "C"
