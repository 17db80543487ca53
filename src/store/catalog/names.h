// The rule for names of tenants, and the numbers of contexts as text.
//
// Errors:  kInvalidArgument naming the name and what was expected.
// Threads: pure functions.
#ifndef ATTNDB_STORE_CATALOG_NAMES_H_
#define ATTNDB_STORE_CATALOG_NAMES_H_

#include <optional>
#include <string_view>

#include "attndb/status.h"
#include "common/context_number.h"

namespace attndb::store {

// 1 to 64 of [A-Za-z0-9._-].
Status CheckTenantName(std::string_view name);

// "#12" is the tenant's context with number 12; nullopt for any other text.
std::optional<ContextNumber> ParseContextNumber(std::string_view text);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_NAMES_H_
