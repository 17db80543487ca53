// Searches by product codes (pq_keys.h) for a group: scores the codes of all visible keys for all q
// rows, makes one selection for the group, and scores the selected keys exactly.
//
// Group:   a key's worth is the largest, over q rows, of its estimate minus the row's best known
//          score. This is the key's weight in the head that needs it most, relative to that head's
//          largest. So one selection serves the group ([PQC] 3.2), and every head gets its best
//          keys although others weigh more. A head may have so many keys of nearly its best worth
//          that another head starves; the starving head then gets its share first (fair_share.h).
// Effort:  for top-k: effort times k keys are scored exactly, of which each row finds its k best;
//          1, the default, is as published: all rows find the selected keys. For a range: the
//          margin is widened by effort standard deviations of the codes' error. For a mass: the
//          share that may be left out is divided by effort before keys are chosen by estimates; all
//          rows find the selected keys.
// Outliers: a block may have a key whose residual is far larger than others'. All keys of such
//          blocks are scored exactly, in addition to the selected ones. Draws then do not use
//          codes.
// Mass:    if the scored keys show that estimates do not tell the weights of others, all keys of
//          the group are scored exactly.
// Errors:  as KeyIndex.
// Threads: as KeyIndex.
// Source:  PQCache (arXiv:2407.12820) 3.2.
#ifndef ATTNDB_INDEX_PQ_PQ_INDEX_H_
#define ATTNDB_INDEX_PQ_PQ_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "index/key_index.h"
#include "index/pq/pq_keys.h"
#include "index/weigh_index.h"

namespace attndb::index {

class PqIndex final : public KeyIndex, public WeighIndex {
 public:
  explicit PqIndex(PqKeys keys) : keys_(std::move(keys)) {}

  const PqKeys& keys() const { return keys_; }

  size_t num_keys() const override { return keys_.num_keys(); }
  uint64_t memory_bytes() const override { return keys_.memory_bytes(); }
  size_t ScratchBytes(const IndexCall& call) const override;
  Status Search(const IndexCall& call, void* scratch, FoundKeys* found,
                SearchCost* cost) const override;

  // Codes tell nothing of outliers, which may hold all the mass.
  const WeighIndex* weighs() const override { return keys_.has_outliers() ? nullptr : this; }
  size_t WeighScratchBytes(size_t num_q_rows) const override;
  void Weigh(const WeighCall& call, void* scratch) const override;
  double WeighedBytes() const override { return keys_.ScanBytes(); }

 private:
  PqKeys keys_;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PQ_PQ_INDEX_H_
