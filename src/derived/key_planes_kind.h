// Key planes (index/planes/key_planes.h) as derived objects: docs/formats/key_planes.md.
//
// Threads: constant; thread-safe.
#ifndef ATTNDB_DERIVED_KEY_PLANES_KIND_H_
#define ATTNDB_DERIVED_KEY_PLANES_KIND_H_

#include <memory>

#include "derived/kind.h"

namespace attndb::derived {

std::unique_ptr<const Kind> MakeKeyPlanesKind();

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_KEY_PLANES_KIND_H_
