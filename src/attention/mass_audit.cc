#include "attention/mass_audit.h"

#include <algorithm>
#include <cmath>

#include "attention/call_util.h"
#include "attention/listed_tokens.h"
#include "index/key_estimates.h"
#include "kernels/select.h"
#include "kernels/weights.h"

namespace attndb::attention {
namespace {

using kernels::kWeightBlock;

constexpr uint64_t kLiftBlocks = 64;

// At 4 bits a code may be off by 7.5 steps, which the bound sums up. Any of 16 values is equally
// likely: a standard deviation of 4.6 steps.
constexpr float kDeviationPart4 = 4.6f / 7.5f;

// At least exp(x), and not much more; most blocks are lifted by little.
double ExpAbove(double x) {
  constexpr double kSmall = 1.0;
  return x <= kSmall ? 1 + x + x * x : std::exp(std::min(x, kernels::kMostExponent));
}

class MassAudit {
 public:
  MassAudit(const MassAuditCall& call, const MassAuditScratch& scratch)
      : call_(call),
        scratch_(scratch),
        first_block_(index::FirstBlock(call.middle)),
        num_blocks_(index::NumBlocks(call.middle)) {}

  double LeftShare() {
    const float best =
        std::max(call_.view.Max(), kernels::MaxScore(call_.exact, call_.chosen.size()));
    max_ = kernels::LogitOf(best, call_.logit);
    double held = std::exp(double{call_.denominator_logit} - double{max_});
    held += MassOf({0, call_.middle.begin}) + MassOf({call_.middle.end, call_.view.num_tokens});
    held += WeighChosen(call_.exact);
    MassOf(call_.middle);
    TakeOutChosen();
    FindLifts();
    double left = 0;
    for (size_t b = 0; b < num_blocks_; ++b) {
      const double mass =
          std::max(double{scratch_.masses[b]}, 0.0) + kWeightBlock * kernels::kLostWeight;
      left += mass * ExpAbove(double{scratch_.lifts[b]});
    }
    const double share = left / (left + held);
    return share < 1 ? share : 1.0;  // NaN, too.
  }

 private:
  double MassOf(TokenRange range) const {
    return index::WeighRange(call_.view, range, call_.logit, max_, scratch_.masses);
  }

  double WeighChosen(const float* scores) const {
    const size_t count = call_.chosen.size();
    kernels::ExpWeights(scores, count, call_.logit, max_, scratch_.weights);
    return double{kernels::SumNotBelow(scratch_.weights, count, 0)};
  }

  // Leaves the masses of blocks without the weights of the estimates of chosen tokens.
  void TakeOutChosen() const {
    const size_t count = call_.chosen.size();
    for (size_t i = 0; i < count; ++i) scratch_.weights[i] = call_.view.scores[call_.chosen[i]];
    WeighChosen(scratch_.weights);
    for (size_t i = 0; i < count; ++i) {
      scratch_.masses[call_.chosen[i] / kWeightBlock - first_block_] -= scratch_.weights[i];
    }
  }

  // lifts[b]: the number of nats by which the mass of a block is raised. Blocks of runs may begin
  // inside blocks of the view.
  void FindLifts() const {
    std::fill_n(scratch_.lifts, num_blocks_, 0.0f);
    for (const HeadRun& run : call_.runs) {
      const TokenRange tokens = Intersect(run.tokens, call_.middle);
      if (run.estimates == nullptr || tokens.begin == tokens.end) continue;
      const index::EstimateQuery query =
          run.estimates->Prepare(call_.q, scratch_.spare, scratch_.codes);
      const float error = ScoreError(*run.estimates, call_.bits, call_.q, run.k_elements);
      const float lowered = call_.logit.scale * ScoreShift(error, call_.logit.scale);
      const uint64_t end = (run.RowOf(tokens.end) - 1) / kWeightBlock + 1;
      for (uint64_t block = run.RowOf(tokens.begin) / kWeightBlock; block < end;) {
        const uint64_t count = std::min(kLiftBlocks, end - block);
        LiftTile(run, {run.RowOf(tokens.begin), run.RowOf(tokens.end)}, query, lowered, block,
                 count);
        block += count;
      }
    }
  }

  // rows: those of the run's middle tokens.
  void LiftTile(const HeadRun& run, TokenRange rows, const index::EstimateQuery& query,
                float lowered, uint64_t first, uint64_t count) const {
    float bounds[kLiftBlocks];
    run.estimates->ScoreBounds(call_.bits, query, first, count, bounds);
    const float part = call_.bits == 4 ? kDeviationPart4 : 1.0f;
    const float scale = part * call_.logit.scale / std::sqrt(static_cast<float>(run.k_elements));
    const std::span<const uint32_t> outliers = run.estimates->outlier_blocks();
    for (uint64_t b = 0; b < count; ++b) {
      if (std::ranges::binary_search(outliers, first + b)) continue;  // Has exact scores.
      const float deviation = scale * bounds[b];
      const float lift = deviation * deviation + lowered;
      const uint64_t begin = (first + b) * kWeightBlock;
      const TokenRange block = Intersect({begin, begin + kWeightBlock}, rows);
      for (const uint64_t row : {block.begin, block.end - 1}) {
        float& of_block = scratch_.lifts[(run.origin + row) / kWeightBlock - first_block_];
        of_block = std::max(of_block, lift);
      }
    }
  }

  const MassAuditCall& call_;
  const MassAuditScratch& scratch_;
  const size_t first_block_;
  const size_t num_blocks_;
  float max_ = 0;
};

}  // namespace

double AuditLeftShare(const MassAuditCall& call, const MassAuditScratch& scratch) {
  return MassAudit(call, scratch).LeftShare();
}

}  // namespace attndb::attention
