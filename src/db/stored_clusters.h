// Clustered keys of segments (index/clustered/) as companion objects.
//
// Threads: stateless.
#ifndef ATTNDB_DB_STORED_CLUSTERS_H_
#define ATTNDB_DB_STORED_CLUSTERS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "db/companion_files.h"
#include "db/stored_index.h"
#include "storage/kv/companion.h"
#include "storage/kv/companion_writer.h"
#include "storage/kv/segment.h"

namespace attndb::internal {

// The companion: parts "planes" and "order" of docs/formats/clusters.md.
class ClustersForm final : public KeyIndexForm {
 public:
  const CompanionKind& kind() const override;
  uint64_t ObjectBytes(const storage::Segment& segment) const override;
  Status Write(const storage::Segment& segment, const ModelSpec& spec, ThreadPool* pool,
               storage::CompanionWriter* writer,
               const std::function<void(LayerId)>& layer_done) const override;
  uint64_t MemoryBytes(const storage::Segment& segment, LayerId layer) const override;
  Result<std::vector<Head>> Read(const storage::Companion& companion,
                                 const storage::Segment& segment, LayerId layer) const override;
};

}  // namespace attndb::internal

#endif  // ATTNDB_DB_STORED_CLUSTERS_H_
