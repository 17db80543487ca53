#include "derived/kinds.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "derived/blocks_kind.h"
#include "derived/clusters_kind.h"
#include "derived/graph_kind.h"
#include "derived/key_planes_kind.h"
#include "derived/pq_kind.h"
#include "derived/prefill_kind.h"
#include "derived/value_kinds.h"
#include "derived/wave_kind.h"

namespace attndb::derived {

void Kinds::Add(std::unique_ptr<const Kind> kind) {
  ATTNDB_CHECK(kinds_.size() < kMost);
  for (const auto& other : kinds_) {
    ATTNDB_CHECK(other->traits().use != kind->traits().use);
    ATTNDB_CHECK(other->traits().object != kind->traits().object);
  }
  kinds_.push_back(std::move(kind));
}

size_t Kinds::NumberOf(const Kind& kind) const {
  const auto found = std::ranges::find(kinds_, &kind, &std::unique_ptr<const Kind>::get);
  ATTNDB_CHECK(found != kinds_.end());
  return static_cast<size_t>(found - kinds_.begin());
}

const Kind& Kinds::ForUse(std::string_view use) const {
  const auto found =
      std::ranges::find_if(kinds_, [use](const auto& kind) { return kind->traits().use == use; });
  ATTNDB_CHECK(found != kinds_.end());
  return **found;
}

const Kind* Kinds::FindObject(std::string_view object) const {
  const auto found = std::ranges::find_if(
      kinds_, [object](const auto& kind) { return kind->traits().object == object; });
  return found == kinds_.end() ? nullptr : found->get();
}

Kinds BuiltinKinds(const KindOptions& options) {
  Kinds kinds;
  kinds.Add(MakeKeyPlanesKind());
  kinds.Add(MakeValuePlanesKind());
  kinds.Add(MakeValueMeansKind());
  kinds.Add(MakePrefillKind());
  kinds.Add(MakeClustersKind());
  for (auto& kind : MakeGraphKinds(options)) kinds.Add(std::move(kind));
  for (auto& kind : MakePqKinds(options.kmeans_iterations)) kinds.Add(std::move(kind));
  for (auto& kind : MakeBlocksKinds()) kinds.Add(std::move(kind));
  for (auto& kind : MakeWaveKinds(options.kmeans_iterations)) kinds.Add(std::move(kind));
  return kinds;
}

}  // namespace attndb::derived
