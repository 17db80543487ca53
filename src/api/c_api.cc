#include "attndb/c_api.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/c_api_call.h"
#include "api/c_api_convert.h"
#include "api/c_api_json.h"
#include "attndb/db.h"
#include "attndb/session.h"
#include "attndb/version.h"

using attndb::DB;
using attndb::ModelSpec;
using attndb::MutableTensorView;
using attndb::Result;
using attndb::Session;
using attndb::SessionOptions;
using attndb::SessionStart;
using attndb::Status;
using attndb::StatusCode;
using attndb::StoreOptions;
using attndb::TensorView;
using attndb::TokenId;
using attndb::internal::Call;
using attndb::internal::CopyOut;
using attndb::internal::NotNull;
using attndb::internal::TextOut;
using attndb::internal::ThreadsLastError;
using attndb::internal::ToModelSpec;
using attndb::internal::ToMutableView;
using attndb::internal::ToNames;
using attndb::internal::ToSessionOptions;
using attndb::internal::ToStoreOptions;
using attndb::internal::ToTokens;
using attndb::internal::ToView;
using attndb::internal::ToViews;

namespace {

// The handles are the one place where ownership passes to a caller who can't hold a unique_ptr.
Status DbOut(DB db, attndb_db** out) {
  *out = std::make_unique<attndb_db>(attndb_db{std::move(db)}).release();
  return Status();
}

attndb_session* Released(Session session) {
  return std::make_unique<attndb_session>(attndb_session{std::move(session)}).release();
}

// Null for null.
std::function<bool(uint64_t, uint64_t)> ToProgress(attndb_progress progress, void* user_data) {
  if (progress == nullptr) return nullptr;
  return [=](uint64_t done, uint64_t total) { return progress(done, total, user_data) != 0; };
}

}  // namespace

extern "C" {

const char* attndb_version(void) { return attndb::Version(); }
const char* attndb_kernel_isa(void) { return attndb::KernelIsa(); }

const char* attndb_code_name(int32_t code) {
  if (code < ATTNDB_OK || code > ATTNDB_INTERNAL) return "unknown";
  return attndb::StatusCodeName(static_cast<StatusCode>(code)).data();  // Literals: terminated.
}

const char* attndb_last_error(void) { return ThreadsLastError().message.c_str(); }
attndb_code attndb_last_error_code(void) { return ThreadsLastError().code; }

void attndb_free(void* memory) { std::free(memory); }

attndb_code attndb_spec_validate(const attndb_model_spec* spec) {
  return Call([&]() -> Status {
    ATTNDB_ASSIGN_OR_RETURN(const ModelSpec converted, ToModelSpec(spec));
    return converted.Validate();
  });
}

attndb_code attndb_spec_kv_bytes_per_token(const attndb_model_spec* spec, uint64_t* bytes) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(bytes, "bytes"));
    ATTNDB_ASSIGN_OR_RETURN(const ModelSpec converted, ToModelSpec(spec));
    ATTNDB_RETURN_IF_ERROR(converted.Validate());
    *bytes = converted.KvBytesPerToken();
    return Status();
  });
}

// --- DB
// --------------------------------------------------------------------------------------------

attndb_code attndb_db_open(const char* path, const attndb_db_options* options, attndb_db** db) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(path, "path"));
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_ASSIGN_OR_RETURN(const attndb::DBOptions converted,
                            attndb::internal::ToDBOptions(options));
    ATTNDB_ASSIGN_OR_RETURN(DB opened, DB::Open(path, converted));
    return DbOut(std::move(opened), db);
  });
}

void attndb_db_close(attndb_db* db) { std::unique_ptr<attndb_db>{db}.reset(); }

attndb_code attndb_db_for_tenant(const attndb_db* db, const char* name, attndb_db** tenant_db) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_RETURN_IF_ERROR(NotNull(name, "name"));
    ATTNDB_RETURN_IF_ERROR(NotNull(tenant_db, "tenant_db"));
    ATTNDB_ASSIGN_OR_RETURN(DB other, db->db.ForTenant(name));
    return DbOut(std::move(other), tenant_db);
  });
}

