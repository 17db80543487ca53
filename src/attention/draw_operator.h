// Draws a sample of the middle for all q heads of a group (`auto`), and attends to the sample,
// sinks and window (group_draw.h).
//
//   1. The first range of a unit to run finds a threshold for each q head, from a sample of the
//      scores of the unit's middle. All ranges of the unit share the thresholds.
//   2. Each range keeps the tokens above the thresholds, more than will be drawn. Scores are read
//      while they are in the cache, and not stored.
//   3. When all ranges are done, the sample is drawn from the kept tokens.
//
// Threads: as operator.h. If units have several ranges, all threads share the kept tokens. The
//          thread that finishes the last range then draws.
#ifndef ATTNDB_ATTENTION_DRAW_OPERATOR_H_
#define ATTNDB_ATTENTION_DRAW_OPERATOR_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attention/group_draw.h"
#include "attention/group_scorer.h"
#include "attention/operator.h"
#include "kernels/draw.h"

namespace attndb::attention {

class DrawOperator final : public Operator {
 public:
  // The number of tokens whose scores determine the thresholds, before a unit is scanned.
  static constexpr uint64_t kMostSampled = 2048;

  WorkCut cut() const override { return {.by_row = true}; }
  void Begin(const CallView& call) override;
  void TakeShared(Arena* arena) override;
  void TakePart(uint32_t part, Arena* arena) override;
  Status RunItem(const WorkItem& item, Part* part) override;
  Status Finish(uint32_t unit, uint32_t group_head, Part* part) override;

 private:
  // Order of a range's kept tokens: sinks, then tokens of the middle, then the window.
  struct KeptCounts {
    uint32_t middle_begin = 0;
    uint32_t middle_end = 0;
    uint32_t end = 0;
  };
  // The kept tokens of units' ranges.
  struct Kept {
    // [unit][num_tokens]: a range's tokens from the place of its begin on.
    uint32_t* tokens = nullptr;
    float* noise = nullptr;        // [unit][num_tokens]: noise of these tokens.
    float* scores = nullptr;       // [unit][group][num_tokens]: scores of these tokens.
    KeptCounts* counts = nullptr;  // [unit][range]
    float* thresholds = nullptr;   // [unit][group]: published for the unit's other ranges.
  };
  // State of the thresholds that all ranges of a unit share.
  enum class Thresholds : uint8_t { kUnknown, kWritten, kPublished };
  struct Scratch {
    GroupScorer scorer;
    GroupScratch group;
    Kept kept;                     // The kept tokens of one unit, if units have one range.
    float* sample = nullptr;       // [group][kMostSampled]
    float* thresholds = nullptr;   // [group]: thresholds of the unit under way.
    float* tile = nullptr;         // [group][GroupScorer::kTileTokens]
    DrawSlice* slices = nullptr;   // Slices of one unit.
    kernels::KeptTokens places;    // Room for DrawNoise::kStretch tokens, where an index draws.
    float* q_norms = nullptr;      // [group], where an index draws.
    float* row_reaches = nullptr;  // [group], where an index draws.
  };

  Status CollectRange(const WorkItem& item, Part* part);
  Status FindThresholds(const WorkUnit& unit, Part* part);
  Status TakeThresholds(uint32_t unit_idx, Part* part);
  Result<uint64_t> ScorePieces(const WorkUnit& unit, TokenRange tokens, double* share, Part* part);
  void FetchEstimates(std::span<const HeadRun> runs, TokenRange tokens) const;
  Status KeepAll(const WorkUnit& unit, TokenRange tokens, kernels::KeptTokens* kept, Part* part);
  Status KeepMiddle(const WorkUnit& unit, TokenRange middle, const kernels::DrawRule& rule,
                    kernels::KeptTokens* kept, Part* part);
  Status KeepDrawn(const WorkUnit& unit, const HeadRun& run, TokenRange tokens,
                   const kernels::DrawRule& rule, kernels::KeptTokens* kept, Part* part);
  void KeepByIndex(const WorkUnit& unit, const HeadRun& run, TokenRange tokens,
                   const kernels::DrawRule& rule, kernels::KeptTokens* kept, Part* part);
  Kept KeptOf(const WorkItem& item, const Part* part) const;
  Kept TakeKept(size_t num_units, Arena* arena) const;
  void TakePlaces(Scratch* scratch, Arena* arena) const;
  std::span<const DrawSlice> SlicesOf(uint32_t unit, Part* part) const;
  Scratch& ScratchOf(const Part* part) { return parts_[part->number]; }

  const CallView* call_ = nullptr;
  std::vector<Scratch> parts_;
  Kept shared_;
  // [unit]: the release of kPublished pairs with the acquire of the thread that takes a unit's
  // thresholds.
  std::atomic<Thresholds>* thresholds_ = nullptr;
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_DRAW_OPERATOR_H_
