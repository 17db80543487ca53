// A sealed segment in a chain: how many of its tokens the chain uses, and from which one on.
#ifndef ATTNDB_STORAGE_KV_CHAIN_ENTRY_H_
#define ATTNDB_STORAGE_KV_CHAIN_ENTRY_H_

#include <cstdint>
#include <memory>

#include "storage/kv/segment.h"

namespace attndb::storage {

struct ChainEntry {
  std::shared_ptr<Segment> segment;
  uint64_t num_tokens_used = 0;
  uint64_t first_token = 0;  // Index in the segment of the first token that is used.
};

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_CHAIN_ENTRY_H_
