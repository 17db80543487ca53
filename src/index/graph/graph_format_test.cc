// Goal:   a graph read back is the graph written. No bytes crash a reader, or a walk of a graph
//         that the reader accepted.
// Method: every field is set to what it must not be; bytes are changed at random and cut short. Run
//         under ASan and UBSan too.
// Replay: ATTNDB_SEED=17 ctest -R index_test
#include "index/graph/graph_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>

#include "index/format_test_util.h"
#include "index/graph/graph_test_util.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::index {
namespace {

using test::kDim;
using test::Workload;

constexpr size_t kNumKeys = 1500;

class GraphFormatTest : public ::testing::Test {
 protected:
  GraphFormatTest() : graph_(*GraphIndex::Build(work_.source())) {
    bytes_ = *AlignedBuffer::Allocate(graph_.bytes().size());
    std::ranges::copy(graph_.bytes(), bytes_.data());
  }

  Result<GraphIndex> Parse() const { return Parse(bytes_.span()); }
  static Result<GraphIndex> Parse(std::span<const std::byte> bytes) {
    return GraphIndex::Parse(bytes, {kNumKeys, kDim, DType::kFloat32}, "graph 7");
  }

  // Puts `value`, expects an error of this kind that says `message`, and restores the old value.
  template <typename T>
  void ExpectRefused(size_t offset, T value, const std::string& message,
                     StatusCode code = StatusCode::kCorruption) {
    attndb::test::ExpectFieldRefused(
        bytes_.data() + offset, value, [&] { return Parse().status(); }, code,
        "graph 7: " + message);
  }

  auto SearchAll(const GraphIndex& graph) const {
    const SearchSpec spec = {.kind = SearchKind::kTopK, .k = 10, .effort = 12};
    return test::SearchRows(graph, spec, work_.keys, kNumKeys, work_.queries.row(0), 3);
  }

  Workload work_{kNumKeys, 600, attndb::test::SeedOr(95)};
  GraphIndex graph_;
  AlignedBuffer bytes_;
};

TEST_F(GraphFormatTest, WhatIsReadBackFindsTheSame) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex parsed, Parse());
  EXPECT_EQ(parsed.num_keys(), kNumKeys);
  EXPECT_EQ(parsed.memory_bytes(), bytes_.size());
  EXPECT_EQ(parsed.bytes().data(), bytes_.data());
  const auto found = SearchAll(parsed), expected = SearchAll(graph_);
  for (size_t r = 0; r < found.size(); ++r) EXPECT_EQ(found[r].keys, expected[r].keys);
}

TEST_F(GraphFormatTest, EveryFieldIsChecked) {
  ExpectRefused<uint8_t>(0, 'A', "magic: expected");
  ExpectRefused<uint32_t>(8, 3, "version: expected 1 or 2, found 3", StatusCode::kUnsupported);
  ExpectRefused<uint32_t>(8, 2, "slot_bytes: expected a multiple of 8 from 72 to 1024, found 48");
  ExpectRefused<uint32_t>(12, 64, "num_elements: expected 32, found 64");
  ExpectRefused<uint64_t>(16, 0, "num_keys: expected 1500, found 0");
  ExpectRefused<uint64_t>(16, UINT64_MAX, "num_keys: expected 1500");
  ExpectRefused<uint32_t>(24, 99, "dtype: expected");
  for (const uint32_t bad : {0u, 8u, 50u, 72u, 0xfffffff8u}) {
    ExpectRefused<uint32_t>(28, bad, "slot_bytes: expected a multiple of 8 from 16 to 64");
    ExpectRefused<uint32_t>(32, bad, "router_slot_bytes: expected a multiple of 8");
  }
  ExpectRefused<uint32_t>(28, 56, "bytes: expected");
  ExpectRefused<uint32_t>(36, 0xffffffff, "num_routers: expected at most");
  ExpectRefused<uint32_t>(36, 0, "bytes: expected");
  ExpectRefused<uint32_t>(40, kNumKeys, "entry_point: expected at most 1499, found 1500");
  ExpectRefused<uint8_t>(44, 1, "reserved byte at offset 44: expected 0, found 1");
}

