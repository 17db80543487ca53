// Rankings of tokens by the prompt's last queries (index/prefill/) as derived objects:
// docs/formats/prefill_ranking.md.
//
// Threads: constant; thread-safe.
#ifndef ATTNDB_DERIVED_PREFILL_KIND_H_
#define ATTNDB_DERIVED_PREFILL_KIND_H_

#include <memory>

#include "derived/kind.h"

namespace attndb::derived {

std::unique_ptr<const Kind> MakePrefillKind();

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_PREFILL_KIND_H_
