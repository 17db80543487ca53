// How far RoPE turns each pair of channels with every position, read from the description of a
// layer.
//
// Scalings: none, linear, YaRN and Llama 3's, as the adapters of llama.cpp and transformers write
//           them (Rope::scaling). Their angles are linear in the position, so that rows can be
//           turned on. Those that depend on the length of the text (dynamic NTK, LongRoPE), and
//           texts that name no numbers, are refused.
// Threads:  pure functions.
// Source:   RoPE: Su et al., RoFormer, arXiv:2104.09864. YaRN: Peng et al., arXiv:2309.00071,
//           section 3.2 and Appendix A.
#ifndef ATTNDB_COMMON_ROPE_FREQUENCIES_H_
#define ATTNDB_COMMON_ROPE_FREQUENCIES_H_

#include <cstdint>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"

namespace attndb {

// Radians a position, of pairs 0, 1, ... of rows of head_dim channels; none without RoPE.
// Errors: kUnsupported, which names the scaling.
Result<std::vector<double>> RopeFrequencies(const Rope& rope, uint32_t head_dim);

}  // namespace attndb

#endif  // ATTNDB_COMMON_ROPE_FREQUENCIES_H_
