// Draws a sample of the middle for all q heads of a group (`auto`), and attends to it with sinks
// and window (group_draw.h).
//
//   1. The first range of a unit to be worked on finds a threshold for each q head, from a sample
//      of the scores of the unit's middle. All ranges of the unit share them.
//   2. A range keeps the tokens above the thresholds, more than will be drawn. Scores are looked at
//      while they lie in the cache, and forgotten.
//   3. When all ranges are there, the draw is made from what they kept.
//
// Threads: as operator.h. What ranges keep is everyone's if units have several; then who finishes
//          the last range draws.
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
  // Tokens from which thresholds are found before a unit is scanned.
  static constexpr uint64_t kMostSampled = 2048;

  WorkCut cut() const override { return {.by_row = true}; }
  void Begin(const CallView& call) override;
  void TakeShared(Arena* arena) override;
  void TakePart(uint32_t part, Arena* arena) override;
  Status RunItem(const WorkItem& item, Part* part) override;
  Status Finish(uint32_t unit, uint32_t group_head, Part* part) override;

 private:
  // Of what a range keeps: first sinks, then tokens of the middle, then the window.
  struct KeptCounts {
    uint32_t middle_begin = 0;
    uint32_t middle_end = 0;
    uint32_t end = 0;
  };
  // What ranges of units keep for their groups.
  struct Kept {
    uint32_t* tokens = nullptr;    // [unit][num_tokens], those of a range from its begin on,
    float* noise = nullptr;        // ... their noise,
    float* scores = nullptr;       // ... and their scores: [unit][group][num_tokens].
    KeptCounts* counts = nullptr;  // [unit][range]
    float* thresholds = nullptr;   // [unit][group]: published for those that come later.
  };
  // How far the thresholds of a unit are that all its ranges share.
  enum class Thresholds : uint8_t { kUnknown, kWritten, kPublished };
  struct Scratch {
    GroupScorer scorer;
    GroupScratch group;
    Kept kept;                     // Of a unit, if it has one range only.
    float* sample = nullptr;       // [group][kMostSampled]
    float* thresholds = nullptr;   // [group]: of the unit of the item under way.
    float* tile = nullptr;         // [group][GroupScorer::kTileTokens]
    DrawSlice* slices = nullptr;   // Of a unit.
    kernels::KeptTokens places;    // Room for DrawNoise::kStretch, where an index draws.
    float* q_norms = nullptr;      // [group], there too,
    float* row_reaches = nullptr;  // ... and so.
  };

  Status CollectRange(const WorkItem& item, Part* part);
  Status FindThresholds(const WorkUnit& unit, Part* part);
  Status TakeThresholds(uint32_t unit_idx, Part* part);
  Result<uint64_t> ScorePieces(const WorkUnit& unit, TokenRange tokens, double* share, Part* part);
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
  // [unit]: the release of kPublished pairs with the acquire of who takes a unit's thresholds.
  std::atomic<Thresholds>* thresholds_ = nullptr;
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_DRAW_OPERATOR_H_
