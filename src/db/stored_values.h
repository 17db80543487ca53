// Value planes and value means of segments: made from V, written as companion objects, and read
// back.
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
template <typename Object>
struct HeadValues {
  Object object;        // Of no tokens: the head has none, V is read.
  AlignedBuffer bytes;  // Where it lies, if it was read and not built.

  const typename Object::View* get() const {
    return object.num_tokens() == 0 ? nullptr : &object.view();
  }
};

// The companion: one part a head, of docs/formats/value_planes.md. It is written only for segments
// of which a plan has read it. Object: index::ValuePlanes or index::ValueMeans.
template <typename Object>
class ValueForm final : public CompanionForm {
 public:
  using Head = HeadValues<Object>;

  const CompanionKind& kind() const override;
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
};

template <>
const CompanionKind& ValueForm<index::ValuePlanes>::kind() const;
template <>
const CompanionKind& ValueForm<index::ValueMeans>::kind() const;
extern template class ValueForm<index::ValuePlanes>;
extern template class ValueForm<index::ValueMeans>;

using ValuePlanesForm = ValueForm<index::ValuePlanes>;
using ValueMeansForm = ValueForm<index::ValueMeans>;
using ValueCache = CompanionCache<ValuePlanesForm>;
using MeansCache = CompanionCache<ValueMeansForm>;
using LayerValues = ValueCache::Heads;
using LayerMeans = MeansCache::Heads;

}  // namespace attndb::internal

#endif  // ATTNDB_DB_STORED_VALUES_H_
