// A search over stored keys for the passages of runs that a question's heads attend to.
//
// Cost:    reads the keys of all runs once, for each kv head that a head of the question reads; no
//          V.
// Memory:  for each row of a kv head's q one float32 a block; for each thread the keys of one head
//          of a run. All of it is taken from the budget.
// Errors:  kResourceExhausted (budget). A run that can't be read is left out of the ranking and
//          listed as lost.
// Threads: stateless; runs are shared among the pool's threads.
#ifndef ATTNDB_FIND_FIND_PASSAGES_H_
#define ATTNDB_FIND_FIND_PASSAGES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "common/thread_pool.h"
#include "find/key_run.h"
#include "find/passage_ranking.h"
#include "storage/kv/memory_budget.h"

namespace attndb::find {

// q of the question in one q head.
struct HeadQuestion {
  LayerId layer = 0;
  uint32_t q_head = 0;
  std::vector<float> rows;  // [num_tokens, RowElements(head_dim)], RoPE layout half.
};

struct PassageSearch {
  const ModelSpec* spec = nullptr;
  std::span<const KeyRun> runs;
  std::span<const HeadQuestion> heads;  // In any order; heads of one kv head share its keys.
  size_t num_tokens = 0;                // Tokens of the question.
  int64_t first_position = 0;           // Position of its first token under RoPE.
  uint64_t passage_tokens = 64;         // Even.
  size_t limit = 10;
  bool head_scores = false;
  storage::MemoryBudget* budget = nullptr;
  ThreadPool* pool = nullptr;
};

struct FoundPassage {
  size_t run = 0;
  TokenRange tokens;  // Token indices of the run.
  double score = 0;
  // One a head of the search; empty unless PassageSearch::head_scores.
  std::vector<float> head_scores;
};

struct LostRun {
  size_t run = 0;
  Status status;
};

struct PassageReport {
  std::vector<FoundPassage> passages;  // Best first.
  std::vector<LostRun> lost;
  uint64_t num_passages = 0;
  uint64_t key_bytes = 0;  // Bytes of keys that were read.
};

// REQUIRES: spec, budget and pool are not null; heads exist in the spec, with rows of num_tokens >
//           0; runs have the spec's shape.
Result<PassageReport> FindPassages(const PassageSearch& search);

}  // namespace attndb::find

#endif  // ATTNDB_FIND_FIND_PASSAGES_H_
