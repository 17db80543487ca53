#include "derived/value_kinds.h"

#include <utility>

#include "derived/kinds.h"
#include "derived/owned_head.h"
#include "index/planes/value_planes.h"
#include "kernels/layout.h"

namespace attndb::derived {
namespace {

constexpr uint64_t kMinTokens = 256;  // Like key planes: shorter segments are read whole.

index::ValueShape ShapeOf(const storage::KvRun& run, LayerId layer) {
  return {run.num_tokens(), kernels::RowElements(run.shape().layers[layer].v_head_dim)};
}

Head HeadOf(std::shared_ptr<const OwnedHead<index::ValuePlanes>> owned) {
  return {.value_planes = &owned->object.view(), .owner = owned};
}

Head HeadOf(std::shared_ptr<const OwnedHead<index::ValueMeans>> owned) {
  return {.value_means = &owned->object.view(), .owner = owned};
}

// Object: index::ValuePlanes or index::ValueMeans.
template <typename Object>
class ValueKind final : public Kind {
 public:
  using Kind::Kind;

  uint64_t HeadBytes(const storage::KvRun& run, LayerId layer, const LayerSpec&) const override {
    return Object::BytesFor(ShapeOf(run, layer));
  }

  Result<BuiltHead> Build(const HeadSource& source) const override {
    const auto [num_tokens, num_elements] = ShapeOf(*source.run, source.layer);
    const kernels::RowsView rows = {source.rows, num_elements, num_elements,
                                    source.run->shape().dtype};
    ATTNDB_ASSIGN_OR_RETURN(Object object, Object::Build(rows, num_tokens));
    if (object.num_tokens() == 0) return BuiltHead();
    const auto owned = Own(std::move(object));
    return BuiltHead{HeadOf(owned), {owned->object.bytes()}, owned->object.num_tokens()};
  }

  Result<Head> Parse(HeadParts parts) const override {
    ATTNDB_ASSIGN_OR_RETURN(
        Object object,
        Object::Parse(parts.parts[0].bytes, ShapeOf(*parts.run, parts.layer), parts.name));
    return HeadOf(Own(std::move(object), std::move(parts.parts)));
  }
};

}  // namespace

std::unique_ptr<const Kind> MakeValuePlanesKind() {
  return std::make_unique<const ValueKind<index::ValuePlanes>>(
      Kind::Traits{.use = std::string(kValuePlanes),
                   .object = "value_codes_1",
                   .parts = {"values"},
                   .min_tokens = kMinTokens,
                   .former = {"value_planes_2", "value_planes_4", "value_planes_8"},
                   .made_of = Kind::Rows::kValues});
}

std::unique_ptr<const Kind> MakeValueMeansKind() {
  return std::make_unique<const ValueKind<index::ValueMeans>>(
      Kind::Traits{.use = std::string(kValueMeans),
                   .object = "value_means_1",
                   .parts = {"values"},
                   .min_tokens = kMinTokens,
                   .former = {"value_means"},
                   .made_of = Kind::Rows::kValues});
}

}  // namespace attndb::derived