const char* attndb_db_tenant(const attndb_db* db) {
  return db == nullptr ? nullptr : db->db.tenant().c_str();
}

attndb_code attndb_db_create_session(const attndb_db* db, const attndb_model_spec* spec,
                                     const int32_t* tokens, size_t num_tokens,
                                     const attndb_session_options* options,
                                     attndb_session** session, uint64_t* num_reused) {
  return attndb_db_create_sessions(db, spec, &tokens, &num_tokens, 1, options, session, num_reused);
}

attndb_code attndb_db_create_sessions(const attndb_db* db, const attndb_model_spec* spec,
                                      const int32_t* const* prompts, const size_t* num_tokens,
                                      size_t num_prompts, const attndb_session_options* options,
                                      attndb_session** sessions, uint64_t* num_reused) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_RETURN_IF_ERROR(NotNull(prompts, "prompts"));
    ATTNDB_RETURN_IF_ERROR(NotNull(num_tokens, "num_tokens"));
    ATTNDB_RETURN_IF_ERROR(NotNull(sessions, "session"));
    ATTNDB_ASSIGN_OR_RETURN(const ModelSpec converted, ToModelSpec(spec));
    ATTNDB_ASSIGN_OR_RETURN(const SessionOptions how, ToSessionOptions(options));
    std::vector<std::span<const TokenId>> spans;
    for (size_t i = 0; i < num_prompts; ++i) {
      ATTNDB_ASSIGN_OR_RETURN(const auto span, ToTokens(prompts[i], num_tokens[i]));
      spans.push_back(span);
    }
    ATTNDB_ASSIGN_OR_RETURN(std::vector<SessionStart> starts,
                            db->db.CreateSessions(converted, spans, how));
    std::vector<std::unique_ptr<attndb_session>> made;  // All or none: nothing leaks on bad_alloc.
    for (SessionStart& start : starts) {
      made.push_back(std::make_unique<attndb_session>(attndb_session{std::move(start.session)}));
    }
    for (size_t i = 0; i < made.size(); ++i) {
      if (num_reused != nullptr) num_reused[i] = made[i]->session.num_reused();
      sessions[i] = made[i].release();
    }
    return Status();
  });
}

attndb_code attndb_db_create_session_over(const attndb_db* db, const attndb_model_spec* spec,
                                          const char* const* contexts, size_t num_contexts,
                                          const attndb_session_options* options,
                                          attndb_session** session) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_ASSIGN_OR_RETURN(const ModelSpec converted, ToModelSpec(spec));
    ATTNDB_ASSIGN_OR_RETURN(const SessionOptions how, ToSessionOptions(options));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                            ToNames(contexts, num_contexts, "contexts"));
    ATTNDB_ASSIGN_OR_RETURN(Session made, db->db.CreateSessionOver(converted, names, how));
    *session = Released(std::move(made));
    return Status();
  });
}

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
    *pending = new attndb_pending_store{std::move(store)};
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

void attndb_pending_store_free(attndb_pending_store* pending) { delete pending; }

attndb_code attndb_db_explain_prefix(const attndb_db* db, const attndb_model_spec* spec,
                                     const int32_t* tokens, size_t num_tokens,
                                     const attndb_session_options* options, char** json) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_RETURN_IF_ERROR(NotNull(json, "json"));
    ATTNDB_ASSIGN_OR_RETURN(const ModelSpec converted, ToModelSpec(spec));
    ATTNDB_ASSIGN_OR_RETURN(const auto ids, ToTokens(tokens, num_tokens));
    ATTNDB_ASSIGN_OR_RETURN(const SessionOptions how, ToSessionOptions(options));
    ATTNDB_ASSIGN_OR_RETURN(const auto explain, db->db.ExplainPrefix(converted, ids, how));
    return TextOut(explain.ToJson(), json);
  });
}

