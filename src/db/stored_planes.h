// Key planes of segments: made from K, written as companion objects, and read back.
//
// Threads: stateless.
#ifndef ATTNDB_DB_STORED_PLANES_H_
#define ATTNDB_DB_STORED_PLANES_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "common/aligned_buffer.h"
#include "db/companion_cache.h"
#include "db/companion_files.h"
#include "db/companion_form.h"
#include "index/planes/key_planes.h"
#include "storage/kv/companion.h"
#include "storage/kv/companion_writer.h"
#include "storage/kv/segment.h"

namespace attndb::internal {

// Of one kv head. Moving it keeps the addresses of its parts.
struct HeadPlanes {
  index::KeyPlanes planes;  // Of no keys: the head has none, K is scanned.
  // Where the parts lie, if they were read and not built.
  AlignedBuffer main;
  AlignedBuffer low;

  const index::KeyPlanes* get() const { return planes.num_keys() == 0 ? nullptr : &planes; }
};

// The companion: parts "main" and "low" of docs/formats/key_planes.md.
class KeyPlanesForm final : public CompanionForm {
 public:
  using Head = HeadPlanes;

  const CompanionKind& kind() const override;
  uint64_t ObjectBytes(const storage::Segment& segment) const override;
  Status Write(const storage::Segment& segment, const ModelSpec& spec, ThreadPool* pool,
               storage::CompanionWriter* writer,
               const std::function<void(LayerId)>& layer_done) const override;

  // Memory that the planes of a layer take, built or read.
  uint64_t MemoryBytes(const storage::Segment& segment, LayerId layer) const;
  // By kv head. Errors: kResourceExhausted,
  Result<std::vector<Head>> Build(const storage::Segment& segment, LayerId layer,
                                  const LayerSpec& spec, const storage::LayerPin& pin) const;
  // ... kCorruption, kUnsupported, kIoError.
  Result<std::vector<Head>> Read(const storage::Companion& companion,
                                 const storage::Segment& segment, LayerId layer) const;
};

using PlaneCache = CompanionCache<KeyPlanesForm>;
using LayerPlanes = PlaneCache::Heads;

}  // namespace attndb::internal

#endif  // ATTNDB_DB_STORED_PLANES_H_
