// Objects of a caller's own type (attndb/custom_index.h): a kind for each type that a store was
// opened with.
//
// Threads: stateless, except for the type, which promises to be thread-safe.
#ifndef ATTNDB_DERIVED_CUSTOM_KIND_H_
#define ATTNDB_DERIVED_CUSTOM_KIND_H_

#include <memory>
#include <string>
#include <string_view>

#include "attndb/custom_index.h"
#include "derived/kind.h"

namespace attndb::derived {

// The name of the type's kind in plans and sessions, and of its objects.
std::string CustomUse(std::string_view name);

std::unique_ptr<const Kind> MakeCustomKind(const CustomIndexType& type);

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_CUSTOM_KIND_H_
