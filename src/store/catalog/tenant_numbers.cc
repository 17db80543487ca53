#include "store/catalog/tenant_numbers.h"

#include <string>

namespace attndb::store {
namespace {

// A numbered kind of row, and its statements.
struct Numbered {
  const char* what;
  const char* next;     // Takes a tenant.
  const char* advance;  // Takes a tenant.
  const char* insert;   // Takes id, tenant and number.
};
constexpr Numbered kContexts = {
    "context", "SELECT context FROM next_numbers WHERE tenant = ?",
    "UPDATE next_numbers SET context = context + 1 WHERE tenant = ?",
    "INSERT OR IGNORE INTO context_numbers(context, tenant, number) VALUES(?, ?, ?)"};
constexpr Numbered kSegments = {
    "segment", "SELECT segment FROM next_numbers WHERE tenant = ?",
    "UPDATE next_numbers SET segment = segment + 1 WHERE tenant = ?",
    "INSERT OR IGNORE INTO segment_numbers(segment, tenant, number) VALUES(?, ?, ?)"};

Status CantBeNext(const Numbered& numbered, TenantId tenant, int64_t number) {
  return Status::Corruption("catalog: tenant " + std::to_string(static_cast<int64_t>(tenant)) +
                            ": next " + numbered.what + " number is " + std::to_string(number) +
                            ", expected one from 1 to " + std::to_string(kMaxNumber) +
                            " that none has");
}

Result<int64_t> Number(SqliteDatabase* database, const Numbered& numbered, TenantId tenant,
                       int64_t id) {
  int64_t number = 0;  // Also where the tenant has no row.
  {
    Query query = database->Select(numbered.next, tenant);
    ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (found) number = query.Int(0);
  }
  if (number < 1 || number > kMaxNumber) return CantBeNext(numbered, tenant, number);
  ATTNDB_RETURN_IF_ERROR(database->Run(numbered.advance, tenant));
  ATTNDB_RETURN_IF_ERROR(database->Run(numbered.insert, id, tenant, number));
  if (database->num_changes() == 0) return CantBeNext(numbered, tenant, number);
  return number;
}

}  // namespace

Status BeginNumbers(SqliteDatabase* database, TenantId tenant) {
  return database->Run(
      "INSERT OR IGNORE INTO next_numbers(tenant, context, segment) VALUES(?, 1, 1)", tenant);
}

Result<ContextNumber> NumberContext(SqliteDatabase* database, TenantId tenant, ContextId context) {
  ATTNDB_ASSIGN_OR_RETURN(const int64_t number,
                          Number(database, kContexts, tenant, static_cast<int64_t>(context)));
  return static_cast<ContextNumber>(number);
}

Status NumberSegment(SqliteDatabase* database, TenantId tenant, SegmentId segment) {
  return Number(database, kSegments, tenant, segment).status();
}

Status NumberAllById(SqliteDatabase* database) {
  return database->Execute(
      "INSERT INTO context_numbers(context, tenant, number) SELECT id, tenant, id FROM contexts;\n"
      "INSERT INTO segment_numbers(segment, tenant, number) SELECT id, tenant, id FROM segments;\n"
      "INSERT INTO next_numbers(tenant, context, segment) SELECT id,\n"
      "  1 + ifnull((SELECT max(number) FROM context_numbers WHERE tenant = t.id), 0),\n"
      "  1 + ifnull((SELECT max(number) FROM segment_numbers WHERE tenant = t.id), 0)\n"
      "  FROM tenants t");
}

Status ViewIdsAsNumbers(SqliteDatabase* database) {
  return database->Execute(
      "CREATE TEMP VIEW context_numbers AS\n"
      "  SELECT id AS context, tenant, id AS number FROM contexts;\n"
      "CREATE TEMP VIEW segment_numbers AS\n"
      "  SELECT id AS segment, tenant, id AS number FROM segments");
}

}  // namespace attndb::store
