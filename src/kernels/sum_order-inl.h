// Internal: the order in which a product of rows is summed (dot-inl.h), for kernels whose lanes are
// keys.
//
// DotTile sums a product in several lanes and then adds these in a tree. A kernel with a key a lane
// gives the same bits if it sums the elements of one such lane after another, each from zero, and
// adds the sums in the same tree.
#ifndef ATTNDB_KERNELS_SUM_ORDER_INL_H_
#define ATTNDB_KERNELS_SUM_ORDER_INL_H_

#include <cstddef>
#include <cstdint>

#include "kernels/dot-inl.h"
#include "kernels/quads_avx512-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

// Sums of a product before they are added to one another: lanes of a register, or of a quad's key.
template <typename T>
inline constexpr size_t kSumsOfProduct = UseQuads<T>() ? 4 : kLanes;

// Elements of a row, sum by sum. Sums come in the order of the tree's leaves: sum n is added to the
// one before it if n is odd, that to the one before if n / 2 is odd, and so on.
struct SumOrder {
  uint32_t elements[kMaxRowElements];      // The row's elements as they are summed.
  uint32_t places[kMaxRowElements];        // The index in `elements` of each row element.
  uint32_t ends[kLanes < 4 ? 4 : kLanes];  // The index in `elements` at which each sum ends.
};

// The number of the lane whose sum is leaf n: StoreSums4 and StoreQuadSums add lanes 0 and 2, 1 and
// 3, and both. Then fours of lanes are added in the same order.
template <typename T>
inline size_t LaneOfLeaf(size_t n) {
  constexpr size_t kOrder[4] = {0, 2, 1, 3};
  const size_t in_four = kOrder[n % 4];
  if (kSumsOfProduct<T> == 16) return 4 * kOrder[n / 4] + in_four;
  return n / 4 * 4 + in_four;
}

// The order is taken from the code that prepares queries: it is asked where it puts each element.
template <typename T>
[[gnu::noinline]] void FindSumOrder(size_t num_elements, SumOrder* order) {
  alignas(64) float numbers[kMaxRowElements];
  alignas(64) float lanes[4 * kMaxRowElements];
  for (size_t i = 0; i < num_elements; ++i) numbers[i] = static_cast<float>(i + 1);
  PrepareQueries<T>(numbers, 0, 1, num_elements, lanes);
  constexpr bool kQuads = UseQuads<T>();
  uint32_t place = 0;
  for (size_t n = 0; n < kSumsOfProduct<T>; ++n) {
    size_t lane = LaneOfLeaf<T>(n);
    if constexpr (kQuads) {
      lane = static_cast<size_t>(QuadLane(static_cast<const T*>(nullptr), static_cast<int>(lane)));
    }
    for (; lane < QueryStride<kQuads>(num_elements); lane += kLanes) {
      if (lanes[lane] == 0.0f) continue;  // Padding of a quad.
      const auto element = static_cast<uint32_t>(lanes[lane]) - 1;
      order->places[element] = place;
      order->elements[place++] = element;
    }
    order->ends[n] = place;
  }
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_SUM_ORDER_INL_H_
