#include "db/search_factory.h"

#include "index/flat/flat_search.h"
#include "index/flat/mass_search.h"

namespace attndb::internal {

std::unique_ptr<const index::CriticalSearch> MakeSearch(const query::LayerPlan& plan,
                                                        const LayerSpec& layer) {
  switch (plan.kind) {
    case query::QueryKind::kFull:
    case query::QueryKind::kWindow:
      return nullptr;
    case query::QueryKind::kTopK:
      return std::make_unique<index::FlatTopK>(plan.k);
    case query::QueryKind::kDipr:
      return std::make_unique<index::FlatDipr>(static_cast<float>(plan.Beta(layer.scale)));
    case query::QueryKind::kMass:
    case query::QueryKind::kAuto:
      return std::make_unique<index::MassSearch>(plan.Mass(),
                                                 kernels::LogitSpec{layer.scale, layer.soft_cap});
  }
  return nullptr;
}

}  // namespace attndb::internal
