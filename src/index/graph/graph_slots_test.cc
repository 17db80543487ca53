// Goal:   a slot gives back the list written into it, at every width, and its neighbours stay as
//         they are.
// Method: random lists at every width and length.
// Replay: ATTNDB_SEED=17 ctest -R index_test
#include "index/graph/graph_slots.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/random.h"
#include "testing/seed.h"

namespace attndb::index {
namespace {

TEST(GraphSlotsTest, BitsHoldEveryId) {
  EXPECT_EQ(IdBits(1), 1u);
  EXPECT_EQ(IdBits(2), 1u);
  EXPECT_EQ(IdBits(3), 2u);
  EXPECT_EQ(IdBits(65536), 16u);
  EXPECT_EQ(IdBits(65537), 17u);
  EXPECT_EQ(SlotCapacity(64, 16), 31u);
  EXPECT_EQ(SlotCapacity(64, 1), kMaxNarrowIds);
  EXPECT_EQ(SlotCapacity(152, 17), 71u);
  EXPECT_EQ(SlotCapacity(1024, 8), kMaxSlotIds);
}

TEST(GraphSlotsTest, ListsComeBack) {
  Random random(attndb::test::SeedOr(81));
  for (uint32_t bits = 1; bits <= 32; ++bits) {
    for (const size_t slot_bytes : {size_t{16}, size_t{48}, size_t{64}, size_t{72}, size_t{1024}}) {
      constexpr size_t kSlots = 9;
      std::vector<uint8_t> data(kSlots * slot_bytes + kSlotPadBytes, 0xee);
      const SlotView slots = {data.data(), slot_bytes, bits};
      std::vector<std::vector<uint32_t>> lists(kSlots);
      for (size_t round = 0; round < 30; ++round) {
        const size_t i = round < kSlots ? round : random.Uniform(kSlots);
        lists[i].resize(random.Uniform(SlotCapacity(slot_bytes, bits) + 1));
        for (uint32_t& id : lists[i]) id = static_cast<uint32_t>(random.Next() >> (64 - bits));
        WriteSlot(slots, i, lists[i], data.data());
      }
      for (size_t i = 0; i < kSlots; ++i) {
        uint32_t ids[kMaxSlotIds];
        const size_t count = slots.Read(i, ids);
        EXPECT_EQ(std::vector<uint32_t>(ids, ids + count), lists[i]) << bits;
        EXPECT_TRUE(SlotIsCanonical(slots, i));
      }
      EXPECT_EQ(data[kSlots * slot_bytes], 0xee);
    }
  }
}

TEST(GraphSlotsTest, OtherCountsAndLeftoversAreNotCanonical) {
  std::vector<uint8_t> data(16 + kSlotPadBytes);
  const SlotView slots = {data.data(), 16, 10};
  const std::vector<uint32_t> ids = {1000, 3, 777};
  WriteSlot(slots, 0, ids, data.data());
  EXPECT_TRUE(SlotIsCanonical(slots, 0));
  for (const uint8_t count : {uint8_t{0}, uint8_t{1}, uint8_t{2}, uint8_t{13}, uint8_t{255}}) {
    data[0] = count;
    EXPECT_FALSE(SlotIsCanonical(slots, 0)) << int{count};
  }
  data[0] = 3;
  data[15] = 1;
  EXPECT_FALSE(SlotIsCanonical(slots, 0));
}

}  // namespace
}  // namespace attndb::index
