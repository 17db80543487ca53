// Goal:   the probe reads every byte exactly once, so that its time means bandwidth.
// Method: flip one bit anywhere and see the result change by it.
#include "kernels/bandwidth.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/test_rows.h"

namespace attndb::kernels {
namespace {

using BandwidthTest = IsaTest;

TEST_P(BandwidthTest, EveryWordCountsOnce) {
  for (const size_t num_words : Sizes{0, 1, 7, 8, 63, 64, 65, 300}) {
    AlignedFloats store(2 * num_words + 2, 0.0f);
    auto* const words = reinterpret_cast<uint64_t*>(store.data());
    uint64_t expected = 0;
    for (size_t i = 0; i < num_words; ++i) {
      words[i] = (uint64_t{random_()} << 32) | random_();
      expected ^= words[i];
    }
    EXPECT_EQ(XorWords(words, num_words * 8), expected) << num_words;
    for (size_t i = 0; i < num_words; i += 13) {
      words[i] ^= 1;
      EXPECT_EQ(XorWords(words, num_words * 8), expected ^ 1) << i;
      words[i] ^= 1;
    }
  }
}

ATTNDB_INSTANTIATE_ISAS(BandwidthTest);

}  // namespace
}  // namespace attndb::kernels
