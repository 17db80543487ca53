#include "session/turn_tables.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/rope_frequencies.h"

namespace attndb::internal {

Result<TurnTables> TurnTables::Of(const ModelSpec& spec) {
  TurnTables tables;
  bool any_rope = false;
  for (LayerId layer = 0; layer < spec.num_layers(); ++layer) {
    const LayerSpec& shape = spec.layers[layer];
    any_rope = any_rope || shape.rope.layout != RopeLayout::kNone;
    const auto same = std::ranges::find_if(tables.kinds_, [&](const Kind& kind) {
      return kind.rope == shape.rope && kind.head_dim == shape.head_dim;
    });
    tables.kind_of_layer_.push_back(static_cast<size_t>(same - tables.kinds_.begin()));
    if (same != tables.kinds_.end()) continue;
    Result<std::vector<double>> frequencies = RopeFrequencies(shape.rope, shape.head_dim);
    if (!frequencies.ok()) {
      return frequencies.status().WithContext("layer " + std::to_string(layer));
    }
    tables.kinds_.push_back({shape.rope, shape.head_dim, *std::move(frequencies), {}, {}});
  }
  if (any_rope) return tables;
  return Status::Unsupported(
      "no layer has rotary positions: tokens of learned absolute positions can't stand at others");
}

void TurnTables::SetMoves(std::span<const int64_t> moves) {
  for (Kind& kind : kinds_) {
    kind.turns.clear();
    for (const int64_t move : moves) kind.turns.emplace_back(kind.frequencies, -move);
  }
}

void TurnTables::SetShift(int64_t positions) {
  for (Kind& kind : kinds_) {
    kind.shift.clear();
    if (positions != 0) kind.shift.emplace_back(kind.frequencies, positions);
  }
}

}  // namespace attndb::internal
