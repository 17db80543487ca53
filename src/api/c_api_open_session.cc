// Calls of the C ABI that start sessions.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/c_api_call.h"
#include "api/c_api_convert.h"
#include "attndb/c_api.h"
#include "attndb/db.h"
#include "attndb/options.h"
#include "attndb/result.h"
#include "attndb/session.h"
#include "attndb/status.h"
#include "attndb/types.h"

using attndb::ModelSpec;
using attndb::Session;
using attndb::SessionOptions;
using attndb::SessionStart;
using attndb::Status;
using attndb::TokenId;
using attndb::internal::Call;
using attndb::internal::NotNull;
using attndb::internal::SessionOut;
using attndb::internal::ToModelSpec;
using attndb::internal::ToNames;
using attndb::internal::ToSessionOptions;
using attndb::internal::ToTokens;

extern "C" {

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
    return SessionOut(std::move(made), session);
  });
}

}  // extern "C"
