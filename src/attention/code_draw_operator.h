// Draws a sample of the middle for all q heads of a group, in two phases, from small codes of the
// keys (index/weigh_index.h), and attends to the sample, sinks and window (phased_draw.h).
//
//   1. Each range of a unit weighs its tokens by the codes, for each q head: sixteen bits per
//      token, and no exponentials. A weight may be off by any factor, because the draw corrects for
//      it.
//   2. When all ranges are done, tokens are drawn by these weights, more than will be attended to.
//      A token is drawn with the largest of the heads' probabilities, which is the same for all
//      heads. The keys of drawn tokens are read and give their scores. A token then counts with its
//      true weight over its probability.
//   3. A sample of these tokens is drawn by that quotient, and its values are read (phased_draw.h).
//
// Runs without codes are scored exactly; their tokens are drawn like the others.
//
// Words:   a run's tokens are weighed in blocks of kBlockTokens that count from its first token.
//          The range with a block's first token weighs the block. Words of a run are relative to
//          the run's own reference.
// Threads: as operator.h. If units have several ranges, all threads share their words. The thread
//          that finishes the last range then draws.
// Source:  draws in two phases: Neyman, Contribution to the theory of sampling human populations,
//          JASA 33(201), 1938; weights by product codes: ours.
#ifndef ATTNDB_ATTENTION_CODE_DRAW_OPERATOR_H_
#define ATTNDB_ATTENTION_CODE_DRAW_OPERATOR_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attention/operator.h"
#include "attention/phased_draw.h"
#include "index/weigh_index.h"

namespace attndb::attention {

class CodeDrawOperator final : public Operator {
 public:
  static constexpr uint64_t kBlockTokens = index::WeighIndex::kBlockKeys;

  WorkCut cut() const override { return {.by_row = true}; }
  void Begin(const CallView& call) override;
  void TakeShared(Arena* arena) override;
  void TakePart(uint32_t part, Arena* arena) override;
  Status RunItem(const WorkItem& item, Part* part) override;
  Status Finish(uint32_t unit, uint32_t group_head, Part* part) override;

 private:
  // Words of all units, or of one.
  struct Weights {
    uint16_t* words = nullptr;    // [unit][group][words of a unit]
    float* references = nullptr;  // [unit][range][run][group]: logits of weight 1.
    float* sums = nullptr;        // [unit][range][run][group]: sums of weights.
  };
  struct Scratch {
    Weights weights;                  // Weights of one unit, if units have one range.
    std::byte* weigh = nullptr;       // Scratch of index::WeighIndex.
    float* block_sums = nullptr;      // [group][blocks of a unit]
    float* scores = nullptr;          // [group][kScoredTokens]
    WeighedTokens* pieces = nullptr;  // The middle's pieces of one unit.
    PhasedScratch draw;
  };
  // The part of a run that belongs to a range: whole blocks.
  struct Piece {
    const HeadRun* run = nullptr;
    size_t first = 0;           // Index in the run of its first token; a multiple of kBlockTokens.
    size_t count = 0;           // Number of tokens.
    size_t num_hidden = 0;      // How many of the first tokens are sinks.
    uint16_t* words = nullptr;  // Words of the first q head.
    float* references = nullptr;  // [group]
    float* sums = nullptr;        // [group]: sums of weights of the tokens that are not hidden.
  };

  // Calls f(piece) for each part of the unit's middle that belongs to the range, run after run,
  // until one call fails.
  template <typename F>
  Status ForEachPiece(uint32_t unit, uint32_t range, const Part* part, const F& f) const;
  Weights WeightsOf(uint32_t unit, const Part* part) const;
  Weights TakeWeights(size_t num_units, Arena* arena) const;
  size_t num_words() const;  // Words of one unit and q head.
  void WeighByCodes(const Piece& piece, Part* part);
  Status WeighExactly(const Piece& piece, Part* part);
  std::span<const WeighedTokens> WeightsOfMiddle(uint32_t unit, Part* part);
  Status AttendAllTokens(const WorkUnit& unit, Part* part);
  uint64_t Seed(const WorkUnit& unit) const;

  const CallView* call_ = nullptr;
  std::vector<Scratch> parts_;
  Weights shared_;
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_CODE_DRAW_OPERATOR_H_
