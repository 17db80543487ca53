// Calls of the C ABI that work on a store for long, and tell their progress.
#include <cstdint>
#include <functional>

#include "api/c_api_call.h"
#include "api/c_api_convert.h"
#include "api/c_api_json.h"
#include "attndb/c_api.h"
#include "attndb/db.h"
#include "attndb/options.h"
#include "attndb/result.h"
#include "attndb/stats.h"
#include "attndb/status.h"

using attndb::Status;
using attndb::internal::Call;
using attndb::internal::NotNull;
using attndb::internal::TextOut;
using attndb::internal::ToCompactOptions;
using attndb::internal::ToJson;

namespace {

// Null for null.
std::function<bool(uint64_t, uint64_t)> ToProgress(attndb_progress progress, void* user_data) {
  if (progress == nullptr) return nullptr;
  return [=](uint64_t done, uint64_t total) { return progress(done, total, user_data) != 0; };
}

}  // namespace

extern "C" {

attndb_code attndb_db_verify(const attndb_db* db, const char* context, attndb_progress progress,
                             void* user_data, uint64_t* num_damages, char** json) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    attndb::VerifyOptions options;
    if (context != nullptr) options.context = context;
    options.progress = ToProgress(progress, user_data);
    ATTNDB_ASSIGN_OR_RETURN(const attndb::VerifyReport report, db->db.Verify(options));
    if (json != nullptr) {
      ATTNDB_RETURN_IF_ERROR(TextOut(ToJson(report), json));
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
    return json == nullptr ? Status() : TextOut(ToJson(report), json);
  });
}

attndb_code attndb_db_compact(const attndb_db* db) {
  return attndb_db_compact_with(db, nullptr, nullptr, nullptr);
}

attndb_code attndb_db_compact_with(const attndb_db* db, const attndb_compact_options* options,
                                   attndb_progress progress, void* user_data) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_ASSIGN_OR_RETURN(attndb::CompactOptions how, ToCompactOptions(options));
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

}  // extern "C"