TEST_F(GraphFormatTest, EveryListIsChecked) {
  const GraphLayout layout(graph_.view().header);
  const size_t slot = layout.slots + 5 * graph_.view().header.slot_bytes;
  for (const int count : {0, 254, 255}) {
    ExpectRefused(slot, static_cast<uint8_t>(count), "neighbours[5]: expected at most");
  }
  // 11 bits a number: the first is in bytes 1 and 2.
  uint16_t first;
  std::memcpy(&first, bytes_.data() + slot + 1, 2);
  const auto with_first = [&](unsigned id) {
    return static_cast<uint16_t>((first & 0xf800u) | id);
  };
  ExpectRefused(slot + 1, with_first(5), "neighbours[5]: expected other keys, each once, found 5");
  ExpectRefused(slot + 1, with_first(kNumKeys), "neighbours[5]: expected keys below 1500");
  ExpectRefused(layout.router_slots, uint8_t{255}, "router_keys[0]: expected at most");
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    ExpectRefused(layout.router_rows + 4, bad, "router_rows[0]: expected finite numbers");
  }
  const size_t pad = layout.slots + kNumKeys * graph_.view().header.slot_bytes;
  ExpectRefused<uint8_t>(pad, 1, "padding byte at offset " + std::to_string(pad));
  ATTNDB_EXPECT_OK(Parse());
}

TEST_F(GraphFormatTest, KeysThatAreNamedTwiceAreFound) {
  const GraphView& view = graph_.view();
  const GraphLayout layout(view.header);
  const auto expect_refused = [&](const SlotView& slots, size_t offset, const std::string& field) {
    std::vector<uint32_t> ids(kMaxSlotIds);
    ids.resize(slots.Read(7, ids.data()));
    ASSERT_GE(ids.size(), 3u);
    ids.back() = ids[1];
    WriteSlot(slots, 7, ids, reinterpret_cast<uint8_t*>(bytes_.data() + offset));
    const Status status = Parse().status();
    EXPECT_EQ(status.code(), StatusCode::kCorruption);
    EXPECT_EQ(status.message(), "graph 7: " + field +
                                    "[7]: expected other keys, each once, found " +
                                    std::to_string(ids[1]));
    std::ranges::copy(graph_.bytes(), bytes_.data());
  };
  expect_refused(view.neighbours, layout.slots, "neighbours");
  expect_refused(view.router_keys, layout.router_slots, "router_keys");
}

TEST_F(GraphFormatTest, AKeyThatNoWayLeadsToIsFound) {
  constexpr uint32_t kLost = 444;
  const GraphView& view = graph_.view();
  ASSERT_NE(view.header.entry_point, kLost);
  auto* const slots = reinterpret_cast<uint8_t*>(bytes_.data() + GraphLayout(view.header).slots);
  for (size_t key = 0; key < kNumKeys; ++key) {
    std::vector<uint32_t> ids(kMaxSlotIds);
    ids.resize(view.neighbours.Read(key, ids.data()));
    std::erase(ids, kLost);
    WriteSlot(view.neighbours, key, ids, slots);
  }
  const Status status = Parse().status();
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_EQ(status.message(),
            "graph 7: neighbours: expected a way to every key, found none to 444");
}

TEST_F(GraphFormatTest, OtherLengthsAreRefused) {
  attndb::test::ExpectCutsRefused(
      bytes_.span(), 997, [&](std::span<const std::byte> cut) { return Parse(cut).status(); });
}

TEST_F(GraphFormatTest, NoBytesCrashAReader) {
  Random random(attndb::test::SeedOr(96));
  size_t num_read = 0;
  for (int round = 0; round < 3000; ++round) {
    const size_t at = random.Uniform(random.OneIn(4) ? bytes_.size() : kGraphHeaderBytes + 3000);
    const std::byte before = bytes_.data()[at];
    bytes_.data()[at] = random.OneIn(2) ? static_cast<std::byte>(random.Next())
                                        : before ^ static_cast<std::byte>(1u << random.Uniform(8));
    const Result<GraphIndex> parsed = Parse();
    if (parsed.ok()) {
      ++num_read;
      EXPECT_EQ(SearchAll(*parsed).size(), 3u);
    }
    bytes_.data()[at] = before;
  }
  EXPECT_GT(num_read, 100u);
  EXPECT_LT(num_read, 3000u);
}

}  // namespace
}  // namespace attndb::index
