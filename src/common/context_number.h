// The number by which a tenant knows a context, in contrast to the store's id.
//
// An id (ContextId) counts the contexts of all tenants, and would tell a tenant how much the others
// store. Outside of the library, a ContextId therefore holds this number.
//
// Threads: values.
#ifndef ATTNDB_COMMON_CONTEXT_NUMBER_H_
#define ATTNDB_COMMON_CONTEXT_NUMBER_H_

#include <cstdint>

#include "attndb/types.h"

namespace attndb {

// 1, 2, 3, ... in the order in which the tenant's contexts were stored; no number is used twice.
enum class ContextNumber : int64_t { kNone = 0 };

// The number as the public headers call it.
inline ContextId PublicId(ContextNumber number) {
  return static_cast<ContextId>(static_cast<int64_t>(number));
}

}  // namespace attndb

#endif  // ATTNDB_COMMON_CONTEXT_NUMBER_H_
