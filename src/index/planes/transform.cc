#include "index/planes/transform.h"

#include <algorithm>

#include "common/check.h"

namespace attndb::index {
namespace {

constexpr TransformKind kTransforms[] = {
    {.id = TransformId::kLocal, .name = "local", .scan_cost = 1.15},
    {.id = TransformId::kUnbias, .name = "unbias", .removes_bias = true, .scan_cost = 2.5},
    {.id = TransformId::kTurnBlocks, .name = "turn_blocks", .scales = false, .is_choice = false},
};

}  // namespace

std::span<const TransformKind> Transforms() { return kTransforms; }

std::optional<TransformKind> FindTransform(uint32_t id) {
  const auto* const found =
      std::ranges::find(kTransforms, static_cast<TransformId>(id), &TransformKind::id);
  if (found == std::end(kTransforms)) return std::nullopt;
  return *found;
}

const TransformKind& TransformOf(TransformId id) {
  const auto* const found = std::ranges::find(kTransforms, id, &TransformKind::id);
  ATTNDB_CHECK(found != std::end(kTransforms));
  return *found;
}

}  // namespace attndb::index
