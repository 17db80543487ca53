#include "find/placed_question.h"

#include <utility>

#include "common/rope_frequencies.h"
#include "kernels/layout.h"

namespace attndb::find {

std::vector<double> FrequenciesOf(const LayerSpec& layer) {
  Result<std::vector<double>> frequencies = RopeFrequencies(layer.rope, layer.head_dim);
  return frequencies.ok() ? *std::move(frequencies) : std::vector<double>();
}

PlacedQuestion::PlacedQuestion(const LayerSpec& layer, std::vector<float> rows, size_t num_tokens,
                               int64_t first_position)
    : num_tokens_(num_tokens),
      stride_(kernels::RowElements(layer.head_dim)),
      frequencies_(FrequenciesOf(layer)),
      rows_(std::move(rows)) {
  if (can_turn()) TurnBy(-first_position).Rows(rows_.data(), num_rows(), stride_, rows_.data());
}

}  // namespace attndb::find
