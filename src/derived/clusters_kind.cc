#include "derived/clusters_kind.h"

#include <utility>

#include "derived/kinds.h"
#include "derived/owned_head.h"
#include "derived/plane_sources.h"
#include "index/clustered/clustered_keys.h"

namespace attndb::derived {
namespace {

class ClustersKind final : public Kind {
 public:
  ClustersKind()
      : Kind({.use = std::string(kClusters),
              .object = "clusters_3",
              .parts = {"planes", "order"},
              // A search of fewer tokens takes no less time than a scan of their planes.
              .min_tokens = 2048,
              .former = {"clusters_1", "clusters_2"},
              .slow = true}) {}

  uint64_t HeadBytes(const storage::KvRun& run, LayerId layer, const LayerSpec&) const override {
    return index::ClusteredKeys::BytesFor(run.num_tokens(), KeyElements(run, layer));
  }

  Result<BuiltHead> Build(const HeadSource& source) const override {
    ATTNDB_ASSIGN_OR_RETURN(index::ClusteredKeys keys, index::ClusteredKeys::Build(*source.keys));
    if (keys.num_keys() == 0) return BuiltHead();
    const auto owned = Own(std::move(keys));
    const index::ClusterParts& parts = owned->object.parts();
    return BuiltHead{HeadOf(owned), {parts.planes, parts.order}, owned->object.num_keys()};
  }

  Result<Head> Parse(HeadParts parts) const override {
    ATTNDB_ASSIGN_OR_RETURN(
        index::ClusteredKeys keys,
        index::ClusteredKeys::Parse({parts.parts[0].bytes, parts.parts[1].bytes},
                                    {parts.run->num_tokens(), KeyElements(*parts.run, parts.layer)},
                                    parts.name));
    return HeadOf(Own(std::move(keys), std::move(parts.parts)));
  }

 private:
  static Head HeadOf(std::shared_ptr<const OwnedHead<index::ClusteredKeys>> owned) {
    return {.index = &owned->object, .owner = owned};
  }
};

}  // namespace

std::unique_ptr<const Kind> MakeClustersKind() { return std::make_unique<const ClustersKind>(); }

}  // namespace attndb::derived
