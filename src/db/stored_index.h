// Indexes of segments that find keys without scoring all of them (index/key_index.h): made from K
// and sampled queries, written as companion objects, and read back.
//
// They are written only for segments of which a plan has asked for them, by the background worker
// alone: until then K of the segment is scored.
//
// Threads: constant; thread-safe.
#ifndef ATTNDB_DB_STORED_INDEX_H_
#define ATTNDB_DB_STORED_INDEX_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "common/aligned_buffer.h"
#include "db/companion_cache.h"
#include "db/companion_form.h"
#include "index/key_index.h"
#include "storage/kv/companion.h"
#include "storage/kv/segment.h"

namespace attndb::internal {

// Of one kv head. Moving it keeps the addresses of its parts.
struct HeadIndex {
  std::unique_ptr<const index::KeyIndex> index;  // Null: the head has none, K is scored.
  std::vector<AlignedBuffer> parts;              // Where its bytes lie.

  const index::KeyIndex* get() const { return index.get(); }
};

class KeyIndexForm : public CompanionForm {
 public:
  using Head = HeadIndex;

  // Memory that a layer takes.
  virtual uint64_t MemoryBytes(const storage::Segment& segment, LayerId layer) const = 0;
  // By kv head. Errors: kCorruption, kUnsupported, kIoError.
  virtual Result<std::vector<Head>> Read(const storage::Companion& companion,
                                         const storage::Segment& segment, LayerId layer) const = 0;
};

using IndexCache = CompanionCache<KeyIndexForm>;
using LayerIndexes = IndexCache::Heads;

}  // namespace attndb::internal

#endif  // ATTNDB_DB_STORED_INDEX_H_
