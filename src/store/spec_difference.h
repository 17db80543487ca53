// Names the first field in which two models' specs differ, where a caller named a context.
//
// Threads: stateless.
#ifndef ATTNDB_STORE_SPEC_DIFFERENCE_H_
#define ATTNDB_STORE_SPEC_DIFFERENCE_H_

#include <string>

#include "attndb/types.h"

namespace attndb::store {

// "layer 3: num_kv_heads 2, expected 4": the first field that differs. REQUIRES: one does.
std::string SpecDifference(const ModelSpec& found, const ModelSpec& expected);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_SPEC_DIFFERENCE_H_
