// Test helper: offsets of blocks of keys, the same for every kind of plane.
//
// Threads: one thread only.
#ifndef ATTNDB_KERNELS_TEST_BLOCK_OFFSETS_H_
#define ATTNDB_KERNELS_TEST_BLOCK_OFFSETS_H_

#include <vector>

#include "gtest/gtest.h"
#include "kernels/planes.h"
#include "kernels/test_rows.h"

namespace attndb::kernels {

// Expects that a scan of five q rows with offsets of blocks equals, bit for bit, scans of each key
// alone with its own offset. `offsets`: four per row. scan(first_key, num_keys, queries,
// num_q_rows, scores, scores_stride) scans 250 keys.
template <typename Query, typename Scan>
void CheckBlockOffsets(std::vector<Query> with, const std::vector<float>& offsets,
                       const Scan& scan) {
  for (const size_t first : Sizes{0, 30, 64, 190}) {
    const size_t n = 250 - first, first_block = first / kOffsetKeys;
    std::vector<float> scores(5 * n);
    for (size_t r = 0; r < 5; ++r) with[r].block_offsets = &offsets[4 * r];
    scan(first, n, with.data(), 5, scores.data(), n);
    for (size_t key = first; key < 250; ++key) {
      for (size_t r = 0; r < 5; ++r) {
        Query query = with[r];
        query.offset += offsets[4 * r + key / kOffsetKeys - first_block];
        query.block_offsets = nullptr;
        float score = 0;
        scan(key, 1, &query, 1, &score, 1);
        ASSERT_EQ(scores[r * n + key - first], score) << "row " << r << ", key " << key;
      }
    }
  }
}

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_TEST_BLOCK_OFFSETS_H_
