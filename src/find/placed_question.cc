#include "find/placed_question.h"

#include <cmath>
#include <utility>

#include "kernels/layout.h"

namespace attndb::find {

bool CanTurn(const LayerSpec& layer) {
  return layer.rope.layout != RopeLayout::kNone && layer.rope.scaling.empty();
}

Turn TurnBy(const LayerSpec& layer, int64_t distance) {
  const uint32_t rope_dims = layer.rope.DimsOf(layer.head_dim);
  Turn turn;
  for (uint32_t pair = 0; pair < rope_dims / 2; ++pair) {
    const double angle =
        static_cast<double>(distance) * std::pow(layer.rope.base, -2.0 * pair / rope_dims);
    turn.cosines.push_back(static_cast<float>(std::cos(angle)));
    turn.sines.push_back(static_cast<float>(std::sin(angle)));
  }
  return turn;
}

void TurnRows(const Turn& turn, const float* from, size_t num_rows, size_t stride, float* to) {
  const size_t num_pairs = turn.cosines.size();
  const float* const cosines = turn.cosines.data();
  const float* const sines = turn.sines.data();
  for (size_t row = 0; row < num_rows; ++row, from += stride, to += stride) {
    for (size_t pair = 0; pair < num_pairs; ++pair) {
      const float x = from[pair];
      const float y = from[pair + num_pairs];
      to[pair] = x * cosines[pair] - y * sines[pair];
      to[pair + num_pairs] = x * sines[pair] + y * cosines[pair];
    }
    for (size_t i = 2 * num_pairs; i < stride; ++i) to[i] = from[i];
  }
}

PlacedQuestion::PlacedQuestion(const LayerSpec& layer, std::vector<float> rows, size_t num_tokens,
                               int64_t first_position)
    : num_tokens_(num_tokens),
      stride_(kernels::RowElements(layer.head_dim)),
      can_turn_(CanTurn(layer)),
      rows_(std::move(rows)) {
  if (!can_turn_) return;
  const Turn back = TurnBy(layer, -first_position);
  TurnRows(back, rows_.data(), num_rows(), stride_, rows_.data());
}

}  // namespace attndb::find
