// Value planes of segments: made from V, written as companion objects, and read back.
//
// Threads: constant; thread-safe.
#ifndef ATTNDB_DB_STORED_VALUES_H_
#define ATTNDB_DB_STORED_VALUES_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "common/aligned_buffer.h"
#include "db/companion_cache.h"
#include "db/companion_files.h"
#include "db/companion_form.h"
#include "index/planes/value_planes.h"
#include "storage/kv/companion.h"
#include "storage/kv/companion_writer.h"
#include "storage/kv/segment.h"

namespace attndb::internal {

// Of one kv head. Moving it keeps the addresses of its bytes.
struct HeadValues {
  index::ValuePlanes planes;  // Of no tokens: the head has none, V is read.
  AlignedBuffer bytes;        // Where they lie, if they were read and not built.

  const kernels::ValuePlanesView* get() const {
    return planes.num_tokens() == 0 ? nullptr : &planes.view();
  }
};

// The companion of these bits: one part a head, of docs/formats/value_planes.md. It is written only
// for segments of which a plan has read it.
class ValuePlanesForm final : public CompanionForm {
 public:
  using Head = HeadValues;

  explicit ValuePlanesForm(uint32_t bits);  // 8, or 0 (means alone).

  const CompanionKind& kind() const override { return kind_; }
  uint64_t ObjectBytes(const storage::Segment& segment) const override;
  Status Write(const storage::Segment& segment, const ModelSpec& spec, ThreadPool* pool,
               storage::CompanionWriter* writer,
               const std::function<void(LayerId)>& layer_done) const override;

  // Memory that a layer takes, built or read.
  uint64_t MemoryBytes(const storage::Segment& segment, LayerId layer) const;
  // By kv head. Errors: kResourceExhausted,
  Result<std::vector<Head>> Build(const storage::Segment& segment, LayerId layer,
                                  const LayerSpec& spec, const storage::LayerPin& pin) const;
  // ... kCorruption, kUnsupported, kIoError.
  Result<std::vector<Head>> Read(const storage::Companion& companion,
                                 const storage::Segment& segment, LayerId layer) const;

 private:
  index::ValueShape ShapeOf(const storage::Segment& segment, LayerId layer) const;
  Status WriteHead(const storage::Segment& segment, LayerId layer, uint32_t kv_head,
                   storage::CompanionWriter* writer) const;

  const uint32_t bits_;
  const CompanionKind kind_;
};

using ValueCache = CompanionCache<ValuePlanesForm>;
using LayerValues = ValueCache::Heads;

}  // namespace attndb::internal

#endif  // ATTNDB_DB_STORED_VALUES_H_
