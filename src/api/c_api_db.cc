// Calls of the C ABI about a store and its tenants: handles, figures, limits.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "api/c_api_call.h"
#include "api/c_api_convert.h"
#include "api/c_api_json.h"
#include "attndb/c_api.h"
#include "attndb/db.h"
#include "attndb/options.h"
#include "attndb/result.h"
#include "attndb/stats.h"
#include "attndb/status.h"

using attndb::DB;
using attndb::Status;
using attndb::internal::Call;
using attndb::internal::NotNull;
using attndb::internal::TextOut;
using attndb::internal::ToDBOptions;
using attndb::internal::ToJson;

namespace {

// The caller owns the handle; C can't hold a unique_ptr.
Status DbOut(DB db, attndb_db** out) {
  *out = std::make_unique<attndb_db>(attndb_db{std::move(db)}).release();
  return Status();
}

// Calls `act`, DB::DeclareEqual say, with both.
attndb_code OfFingerprints(const attndb_db* db, const void* a, size_t a_bytes, const void* b,
                           size_t b_bytes,
                           Status (DB::*act)(std::string_view, std::string_view) const) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_RETURN_IF_ERROR(NotNull(a, "fingerprint_a"));
    ATTNDB_RETURN_IF_ERROR(NotNull(b, "fingerprint_b"));
    return (db->db.*act)({static_cast<const char*>(a), a_bytes},
                         {static_cast<const char*>(b), b_bytes});
  });
}

}  // namespace

extern "C" {

attndb_code attndb_db_open(const char* path, const attndb_db_options* options, attndb_db** db) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(path, "path"));
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_ASSIGN_OR_RETURN(const attndb::DBOptions converted, ToDBOptions(options));
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

attndb_code attndb_db_stats(const attndb_db* db, char** json) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    ATTNDB_RETURN_IF_ERROR(NotNull(json, "json"));
    ATTNDB_ASSIGN_OR_RETURN(const attndb::DBStats stats, db->db.Stats());
    return TextOut(stats.ToJson(), json);
  });
}

attndb_code attndb_db_check_place(const attndb_db* db) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    return db->db.CheckPlace();
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

attndb_code attndb_db_set_quota(const attndb_db* db, uint64_t bytes) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(db, "db"));
    return db->db.SetQuota(bytes);
  });
}

attndb_code attndb_db_declare_equal(const attndb_db* db, const void* fingerprint_a,
                                    size_t fingerprint_a_bytes, const void* fingerprint_b,
                                    size_t fingerprint_b_bytes) {
  return OfFingerprints(db, fingerprint_a, fingerprint_a_bytes, fingerprint_b, fingerprint_b_bytes,
                        &DB::DeclareEqual);
}

attndb_code attndb_db_revoke_equal(const attndb_db* db, const void* fingerprint_a,
                                   size_t fingerprint_a_bytes, const void* fingerprint_b,
                                   size_t fingerprint_b_bytes) {
  return OfFingerprints(db, fingerprint_a, fingerprint_a_bytes, fingerprint_b, fingerprint_b_bytes,
                        &DB::RevokeEqual);
}

}  // extern "C"
