// Goal:   the CRC is Castagnoli's, however the data is cut, and catches every single-bit error.
// Method: the vectors of RFC 3720 B.4; a bit-by-bit twin; all cuts; all bits of a granule.
#include "common/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "common/coding.h"
#include "common/random.h"
#include "testing/seed.h"

namespace attndb {
namespace {

std::vector<std::byte> RandomData(size_t size, uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> data(size);
  for (std::byte& b : data) b = static_cast<std::byte>(random.Uniform(256));
  return data;
}

uint32_t BitwiseCrc32c(std::span<const std::byte> data) {
  uint32_t crc = ~0u;
  for (const std::byte b : data) {
    crc ^= std::to_integer<uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
  }
  return ~crc;
}

TEST(Crc32c, GivesTheVectorsOfRfc3720) {
  EXPECT_EQ(Crc32c(BytesOf(std::string_view("123456789"))), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::vector<std::byte>(32, std::byte{0})), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::vector<std::byte>(32, std::byte{0xff})), 0x62a8ab43u);
  std::vector<std::byte> rising(32);
  for (size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<std::byte>(i);
  EXPECT_EQ(Crc32c(rising), 0x46dd794eu);
  std::reverse(rising.begin(), rising.end());
  EXPECT_EQ(Crc32c(rising), 0x113fdb5cu);
  EXPECT_EQ(Crc32c({}), 0u);
}

TEST(Crc32c, EqualsTheBitwiseTwinAtEveryLengthAndAlignment) {
  const std::vector<std::byte> data = RandomData(8300, test::SeedOr(1));
  for (size_t begin = 0; begin < 17; ++begin) {
    for (const size_t size : {0u, 1u, 7u, 8u, 63u, 64u, 255u, 1023u, 4095u, 4096u, 4097u, 8192u}) {
      const std::span<const std::byte> part = std::span(data).subspan(begin, size);
      ASSERT_EQ(Crc32c(part), BitwiseCrc32c(part)) << begin << ' ' << size;
    }
  }
}

TEST(Crc32c, ExtendingPieceByPieceGivesTheWhole) {
  const std::vector<std::byte> data = RandomData(1000, test::SeedOr(2));
  const std::span<const std::byte> all(data);
  for (size_t cut = 0; cut <= data.size(); ++cut) {
    ASSERT_EQ(Crc32cExtend(Crc32c(all.first(cut)), all.subspan(cut)), Crc32c(all)) << cut;
  }
}

TEST(Crc32c, EverySingleBitOfAGranuleCounts) {
  std::vector<std::byte> data = RandomData(4096, test::SeedOr(3));
  const uint32_t clean = Crc32c(data);
  for (size_t bit = 0; bit < 8 * data.size(); ++bit) {
    data[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    ASSERT_NE(Crc32c(data), clean) << bit;
    data[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
  }
}

}  // namespace
}  // namespace attndb
