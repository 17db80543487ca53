// Base class of operators that scan the keys of a group in one pass, exactly or by estimates. Each
// q head then selects its critical tokens from all scores (sparse_head.h), and the operator decides
// what to do with them.
//
// Denominators: a search by scores does not know the weight of a layer's denominator_logits, which
//          have no key. For masses and errors, that weight is part of the whole.
// Threads: as operator.h. All threads share the scores of a unit with several ranges, so that any
//          free threads finish its q heads.
// Source:  search, then exact attention over its result: RetrievalAttention App. B.
#ifndef ATTNDB_ATTENTION_SCANNING_H_
#define ATTNDB_ATTENTION_SCANNING_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attention/group_scorer.h"
#include "attention/operator.h"
#include "attention/sparse_head.h"
#include "index/score_view.h"

namespace attndb::attention {

class Scanning : public Operator {
 public:
  WorkCut cut() const final { return {.by_row = true}; }
  bool finishes_by_head() const final { return true; }
  void Begin(const CallView& call) final;
  void TakeShared(Arena* arena) final;
  void TakePart(uint32_t part, Arena* arena) final;
  Status RunItem(const WorkItem& item, Part* part) final;
  Status Finish(uint32_t unit, uint32_t group_head, Part* part) final;
  std::span<const HeadBound> bounds() const final { return bounds_; }

 private:
  // Scores of all q heads of units, with their summaries (index/score_view.h).
  struct Scores {
    float* scores = nullptr;  // [unit][group][num_tokens]
    float* maxima = nullptr;  // [unit][group][blocks of num_tokens]
    float* sums = nullptr;    // Like maxima; null unless the search reads them.
  };
  struct Scratch {
    GroupScorer scorer;
    HeadScratch head;
    Scores scores;  // Scores of one unit, if units have one range.
  };

  // Does the operator's work on the tokens that a q head selects.
  virtual Status Conclude(SparseHead* head, uint32_t unit, uint32_t group_head,
                          Part* part) const = 0;

  Scores TakeScores(size_t num_units, Arena* arena) const;
  index::ScoreView ScoresOf(uint32_t unit, uint32_t group_head, const Part* part) const;
  void Summarize(uint32_t unit, TokenRange tokens, const Part* part) const;

 protected:
  const CallView& call() const { return *call_; }

 private:
  const CallView* call_ = nullptr;
  bool needs_sums_ = false;  // Whether the search reads the weights of blocks.
  std::vector<Scratch> parts_;
  Scores shared_;
  std::vector<HeadBound> bounds_;  // Each is written by the thread that finishes its head.
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_SCANNING_H_
