#include "attention/mass_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/call_util.h"
#include "common/infinity.h"
#include "kernels/select.h"
#include "kernels/value_planes.h"
#include "kernels/weights.h"

namespace attndb::attention {
namespace {

using kernels::kWeightBlock;

// Blocks whose weights are summed at a time.
constexpr size_t kTileBlocks = 64;

// The largest possible weight of the tokens left out, and of their values, within the norms'
// bounds.
struct Left {
  double mass = 0;
  double reach = 0;    // Sum of weights times norms.
  double longest = 0;  // Largest of the norms.

  void Add(double block_mass, double norm) {
    mass += block_mass;
    reach += block_mass * norm;
    longest = std::max(longest, norm);
  }
};

// Sums over blocks of 64 tokens. A run with planes has their blocks, counted from its begin.
class MassSum {
 public:
  // Weights are relative to exp(max).
  MassSum(const MassBoundCall& call, float max, CallCost* cost)
      : call_(call), max_(max), cost_(cost) {}

  double OfChosen() const {
    double mass = 0;
    const size_t count = call_.chosen_scores.size();
    for (size_t first = 0; first < count; first += kTileBlocks * kWeightBlock) {
      float sums[kTileBlocks];
      const size_t num = std::min(kTileBlocks * kWeightBlock, count - first);
      Weigh(call_.chosen_scores.data() + first, num, sums);
      for (size_t b = 0; b < kernels::NumWeightBlocks(num); ++b) mass += double{sums[b]};
    }
    return mass;
  }

  // At most, of the middle tokens of a run that were not chosen.
  Status AddLeft(const HeadRun& run, Left* left) const {
    const TokenRange tokens = Intersect(run.tokens, call_.middle);
    if (tokens.begin == tokens.end) return Status::Ok();
    if (run.means == nullptr) ATTNDB_RETURN_IF_ERROR(ReadValues(run, tokens));
    index::EstimateQuery query;
    double shift = 0;
    if (IsEstimated(run)) {
      query = run.estimates->Prepare(call_.q, call_.spare, call_.codes);
      const float error = ScoreError(*run.estimates, call_.bits, call_.q, run.k_elements);
      // The margin covers the five roundings of a score, in each of which the shift takes part.
      shift = double{ScoreShift(error, call_.logit.scale)} * (1 + 0x1p-20);
    }
    for (uint64_t begin = tokens.begin; begin < tokens.end;) {
      const uint64_t block = run.RowOf(begin) / kWeightBlock;
      // Up to whole blocks first.
      const bool whole = begin == run.origin + block * kWeightBlock;
      const uint64_t num_blocks = whole ? kTileBlocks : 1;
      const uint64_t tile_end = run.origin + (block + num_blocks) * kWeightBlock;
      const TokenRange tile = {begin, std::min(tile_end, tokens.end)};
      AddTile(run, query, shift, tile, left);
      begin = tile.end;
    }
    return Status::Ok();
  }

 private:
  // Whether scores of the run's middle tokens are estimates, except in its outlier blocks.
  bool IsEstimated(const HeadRun& run) const { return call_.bits != 0 && run.estimates != nullptr; }

  // For NormOf.
  Status ReadValues(const HeadRun& run, TokenRange tokens) const {
    call_.rows->Clear();
    call_.rows->Request(run.v_strip(), run.RowOf(tokens.begin), tokens.end - tokens.begin);
    return call_.rows->Read();
  }

  void Weigh(const float* scores, size_t count, float* sums) const {
    kernels::SumWeights(scores, count, call_.logit, max_, sums);
  }

  // REQUIRES: the tile begins with a block or lies in one.
  void AddTile(const HeadRun& run, const index::EstimateQuery& query, double shift, TokenRange tile,
               Left* left) const {
    float sums[kTileBlocks];
    double lifts[kTileBlocks];
    const size_t count = tile.end - tile.begin;
    const size_t num_blocks = kernels::NumWeightBlocks(count);
    const size_t first_block = run.RowOf(tile.begin) / kWeightBlock;
    Weigh(call_.scores + tile.begin, count, sums);
    FindLifts(run, query, shift, first_block, {lifts, num_blocks});
    for (size_t b = 0; b < num_blocks; ++b) {
      const double mass = (double{sums[b]} + kWeightBlock * kernels::kLostWeight) * lifts[b];
      const uint64_t begin = tile.begin + b * kWeightBlock;
      const TokenRange block = {begin, std::min<uint64_t>(begin + kWeightBlock, tile.end)};
      left->Add(mass, double{NormOf(run, first_block + b, block)});
    }
  }

