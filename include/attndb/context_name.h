// What contexts may be called: one rule for the store, its clients and servers.
//
// Names are compared byte by byte: who takes them from files of a system that takes letters apart
// (NFD) gets them so.
//
// Threads: pure functions.
#ifndef ATTNDB_CONTEXT_NAME_H_
#define ATTNDB_CONTEXT_NAME_H_

#include <cstddef>
#include <string_view>

#include "attndb/export.h"
#include "attndb/status.h"

namespace attndb {

inline constexpr size_t kMaxContextNameBytes = 128;

// 1 to kMaxContextNameBytes bytes of UTF-8: of ASCII letters, digits and ._:/@+- ; of the rest of
// Unicode what is visible: no spaces, no controls, nothing that turns the direction of a line, and
// nothing for private use.
// Errors: kInvalidArgument naming the name and what was expected.
ATTNDB_EXPORT Status CheckContextName(std::string_view name);

}  // namespace attndb

#endif  // ATTNDB_CONTEXT_NAME_H_