attndb_code attndb_db_find(const attndb_db* db, const attndb_model_spec* spec,
                           const attndb_find_head* heads, const attndb_tensor* q, size_t num_heads,
                           int64_t first_position, const attndb_find_options* options,
                           char** json) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_RETURN_IF_ERROR(NotNull(json, "json"));
    ATTNDB_ASSIGN_OR_RETURN(const ModelSpec converted, ToModelSpec(spec));
    ATTNDB_ASSIGN_OR_RETURN(const attndb::FindOptions how,
                            attndb::internal::ToFindOptions(options));
    attndb::FindQuery query;
    query.first_position = first_position;
    if (num_heads > 0) {
      ATTNDB_RETURN_IF_ERROR(NotNull(heads, "heads"));
      ATTNDB_ASSIGN_OR_RETURN(query.q, ToViews(q, num_heads, "q"));
    }
    for (size_t i = 0; i < num_heads; ++i) query.heads.push_back({heads[i].layer, heads[i].q_head});
    ATTNDB_ASSIGN_OR_RETURN(const attndb::FindResult found, db->db.Find(converted, query, how));
    return TextOut(attndb::internal::ToJson(found), json);
  });
}

attndb_code attndb_db_list(const attndb_db* db, char** json) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_RETURN_IF_ERROR(NotNull(json, "json"));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<attndb::ContextInfo> contexts, db->db.List());
    return TextOut(attndb::internal::ToJson(std::span(contexts)), json);
  });
}

attndb_code attndb_db_describe(const attndb_db* db, const char* context, char** json) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_RETURN_IF_ERROR(NotNull(context, "context"));
    ATTNDB_RETURN_IF_ERROR(NotNull(json, "json"));
    ATTNDB_ASSIGN_OR_RETURN(const attndb::ContextInfo info, db->db.Describe(context));
    return TextOut(attndb::internal::ToJson(info), json);
  });
}

attndb_code attndb_db_stats(const attndb_db* db, char** json) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_RETURN_IF_ERROR(NotNull(json, "json"));
    ATTNDB_ASSIGN_OR_RETURN(const attndb::DBStats stats, db->db.Stats());
    return TextOut(stats.ToJson(), json);
  });
}

attndb_code attndb_db_machine(const attndb_db* db, int32_t measure, char** json) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_RETURN_IF_ERROR(NotNull(json, "json"));
    ATTNDB_ASSIGN_OR_RETURN(const attndb::MachineProfile machine, db->db.Machine(measure != 0));
    return TextOut(machine.ToJson(), json);
  });
}

attndb_code attndb_db_tokens(const attndb_db* db, const char* context, int32_t** tokens,
                             size_t* num_tokens) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_RETURN_IF_ERROR(NotNull(context, "context"));
    ATTNDB_RETURN_IF_ERROR(NotNull(tokens, "tokens"));
    ATTNDB_RETURN_IF_ERROR(NotNull(num_tokens, "num_tokens"));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, db->db.Tokens(context));
    void* copy = nullptr;
    ATTNDB_RETURN_IF_ERROR(CopyOut(ids.data(), ids.size() * sizeof(TokenId), &copy));
    *tokens = static_cast<int32_t*>(copy);
    *num_tokens = ids.size();
    return Status();
  });
}

attndb_code attndb_db_pin(const attndb_db* db, const char* context, int32_t pinned) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_RETURN_IF_ERROR(NotNull(context, "context"));
    return db->db.Pin(context, pinned != 0);
  });
}

attndb_code attndb_db_set_ttl(const attndb_db* db, const char* context, int64_t ttl_seconds) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_RETURN_IF_ERROR(NotNull(context, "context"));
    std::optional<std::chrono::seconds> ttl;
    if (ttl_seconds >= 0) ttl = std::chrono::seconds(ttl_seconds);
    return db->db.SetTtl(context, ttl);
  });
}

