// Internal: narrow element types as distinct C++ types, for overloads and templates of kernels.
//
// Threads: values.
#ifndef ATTNDB_KERNELS_ELEMENT_H_
#define ATTNDB_KERNELS_ELEMENT_H_

#include <cstdint>

namespace attndb::kernels {

struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
struct Int8 {
  int8_t value;
};

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_ELEMENT_H_
