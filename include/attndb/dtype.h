// Element types of keys, values, queries and outputs.
//
// Threads: values; no state.
#ifndef ATTNDB_DTYPE_H_
#define ATTNDB_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "attndb/require_cpp20.h"

namespace attndb {

// The numbers are part of the on-disk format and of the C ABI: never renumber.
enum class DType : uint8_t {
  kFloat32 = 0,   // IEEE binary32.
  kFloat16 = 1,   // IEEE binary16.
  kBFloat16 = 2,  // The upper half of a binary32.
};

// Bytes of one element.
constexpr size_t DTypeBytes(DType dtype) { return dtype == DType::kFloat32 ? 4 : 2; }

// "float32", "float16", "bfloat16"; "unknown" for a number that is none of them.
constexpr std::string_view DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat16:
      return "float16";
    case DType::kBFloat16:
      return "bfloat16";
  }
  return "unknown";
}

}  // namespace attndb

#endif  // ATTNDB_DTYPE_H_