attndb_code attndb_db_drop(const attndb_db* db, const char* context) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_RETURN_IF_ERROR(NotNull(context, "context"));
    return db->db.Drop(context);
  });
}

attndb_code attndb_db_set_quota(const attndb_db* db, uint64_t bytes) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    return db->db.SetQuota(bytes);
  });
}

attndb_code attndb_db_declare_equal(const attndb_db* db, const void* fingerprint_a,
                                    size_t fingerprint_a_bytes, const void* fingerprint_b,
                                    size_t fingerprint_b_bytes) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_RETURN_IF_ERROR(NotNull(fingerprint_a, "fingerprint_a"));
    ATTNDB_RETURN_IF_ERROR(NotNull(fingerprint_b, "fingerprint_b"));
    return db->db.DeclareEqual({static_cast<const char*>(fingerprint_a), fingerprint_a_bytes},
                               {static_cast<const char*>(fingerprint_b), fingerprint_b_bytes});
  });
}

attndb_code attndb_db_verify(const attndb_db* db, const char* context, attndb_progress progress,
                             void* user_data, uint64_t* num_damages, char** json) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    attndb::VerifyOptions options;
    if (context != nullptr) options.context = context;
    options.progress = ToProgress(progress, user_data);
    ATTNDB_ASSIGN_OR_RETURN(const attndb::VerifyReport report, db->db.Verify(options));
    if (json != nullptr) {
      ATTNDB_RETURN_IF_ERROR(TextOut(attndb::internal::ToJson(report), json));
    }
    if (num_damages != nullptr) *num_damages = report.damages.size();
    return Status();
  });
}

attndb_code attndb_db_build(const attndb_db* db, const char* context, const char* index,
                            attndb_progress progress, void* user_data, char** json) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_RETURN_IF_ERROR(NotNull(context, "context"));
    ATTNDB_RETURN_IF_ERROR(NotNull(index, "index"));
    ATTNDB_ASSIGN_OR_RETURN(
        const attndb::BuildReport report,
        db->db.Build(context, index, {.progress = ToProgress(progress, user_data)}));
    return json == nullptr ? Status() : TextOut(attndb::internal::ToJson(report), json);
  });
}

attndb_code attndb_db_compact(const attndb_db* db) {
  return attndb_db_compact_with(db, nullptr, nullptr, nullptr);
}

attndb_code attndb_db_compact_with(const attndb_db* db, const attndb_compact_options* options,
                                   attndb_progress progress, void* user_data) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_ASSIGN_OR_RETURN(attndb::CompactOptions how,
                            attndb::internal::ToCompactOptions(options));
    how.progress = ToProgress(progress, user_data);
    return db->db.Compact(how);
  });
}

attndb_code attndb_db_wait_for_background(const attndb_db* db, attndb_progress progress,
                                          void* user_data) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    return db->db.WaitForBackground({.progress = ToProgress(progress, user_data)});
  });
}

// --- Session
// ---------------------------------------------------------------------------------------

void attndb_session_free(attndb_session* session) {
  std::unique_ptr<attndb_session>{session}.reset();
}

attndb_code attndb_session_append(attndb_session* session, uint32_t layer, const attndb_tensor* k,
                                  const attndb_tensor* v) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_ASSIGN_OR_RETURN(const TensorView keys, ToView(k, "k"));
    ATTNDB_ASSIGN_OR_RETURN(const TensorView values, ToView(v, "v"));
    return session->session.Append(layer, keys, values);
  });
}

attndb_code attndb_session_attend(attndb_session* session, uint32_t layer, const attndb_tensor* q,
                                  const attndb_tensor* out, float* lse) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_ASSIGN_OR_RETURN(const TensorView queries, ToView(q, "q"));
    ATTNDB_ASSIGN_OR_RETURN(const MutableTensorView outputs, ToMutableView(out, "out"));
    return session->session.Attend(layer, queries, outputs, lse);
  });
}