  // Writes the factors by which the weights of blocks may exceed the weights of their scores: 1 for
  // blocks with exact scores.
  void FindLifts(const HeadRun& run, const index::EstimateQuery& query, double shift,
                 size_t first_block, std::span<double> lifts) const {
    std::ranges::fill(lifts, 1.0);
    if (!IsEstimated(run)) return;
    float bounds[kTileBlocks];
    run.estimates->ScoreBounds(call_.bits, query, first_block, lifts.size(), bounds);
    const std::span<const uint32_t> outliers = run.estimates->outlier_blocks();
    for (size_t b = 0; b < lifts.size(); ++b) {
      if (std::ranges::binary_search(outliers, first_block + b)) continue;  // Has exact scores.
      lifts[b] = std::exp(double{call_.logit.scale} * (double{bounds[b]} + shift));
    }
  }

  // No row of V of a block, or of its tokens here, is longer.
  float NormOf(const HeadRun& run, size_t block, TokenRange tokens) const {
    if (run.means != nullptr) {
      cost_->bytes_touched += sizeof(float);
      return run.means->norms[block];
    }
    const uint64_t count = tokens.end - tokens.begin;
    const uint64_t first_read = Intersect(run.tokens, call_.middle).begin;
    cost_->bytes_touched += count * run.v_bytes();
    float norm = 0;
    uint64_t num_rows = 0;
    for (uint64_t i = 0; i < count; i += num_rows) {
      const kernels::RowsView v = call_.rows->Piece(0, tokens.begin - first_read + i, &num_rows);
      num_rows = std::min(num_rows, count - i);
      norm = std::max(norm, kernels::LongestRow(v, num_rows));
    }
    return norm;
  }

  const MassBoundCall& call_;
  const float max_;
  CallCost* const cost_;
};

// The ratio of two masses is no more than exp of this off. Of each: 2^-20 by a weight, 2^-18 by the
// 64 additions of a block. Then each logit, which is rounded three times in base 2 and counts from
// 104 nats below the largest on; a capped one by tanh, which is off by 2^-22 of the cap.
double Rounding(const kernels::LogitSpec& logit, float max) {
  const double largest = logit.soft_cap == 0 ? std::abs(double{max}) : 8 * double{logit.soft_cap};
  return 0x1p-16 + 0x1p-22 * (largest + 104);
}

// The next larger float of a number; Inf for NaN.
float Upwards(double x) {
  return x < double{std::numeric_limits<float>::max()}
             ? std::nextafter(static_cast<float>(x), kInfinity)
             : kInfinity;
}

}  // namespace

float LeftBound::OfOutput(double norm) const {
  return share == 0 ? 0.0f : Upwards(double{share} * norm + double{value});
}

Result<LeftBound> BoundLeft(const MassBoundCall& call, CallCost* cost) {
  const TokenRange middle = call.middle;
  const float chosen_max = kernels::MaxScore(call.chosen_scores.data(), call.chosen_scores.size());
  const float left_max = kernels::MaxScore(call.scores + middle.begin, middle.end - middle.begin);
  // Scores that are estimates count, too: the kernels weigh nothing larger than `max`.
  const float max = kernels::LogitOf(std::max(chosen_max, left_max), call.logit);
  const MassSum sum(call, max, cost);
  Left left;
  for (const HeadRun& run : call.runs) ATTNDB_RETURN_IF_ERROR(sum.AddLeft(run, &left));
  const double rounding = std::exp(Rounding(call.logit, max));
  const double denominator = std::exp(double{call.denominator_logit} - double{max});
  const double chosen = sum.OfChosen() + denominator;
  const double mass = left.mass * rounding;
  const double share = mass / (mass + chosen);
  LeftBound bound;
  // NaN of infinities, too.
  bound.share = share < 1 ? std::min(1.0f, Upwards(share)) : 1.0f;
  double value = double{bound.share} * left.longest;
  const double reached = left.reach * rounding / chosen;
  if (reached < value) value = reached;
  bound.value = Upwards(value);
  return bound;
}

}  // namespace attndb::attention
