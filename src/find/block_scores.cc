#include "find/block_scores.h"

#include <algorithm>
#include <limits>

#include "common/aligned_buffer.h"
#include "kernels/layout.h"
#include "kernels/score.h"
#include "kernels/select.h"
#include "storage/kv/kv_layout.h"

namespace attndb::find {
std::vector<Turn> TurnsBehind(const LayerSpec& layer, uint64_t block_tokens, size_t num_blocks) {
  std::vector<Turn> turns;
  const std::vector<double> frequencies = FrequenciesOf(layer);
  if (frequencies.empty()) return turns;
  turns.reserve(num_blocks);
  for (size_t block = 0; block < num_blocks; ++block) {
    turns.emplace_back(frequencies, static_cast<int64_t>((block + 1) * block_tokens));
  }
  return turns;
}

Status ScoreRun(const KeyRun& keys, const HeadKeys& head, const PlacedQuestion& question,
                const std::vector<Turn>& turns, const Blocks& blocks, size_t run, float* maxima) {
  const size_t num_rows = question.num_rows();
  const size_t stride = question.stride();
  if (keys.keys->non_finite(head.layer, head.kv_head)) {
    SilenceRun(blocks, run, num_rows, maxima);
    return Status::Ok();
  }
  ATTNDB_ASSIGN_OR_RETURN(const storage::HeadRows rows,
                          keys.keys->ReadRows(head.layer, head.kv_head, storage::RowPart::kKeys));
  const size_t block_tokens = blocks.block_tokens();
  ATTNDB_ASSIGN_OR_RETURN(
      AlignedBuffer buffer,
      AlignedBuffer::Allocate(num_rows * (2 * stride + block_tokens) * sizeof(float)));
  auto* const from_here = reinterpret_cast<float*>(buffer.data());
  float* const placed = from_here + num_rows * stride;
  float* const scores = placed + num_rows * stride;
  if (question.can_turn()) {
    question.TurnBy(keys.keys->first_position()).Rows(question.rows(), num_rows, stride, from_here);
  } else {
    std::copy_n(question.rows(), num_rows * stride, placed);
  }
  const kernels::RowsView k = {.data = rows.data(),
                               .stride = stride,
                               .num_elements = stride,
                               .dtype = keys.keys->shape().dtype};
  const size_t first_block = blocks.first_block(run);
  const size_t num_blocks = blocks.first_block(run + 1) - first_block;
  for (size_t block = 0; block < num_blocks; ++block) {
    const uint64_t begin = std::max<uint64_t>(block * block_tokens, keys.num_sinks);
    const uint64_t end = std::min<uint64_t>((block + 1) * block_tokens, keys.num_tokens);
    const size_t n = end - std::min(begin, end);
    if (question.can_turn()) turns[block].Rows(from_here, num_rows, stride, placed);
    kernels::ScoreRows(kernels::RowsFrom(k, begin), n, placed, stride, num_rows, scores,
                       block_tokens);
    for (size_t row = 0; row < num_rows; ++row) {
      maxima[row * blocks.num_blocks() + first_block + block] =
          n == 0 ? std::numeric_limits<float>::quiet_NaN()
                 : kernels::MaxScore(scores + row * block_tokens, n);
    }
  }
  return Status::Ok();
}

void SilenceRun(const Blocks& blocks, size_t run, size_t num_rows, float* maxima) {
  for (size_t row = 0; row < num_rows; ++row) {
    float* const first = maxima + row * blocks.num_blocks();
    std::fill(first + blocks.first_block(run), first + blocks.first_block(run + 1),
              std::numeric_limits<float>::quiet_NaN());
  }
}

}  // namespace attndb::find
