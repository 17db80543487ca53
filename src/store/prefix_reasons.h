// Why no more of a prompt is reused than is, in words.
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

// A sentence each. `report` is of these tokens.
std::vector<std::string> PrefixReasons(const PrefixReport& report, std::span<const TokenId> tokens,
                                       const SessionOptions& options);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_PREFIX_REASONS_H_