attndb_code attndb_session_attend_part(attndb_session* session, uint32_t layer,
                                       const attndb_tensor* q, const attndb_tensor* out, float* lse,
                                       uint32_t part, uint32_t num_parts) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_ASSIGN_OR_RETURN(const TensorView queries, ToView(q, "q"));
    ATTNDB_ASSIGN_OR_RETURN(const MutableTensorView outputs, ToMutableView(out, "out"));
    return session->session.AttendPart(layer, queries, outputs, lse, part, num_parts);
  });
}

attndb_code attndb_session_search(attndb_session* session, uint32_t layer, const attndb_tensor* q,
                                  uint64_t* num_found, uint32_t** tokens, float** scores) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_RETURN_IF_ERROR(NotNull(num_found, "num_found"));
    ATTNDB_RETURN_IF_ERROR(NotNull(tokens, "tokens"));
    ATTNDB_ASSIGN_OR_RETURN(const TensorView queries, ToView(q, "q"));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<attndb::CriticalTokens> found,
                            session->session.Search(layer, queries));
    std::vector<uint32_t> all_tokens;
    std::vector<float> all_scores;
    for (const attndb::CriticalTokens& head : found) {
      all_tokens.insert(all_tokens.end(), head.tokens.begin(), head.tokens.end());
      all_scores.insert(all_scores.end(), head.scores.begin(), head.scores.end());
    }
    void* tokens_copy = nullptr;
    ATTNDB_RETURN_IF_ERROR(
        CopyOut(all_tokens.data(), all_tokens.size() * sizeof(uint32_t), &tokens_copy));
    if (scores != nullptr) {
      void* scores_copy = nullptr;
      const Status status =
          CopyOut(all_scores.data(), all_scores.size() * sizeof(float), &scores_copy);
      if (!status.ok()) {
        attndb_free(tokens_copy);
        return status;
      }
      *scores = static_cast<float*>(scores_copy);
    }
    *tokens = static_cast<uint32_t*>(tokens_copy);
    for (size_t i = 0; i < found.size(); ++i) num_found[i] = found[i].tokens.size();
    return Status();
  });
}

attndb_code attndb_session_update(attndb_session* session, const attndb_tensor* q,
                                  const attndb_tensor* k, const attndb_tensor* v, uint32_t layer) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_ASSIGN_OR_RETURN(const TensorView queries, ToView(q, "q"));
    ATTNDB_ASSIGN_OR_RETURN(const TensorView keys, ToView(k, "k"));
    ATTNDB_ASSIGN_OR_RETURN(const TensorView values, ToView(v, "v"));
    return session->session.Update(queries, keys, values, layer);
  });
}

attndb_code attndb_session_attention(attndb_session* session, const attndb_tensor* q,
                                     uint32_t layer, const attndb_tensor* out) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_ASSIGN_OR_RETURN(const TensorView queries, ToView(q, "q"));
    ATTNDB_ASSIGN_OR_RETURN(const MutableTensorView outputs, ToMutableView(out, "out"));
    return session->session.Attention(queries, layer, outputs);
  });
}

attndb_code attndb_attend_batch(attndb_session* const* sessions, const int64_t* num_rows,
                                size_t num_sessions, uint32_t layer, const attndb_tensor* q,
                                const attndb_tensor* out, float* lse) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(sessions, "sessions"));
    ATTNDB_RETURN_IF_ERROR(NotNull(num_rows, "num_rows"));
    std::vector<Session*> pointers;
    for (size_t i = 0; i < num_sessions; ++i) {
      ATTNDB_RETURN_IF_ERROR(NotNull(sessions[i], "an element of sessions"));
      pointers.push_back(&sessions[i]->session);
    }
    ATTNDB_ASSIGN_OR_RETURN(const TensorView queries, ToView(q, "q"));
    ATTNDB_ASSIGN_OR_RETURN(const MutableTensorView outputs, ToMutableView(out, "out"));
    return attndb::AttendBatch(pointers, {num_rows, num_sessions}, layer, queries, outputs, lse);
  });
}

