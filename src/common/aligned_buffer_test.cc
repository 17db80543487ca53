// Goal:   memory that is aligned, owned once, and refused instead of crashing.
// Method: sizes around the huge-page threshold; a size no machine has.
#include "common/aligned_buffer.h"
#include "attndb/units.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <utility>

#include "testing/matchers.h"

namespace attndb {
namespace {

using ::testing::HasSubstr;

TEST(AlignedBuffer, IsAlignedAndWritableToItsEnd) {
  for (const size_t size :
       {size_t{1}, size_t{63}, size_t{64}, size_t{4097}, size_t{4} << 20, (size_t{4} << 20) + 1}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(AlignedBuffer buffer, AlignedBuffer::Allocate(size));
    ASSERT_EQ(buffer.size(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kBufferAlignment, 0u);
    std::ranges::fill(buffer.span(), std::byte{0xab});
    EXPECT_EQ(buffer.data()[size - 1], std::byte{0xab});
  }
}

TEST(AlignedBuffer, ZeroedMeansZero) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const AlignedBuffer buffer, AlignedBuffer::AllocateZeroed(10000));
  EXPECT_TRUE(std::ranges::all_of(buffer.span(), [](std::byte b) { return b == std::byte{0}; }));
}

TEST(AlignedBuffer, MovingKeepsTheAddress) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(AlignedBuffer from, AlignedBuffer::Allocate(100));
  const std::byte* const address = from.data();
  const AlignedBuffer to = std::move(from);
  EXPECT_EQ(to.data(), address);
  EXPECT_EQ(to.size(), 100u);
}

// A limit on memory is worth nothing if freed buffers stay with the process.
TEST(AlignedBuffer, LargeBuffersGoBackToTheSystem) {
  const auto resident_pages = [] {
    uint64_t total = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> total >> resident;
    return resident;
  };
  constexpr size_t kBytes = size_t{8} << 20;
  const uint64_t before = resident_pages();
  for (int i = 0; i < 10; ++i) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(AlignedBuffer buffer, AlignedBuffer::AllocateZeroed(kBytes));
    EXPECT_GE(resident_pages(), before + kBytes / 4096 * 9 / 10);
  }
  EXPECT_LE(resident_pages(), before + kBytes / 4096 / 2);
}

TEST(AlignedBuffer, EmptyNeedsNoMemory) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const AlignedBuffer buffer, AlignedBuffer::AllocateZeroed(0));
  EXPECT_TRUE(buffer.span().empty());
}

TEST(AlignedBuffer, AnImpossibleSizeIsRefusedWithTheSize) {
  for (const size_t size : {SIZE_MAX, SIZE_MAX - 100, SIZE_MAX / 2}) {
    EXPECT_THAT(AlignedBuffer::Allocate(size),
                test::FailsWith(StatusCode::kResourceExhausted, HasSubstr(FormatBytes(size))));
  }
}

}  // namespace
}  // namespace attndb
