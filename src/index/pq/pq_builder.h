// Internal to pq: encodes keys with a codebook and measures the errors of the codes.
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
  // Writes the codes of block `block`, and the largest norm of a key's residual; adds the squared
  // norms to the sum.
  void EncodeBlock(size_t block, uint8_t* codes, float* bound);
  // Standard deviation of the error of a score, for a q of norm 1.
  double MeasureError(const uint8_t* codes) const;
  // Some of the sampled queries, scaled to norm 1.
  std::vector<float> TakeQueries() const;
  // Writes the residual of key i.
  void FindResidual(const uint8_t* codes, size_t i, float* residual) const;

  const PqCodebook& codebook_;
  const PqSource& source_;
  std::vector<float> rows_;     // Rows of one block.
  double largest_code_sq_ = 0;  // Largest squared norm of keys as codes may say them.
  double sum_residual_sq_ = 0;  // Sum over keys that are no outliers.
  size_t num_usual_ = 0;        // Their number.
  double sum_bounds_ = 0;       // NaN if any bound is.
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PQ_PQ_BUILDER_H_
