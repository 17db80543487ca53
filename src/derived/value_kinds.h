// Value planes and value means (index/planes/value_planes.h) as derived objects:
// docs/formats/value_planes.md. Both are made of V alone and differ only in their type.
//
// Threads: constant; thread-safe.
#ifndef ATTNDB_DERIVED_VALUE_KINDS_H_
#define ATTNDB_DERIVED_VALUE_KINDS_H_

#include <memory>

#include "derived/kind.h"

namespace attndb::derived {

std::unique_ptr<const Kind> MakeValuePlanesKind();
std::unique_ptr<const Kind> MakeValueMeansKind();

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_VALUE_KINDS_H_
