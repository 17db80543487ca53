// Objects of a caller's own type (attndb/custom_index.h): a kind for each type that a store was
// opened with.
//
// Threads: stateless but for the type, which is thread-safe by its own promise.
#ifndef ATTNDB_DERIVED_CUSTOM_KIND_H_
#define ATTNDB_DERIVED_CUSTOM_KIND_H_

#include <memory>
#include <string>
#include <string_view>

#include "attndb/custom_index.h"
#include "derived/kind.h"

namespace attndb::derived {

// The name that plans and sessions call the type's kind by, which is also its objects' name.
std::string CustomUse(std::string_view name);

std::unique_ptr<const Kind> MakeCustomKind(const CustomIndexType& type);

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_CUSTOM_KIND_H_
