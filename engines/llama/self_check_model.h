// A llama of two tiny layers with seeded weights, for self_check.h: no download, the same bytes
// everywhere. Its matrices are of the quantized types that people run, in shapes that ggml gives to
// its fastest code: rows of 256 (a block of the K types), columns in multiples of 32 (AMX's tiles).
//
// Errors:  kIoError (the file can't be written).
// Threads: stateless.
#ifndef ATTNDB_ENGINES_LLAMA_SELF_CHECK_MODEL_H_
#define ATTNDB_ENGINES_LLAMA_SELF_CHECK_MODEL_H_

#include <cstdint>
#include <string>

#include "attndb/status.h"

namespace attndb::llama {

inline constexpr uint32_t kSelfCheckVocab = 320;

enum class SelfCheckWeights : uint8_t {
  kQuantized,  // Q4_0, Q4_1 and Q8_0 in one layer, Q4_K, Q5_K and Q6_K in the other. 0.6 MB.
  kExact,      // The same numbers in float32: what the quantized ones stand for. 3.5 MB.
};

Status WriteSelfCheckModel(const std::string& path, SelfCheckWeights weights);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_SELF_CHECK_MODEL_H_
