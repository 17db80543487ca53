// Ranks passages by how much a question's tokens prefer them, over all heads of the query.
//
// Score:   a row (a token of the question in one head) has a best key in each passage. Its meaning
//          depends on the row: "the" has one in every text, a name in few. So only a part of its
//          score counts: the part that is more than kMargin standard deviations above the row's
//          mean over all passages. (With fewer than 17 passages: more than half of the largest
//          possible deviation.) A head's score of a passage is the mean of these parts over its
//          rows. Heads differ in how much they distinguish passages, so each head's scores are
//          divided by their own standard deviation. An ordinary passage has 0.
// Source:  ColBERT sums each token's best match over the question (Khattab & Zaharia 2020,
//          arXiv:2004.12832). Ours uses the model's own q and k, and counts only scores that stand
//          out.
// Errors:  none.
// Threads: thread-compatible.
#ifndef ATTNDB_FIND_PASSAGE_RANKING_H_
#define ATTNDB_FIND_PASSAGE_RANKING_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attndb/types.h"
#include "find/key_run.h"

namespace attndb::find {

// A passage begins at each block. It also contains the next block, if the run has one.
struct RankedPassage {
  size_t run = 0;
  size_t block = 0;   // Number of its first block, over all runs.
  TokenRange tokens;  // Tokens of its blocks, as indices of the run.
  double score = 0;
};

class PassageRanking {
 public:
  static constexpr double kMargin = 2;

  // `runs` and `blocks` must outlive the ranking.
  PassageRanking(std::span<const KeyRun> runs, const Blocks& blocks, bool keep_heads = false)
      : runs_(runs),
        blocks_(blocks),
        keep_heads_(keep_heads),
        totals_(blocks.num_blocks()),
        lost_(runs.size()) {}

  // Bytes that the ranking takes after num_heads heads were added.
  uint64_t MemoryBytes(size_t num_heads) const;

  // Adds one head's rows, maxima [num_rows, num_blocks], and overwrites them with the maxima of
  // passages. Ignores NaN.
  void AddHead(size_t num_rows, float* maxima);

  // Ignores a run from now on.
  void Lose(size_t run) { lost_[run] = true; }

  // The best passages without a common token; best first, equal ones in order.
  std::vector<RankedPassage> Best(size_t limit) const;
  // The score that the n-th added head gives a passage. REQUIRES: keep_heads.
  float HeadScore(size_t n, size_t block) const {
    return static_cast<float>(head_scores_[n * blocks_.num_blocks() + block]);
  }

 private:
  void ToPassages(float* row) const;
  void AddRow(const float* row, double weight, double* scores) const;

  const std::span<const KeyRun> runs_;
  const Blocks& blocks_;
  const bool keep_heads_;
  std::vector<double> totals_;       // By block, over the heads so far.
  std::vector<double> head_scores_;  // [head][block], if keep_heads.
  std::vector<bool> lost_;
  size_t num_heads_ = 0;
};

}  // namespace attndb::find

#endif  // ATTNDB_FIND_PASSAGE_RANKING_H_
