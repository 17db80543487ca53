// Float64 twins of the kernels: the definition that tests and benchmarks compare with.
//
// Slow, allocating, and as close to the formulas as code can be. Takes the same views as the
// kernels; values are those of the stored bits, sums are float64.
// Threads: stateless.
#ifndef ATTNDB_KERNELS_REFERENCE_REFERENCE_H_
#define ATTNDB_KERNELS_REFERENCE_REFERENCE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention_state.h"
#include "kernels/layout.h"

namespace attndb::kernels::reference {

// Element i of row `row`.
double At(const RowsView& rows, size_t row, size_t i);

// q . k_row, and the sum of |q_i k_i| that bounds the rounding error of any order of summation.
struct Dot {
  double score = 0;
  double magnitude = 0;
};
Dot DotRow(const RowsView& k, size_t row, const float* q);

double LogitOf(double score, const LogitSpec& logit);

struct Attention {
  std::vector<double> out;  // [v.num_elements]
  double lse = 0;
};
// Softmax attention of one q row over the listed tokens; the empty list gives zeros and -inf.
Attention Attend(const RowsView& k, const RowsView& v, std::span<const uint32_t> tokens,
                 const float* q, const LogitSpec& logit);

// Indices of the k largest scores (ties: lowest index; NaN largest), ascending.
std::vector<uint32_t> TopK(std::span<const float> scores, size_t k);
std::vector<uint32_t> Range(std::span<const float> scores, float threshold);

}  // namespace attndb::kernels::reference

#endif  // ATTNDB_KERNELS_REFERENCE_REFERENCE_H_
