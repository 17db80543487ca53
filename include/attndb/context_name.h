// The rule for names of contexts, and the name that an id is: shared by the store, its clients and
// servers.
//
// Names are compared byte by byte. A program that takes names from a file system with decomposed
// letters (NFD) passes decomposed names.
//
// Threads: pure functions.
#ifndef ATTNDB_CONTEXT_NAME_H_
#define ATTNDB_CONTEXT_NAME_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "attndb/export.h"
#include "attndb/status.h"
#include "attndb/types.h"

namespace attndb {

inline constexpr size_t kMaxContextNameBytes = 128;

// Accepts 1 to kMaxContextNameBytes bytes of UTF-8: ASCII letters, digits and ._:/@+- ; outside of
// ASCII, visible characters only. Refuses spaces, controls, characters that change the direction of
// a line, and private-use characters.
// Errors: kInvalidArgument naming the name and what was expected.
ATTNDB_EXPORT Status CheckContextName(std::string_view name);

// "#ID": stands for a context wherever its name does. No other context of its tenant ever has it.
ATTNDB_EXPORT std::string IdName(ContextId id);

}  // namespace attndb

#endif  // ATTNDB_CONTEXT_NAME_H_