uint64_t attndb_session_num_tokens(const attndb_session* session) {
  return session == nullptr ? 0 : session->session.num_tokens();
}

uint64_t attndb_session_num_reused(const attndb_session* session) {
  return session == nullptr ? 0 : session->session.num_reused();
}

int64_t attndb_session_context_id(const attndb_session* session) {
  return session == nullptr ? 0 : static_cast<int64_t>(session->session.context_id());
}

int64_t attndb_session_next_position(const attndb_session* session) {
  return session == nullptr ? 0 : session->session.next_position();
}

uint64_t attndb_session_memory_bytes(const attndb_session* session) {
  return session == nullptr ? 0 : session->session.memory_bytes();
}

attndb_code attndb_session_spec(const attndb_session* session, char** json) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_RETURN_IF_ERROR(NotNull(json, "json"));
    return TextOut(attndb::internal::ToJson(session->session.spec()), json);
  });
}

attndb_code attndb_session_read_kv(const attndb_session* session, uint32_t layer, uint64_t begin,
                                   uint64_t end, const attndb_tensor* k, const attndb_tensor* v) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    MutableTensorView keys;
    MutableTensorView values;
    if (k != nullptr) {
      ATTNDB_ASSIGN_OR_RETURN(keys, ToMutableView(k, "k"));
    }
    if (v != nullptr) {
      ATTNDB_ASSIGN_OR_RETURN(values, ToMutableView(v, "v"));
    }
    return session->session.ReadKv(layer, {begin, end}, keys, values);
  });
}

attndb_code attndb_session_crop(attndb_session* session, uint64_t num_tokens) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    return session->session.Crop(num_tokens);
  });
}

attndb_code attndb_session_set_filter(attndb_session* session, const attndb_token_range* ranges,
                                      size_t num_ranges) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    if (num_ranges > 0) ATTNDB_RETURN_IF_ERROR(NotNull(ranges, "ranges"));
    std::vector<attndb::TokenRange> filter;
    for (size_t i = 0; i < num_ranges; ++i) filter.push_back({ranges[i].begin, ranges[i].end});
    return session->session.SetFilter(filter);
  });
}

attndb_code attndb_session_await_derived(attndb_session* session, uint32_t layer) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    return session->session.AwaitDerived(layer);
  });
}

int attndb_session_awaits_derived(const attndb_session* session, uint32_t layer) {
  return session != nullptr && session->session.awaits_derived(layer) ? 1 : 0;
}

attndb_code attndb_session_fork(const attndb_session* session, attndb_session** fork) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_RETURN_IF_ERROR(NotNull(fork, "fork"));
    ATTNDB_ASSIGN_OR_RETURN(Session copy, session->session.Fork());
    *fork = Released(std::move(copy));
    return Status();
  });
}

attndb_code attndb_session_reset(attndb_session* session) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    session->session.Reset();
    return Status();
  });
}

attndb_code attndb_session_set_plan(attndb_session* session, const char* plan) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_RETURN_IF_ERROR(NotNull(plan, "plan"));
    return session->session.SetPlan(plan);
  });
}

attndb_code attndb_session_explain(const attndb_session* session, char** json) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_RETURN_IF_ERROR(NotNull(json, "json"));
    return TextOut(session->session.Explain().ToJson(), json);
  });
}

attndb_code attndb_session_explain_layer(const attndb_session* session, uint32_t layer,
                                         char** json) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_RETURN_IF_ERROR(NotNull(json, "json"));
    ATTNDB_ASSIGN_OR_RETURN(const attndb::LayerExplain explain, session->session.Explain(layer));
    return TextOut(attndb::internal::ToJson(explain), json);
  });
}

}  // extern "C"
