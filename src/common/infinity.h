// Infinity of float32: the identity of a minimum and, negated, of a maximum over scores.
#ifndef ATTNDB_COMMON_INFINITY_H_
#define ATTNDB_COMMON_INFINITY_H_

#include <limits>

namespace attndb {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace attndb

#endif  // ATTNDB_COMMON_INFINITY_H_
