// Says in words why no more of a prompt is reused.
//
// Threads: stateless.
#ifndef ATTNDB_STORE_PREFIX_REASONS_H_
#define ATTNDB_STORE_PREFIX_REASONS_H_

#include <span>
#include <string>
#include <vector>

#include "attndb/options.h"
#include "attndb/types.h"
#include "store/catalog/catalog_types.h"

namespace attndb::store {

// One sentence for each reason. `report` is about `tokens`.
std::vector<std::string> PrefixReasons(const PrefixReport& report, std::span<const TokenId> tokens,
                                       const SessionOptions& options);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_PREFIX_REASONS_H_
