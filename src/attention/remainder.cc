#include "attention/remainder.h"

#include <algorithm>
#include <limits>

#include "kernels/weights.h"

namespace attndb::attention {
namespace {

using kernels::kWeightBlock;

// Tokens of a block that are passed over at once where no point falls on them.
constexpr size_t kGroup = 8;

// Draws points on a line, one every `share`.
class Draw {
 public:
  Draw(const RemainderDraw& draw, uint32_t* indices)
      : share_(draw.mass / draw.num_samples),
        point_(draw.offset * share_),
        num_left_(draw.num_samples),
        next_(indices) {}

  bool done() const { return num_left_ == 0; }
  // Whether a point falls before `end`.
  bool Reaches(double end) const { return point_ < end; }
  // Gives the points before `end` to `token`.
  void Give(double end, uint32_t token) {
    for (; point_ < end && num_left_ > 0; point_ += share_, --num_left_) *next_++ = token;
  }
  void GiveRest(uint32_t token) { Give(std::numeric_limits<double>::infinity(), token); }

 private:
  const double share_;
  double point_;
  uint32_t num_left_;
  uint32_t* next_;
};

// Weights laid end to end from `begin` on; weights past `count` are 0. Sets *last to the last token
// of any weight.
void DrawFromBlock(const float* weights, size_t count, double begin, uint32_t first_token,
                   Draw* draw, uint32_t* last) {
  float sums[kWeightBlock / kGroup] = {};
  for (size_t i = 0; i < kGroup; ++i) {
    for (size_t g = 0; g < kWeightBlock / kGroup; ++g) sums[g] += weights[g * kGroup + i];
  }
  for (size_t g = 0; g * kGroup < count; ++g) {
    const double end = begin + double{sums[g]};
    if (sums[g] != 0 && draw->Reaches(end)) {
      double token_end = begin;
      for (size_t i = g * kGroup; i < (g + 1) * kGroup; ++i) {
        if (weights[i] == 0) continue;
        token_end += double{weights[i]};
        *last = first_token + static_cast<uint32_t>(i);
        draw->Give(token_end, *last);
      }
      draw->Give(end, *last);  // The rest by rounding.
    }
    begin = end;
  }
}

}  // namespace

double RemainderMass(const RemainderCall& call) {
  return index::WeighRange(call.view, call.middle, call.logit, call.max, call.masses);
}

void DrawRemainder(const RemainderCall& call, const RemainderDraw& wanted, uint32_t* indices) {
  const size_t first_block = index::FirstBlock(call.middle);
  const size_t num_blocks = index::NumBlocks(call.middle);
  Draw draw(wanted, indices);
  double block_begin = 0;
  uint32_t last = static_cast<uint32_t>(call.middle.begin);
  for (size_t b = 0; b < num_blocks && !draw.done(); ++b) {
    const double block_end = block_begin + double{call.masses[b]};
    if (draw.Reaches(block_end) && call.masses[b] != 0) {
      const size_t at = (first_block + b) * kWeightBlock;
      const size_t begin = std::max<size_t>(at, call.middle.begin);
      const size_t count = std::min<size_t>(at + kWeightBlock, call.middle.end) - begin;
      kernels::ExpWeights(call.view.scores + begin, count, call.logit, call.max, call.weights);
      std::fill(call.weights + count, call.weights + kWeightBlock, 0.0f);
      DrawFromBlock(call.weights, count, block_begin, static_cast<uint32_t>(begin), &draw, &last);
    }
    block_begin = block_end;
  }
  draw.GiveRest(last);
}

}  // namespace attndb::attention
