// Internal to pq: encodes keys with a codebook and measures what the codes leave out.
//
// Threads: one thread only.
#ifndef ATTNDB_INDEX_PQ_PQ_BUILDER_H_
#define ATTNDB_INDEX_PQ_PQ_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "index/pq/pq_codebook.h"
#include "index/pq/pq_keys.h"

namespace attndb::index {

class PqBuilder {
 public:
  // REQUIRES: source.num_keys > 0; both outlive this.
  PqBuilder(const PqCodebook& codebook, const PqSource& source);

  Result<PqKeys> Build();

 private:
  // Codes of block `block`, and the norm of what they leave out of any of its keys; adds the
  // squares of what they leave out.
  void EncodeBlock(size_t block, uint8_t* codes, float* bound);
  // Standard deviation of the error of a score, for a q of norm 1.
  double MeasureError(const uint8_t* codes) const;
  // Sampled queries of norm 1, some of them.
  std::vector<float> TakeQueries() const;
  // What the codes leave out of key i.
  void FindResidual(const uint8_t* codes, size_t i, float* residual) const;

  const PqCodebook& codebook_;
  const PqSource& source_;
  std::vector<float> rows_;     // Of a block.
  double largest_code_sq_ = 0;  // Of the keys that codes may say.
  double sum_residual_sq_ = 0;
  double sum_bounds_ = 0;  // NaN if any is.
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PQ_PQ_BUILDER_H_
