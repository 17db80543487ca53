// Calls of the C ABI that find stored contexts for a prompt or a question, and check the room for
// new ones.
#include <cstddef>
#include <cstdint>

#include "api/c_api_call.h"
#include "api/c_api_convert.h"
#include "api/c_api_json.h"
#include "attndb/c_api.h"
#include "attndb/db.h"
#include "attndb/find.h"
#include "attndb/options.h"
#include "attndb/result.h"
#include "attndb/status.h"
#include "attndb/types.h"

using attndb::ModelSpec;
using attndb::SessionOptions;
using attndb::Status;
using attndb::internal::Call;
using attndb::internal::NotNull;
using attndb::internal::TextOut;
using attndb::internal::ToFindOptions;
using attndb::internal::ToJson;
using attndb::internal::ToModelSpec;
using attndb::internal::ToRoomOptions;
using attndb::internal::ToSessionOptions;
using attndb::internal::ToTokens;
using attndb::internal::ToViews;

extern "C" {

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

attndb_code attndb_db_check_room(const attndb_db* db, const attndb_model_spec* spec,
                                 const int32_t* tokens, size_t num_tokens,
                                 const attndb_room_options* options, char** json) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_ASSIGN_OR_RETURN(const ModelSpec converted, ToModelSpec(spec));
    ATTNDB_ASSIGN_OR_RETURN(const auto ids, ToTokens(tokens, num_tokens));
    ATTNDB_ASSIGN_OR_RETURN(const attndb::RoomOptions how, ToRoomOptions(options));
    ATTNDB_ASSIGN_OR_RETURN(const attndb::RoomReport report, db->db.CheckRoom(converted, ids, how));
    return json == nullptr ? Status() : TextOut(ToJson(report), json);
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
    ATTNDB_ASSIGN_OR_RETURN(const attndb::FindOptions how, ToFindOptions(options));
    attndb::FindQuery query;
    query.first_position = first_position;
    if (num_heads > 0) {
      ATTNDB_RETURN_IF_ERROR(NotNull(heads, "heads"));
      ATTNDB_ASSIGN_OR_RETURN(query.q, ToViews(q, num_heads, "q"));
    }
    for (size_t i = 0; i < num_heads; ++i) query.heads.push_back({heads[i].layer, heads[i].q_head});
    ATTNDB_ASSIGN_OR_RETURN(const attndb::FindResult found, db->db.Find(converted, query, how));
    return TextOut(ToJson(found), json);
  });
}

}  // extern "C"
