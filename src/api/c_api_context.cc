// Calls of the C ABI about stored contexts by name: their description and their lifetime.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/c_api_call.h"
#include "api/c_api_json.h"
#include "attndb/c_api.h"
#include "attndb/db.h"
#include "attndb/result.h"
#include "attndb/stats.h"
#include "attndb/status.h"
#include "attndb/types.h"

using attndb::Status;
using attndb::TokenId;
using attndb::internal::Call;
using attndb::internal::CopyOut;
using attndb::internal::NotNull;
using attndb::internal::TextOut;
using attndb::internal::ToJson;

extern "C" {

attndb_code attndb_db_list(const attndb_db* db, char** json) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_RETURN_IF_ERROR(NotNull(json, "json"));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<attndb::ContextInfo> contexts, db->db.List());
    return TextOut(ToJson(std::span(contexts)), json);
  });
}

attndb_code attndb_db_describe(const attndb_db* db, const char* context, char** json) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_RETURN_IF_ERROR(NotNull(context, "context"));
    ATTNDB_RETURN_IF_ERROR(NotNull(json, "json"));
    ATTNDB_ASSIGN_OR_RETURN(const attndb::ContextInfo info, db->db.Describe(context));
    return TextOut(info.ToJson(), json);
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

attndb_code attndb_db_note(const attndb_db* db, const char* context, char** note,
                           size_t* note_bytes) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_RETURN_IF_ERROR(NotNull(context, "context"));
    ATTNDB_RETURN_IF_ERROR(NotNull(note, "note"));
    ATTNDB_RETURN_IF_ERROR(NotNull(note_bytes, "note_bytes"));
    ATTNDB_ASSIGN_OR_RETURN(const std::string bytes, db->db.Note(context));
    ATTNDB_RETURN_IF_ERROR(TextOut(bytes, note));
    *note_bytes = bytes.size();
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

attndb_code attndb_db_rename(const attndb_db* db, const char* context, const char* name) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_RETURN_IF_ERROR(NotNull(context, "context"));
    ATTNDB_RETURN_IF_ERROR(NotNull(name, "name"));
    return db->db.Rename(context, name);
  });
}

attndb_code attndb_db_drop(const attndb_db* db, const char* context) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_RETURN_IF_ERROR(NotNull(context, "context"));
    return db->db.Drop(context);
  });
}

}  // extern "C"
