#include "db/stored_clusters.h"

#include <memory>
#include <string>
#include <utility>

#include "db/plane_sources.h"
#include "db/stored_heads.h"
#include "index/clustered/clustered_keys.h"
#include "storage/vfs/format.h"

namespace attndb::internal {
namespace {

enum Part : uint32_t { kPlanes, kOrder, kNumParts };

uint64_t HeadBytes(const storage::Segment& segment, LayerId layer) {
  return index::ClusteredKeys::BytesFor(segment.num_tokens(), KeyElements(segment, layer));
}

Result<HeadIndex> ReadHead(const storage::Companion& companion, const storage::Segment& segment,
                           LayerId layer, uint32_t kv_head) {
  HeadIndex head;
  const storage::PartPlace planes = {layer, kv_head, kPlanes};
  if (companion.num_rows(planes) == 0) return head;
  ATTNDB_ASSIGN_OR_RETURN(storage::ObjectRange plane_range, companion.ReadPart(planes));
  ATTNDB_ASSIGN_OR_RETURN(storage::ObjectRange order_range,
                          companion.ReadPart({layer, kv_head, kOrder}));
  ATTNDB_ASSIGN_OR_RETURN(
      index::ClusteredKeys keys,
      index::ClusteredKeys::Parse({plane_range.bytes, order_range.bytes},
                                  {segment.num_tokens(), KeyElements(segment, layer)},
                                  storage::Describe(companion.name()) + ", layer " +
                                      std::to_string(layer) + ", head " + std::to_string(kv_head)));
  head.index = std::make_unique<const index::ClusteredKeys>(std::move(keys));
  head.parts.push_back(std::move(plane_range.buffer));
  head.parts.push_back(std::move(order_range.buffer));
  return head;
}

Status WriteHead(const storage::Segment& segment, LayerId layer, uint32_t kv_head,
                 const PlaneSources& sources, storage::CompanionWriter* writer) {
  ATTNDB_ASSIGN_OR_RETURN(const storage::HeadRows rows, segment.ReadKeys(layer, kv_head));
  ATTNDB_ASSIGN_OR_RETURN(const index::ClusteredKeys keys,
                          index::ClusteredKeys::Build(sources.Of(kv_head, rows.data())));
  const index::ClusterParts parts = keys.num_keys() == 0 ? index::ClusterParts() : keys.parts();
  ATTNDB_RETURN_IF_ERROR(writer->AddPart(parts.planes, keys.num_keys()));
  return writer->AddPart(parts.order, keys.num_keys());
}

}  // namespace

const CompanionKind& ClustersForm::kind() const {
  // A search of fewer tokens takes no less time than a scan of their planes.
  static const CompanionKind kKind = {
      "clusters_3", {"planes", "order"}, 2048, /*former=*/{"clusters_1", "clusters_2"}};
  return kKind;
}

uint64_t ClustersForm::MemoryBytes(const storage::Segment& segment, LayerId layer) const {
  // Read in whole granules: each part begins and ends inside one.
  constexpr uint64_t kEnds = uint64_t{2} * kNumParts * storage::kGranuleBytes;
  return segment.shape().layers[layer].num_kv_heads * (HeadBytes(segment, layer) + kEnds);
}

uint64_t ClustersForm::ObjectBytes(const storage::Segment& segment) const {
  return SumOverHeads(segment, [&](LayerId layer) { return HeadBytes(segment, layer); });
}

Result<std::vector<HeadIndex>> ClustersForm::Read(const storage::Companion& companion,
                                                  const storage::Segment& segment,
                                                  LayerId layer) const {
  return ReadHeads<HeadIndex>(
      segment, layer, [&](uint32_t head) { return ReadHead(companion, segment, layer, head); });
}

Status ClustersForm::Write(const storage::Segment& segment, const ModelSpec& spec, ThreadPool*,
                           storage::CompanionWriter* writer,
                           const std::function<void(LayerId)>& layer_done) const {
  const auto begin = [&](LayerId layer) {
    return [&segment, layer, writer, sources = PlaneSources(segment, layer, spec.layers[layer])](
               uint32_t head) { return WriteHead(segment, layer, head, sources, writer); };
  };
  return WriteHeads(segment, spec, kNumParts, writer, begin, layer_done);
}

}  // namespace attndb::internal
