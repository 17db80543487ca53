// Graphs over the keys of segments (index/graph/) as companion objects: one for each kv head,
// shared by its group of q heads.
//
// Threads: stateless.
#ifndef ATTNDB_DB_STORED_GRAPH_H_
#define ATTNDB_DB_STORED_GRAPH_H_

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

// The companion: part "graph" of docs/formats/graph.md.
class GraphForm final : public KeyIndexForm {
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

#endif  // ATTNDB_DB_STORED_GRAPH_H_
