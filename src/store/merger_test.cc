// Goal:   the short segments that Stores leave at the end of a chain become one segment with the
//         same rows, in the background or before the Store returns. A holder of the run finds the
//         merged segment.
// Method: a context that grows by small tails; samples of q, progress and a disk that are looked at
//         beside it.
#include "store/merger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "storage/vfs/format.h"
#include "store/catalog/sqlite.h"
#include "store/hooked_files_test_util.h"
#include "store/object_path.h"
#include "store/store_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using test::FailsWith;
using ::testing::HasSubstr;

class MergerTest : public StoreTest {
 protected:
  ~MergerTest() override { store_.reset(); }  // While its files are there.

  // Makes the store anew, without a background.
  void Clear() {
    store_.reset();
    std::filesystem::remove_all(dir_.File("store"));
    Open({.background_builds = false});
  }
  // Stores a context of two segments, which only a Compact merges.
  void StorePair(uint64_t first, uint64_t second, const std::string& name) {
    ATTNDB_ASSERT_OK(Store({first}, {.name = "beginning"}).status());
    ATTNDB_ASSERT_OK(Store({first, second}, {.name = name}).status());
    ATTNDB_ASSERT_OK(store_->publisher()->Drop("t", "beginning"));
  }
  uint64_t NumSegments() { return store_->Stats("t", true)->num_segments; }
  Status Compact(const CompactOptions& options = {}) {
    return store_->merger()->Compact("t", options);
  }

  HookedFiles files_{storage::PosixFileSystem()};
};

TEST_F(MergerTest, WhoHoldsTheRunFindsWhatTookItsPlace) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored stored, Store({1, 2}, {.name = "a", .replace = true}));
  ATTNDB_ASSERT_OK(store_->background()->Wait(nullptr));
  ExpectKeys(stored.chain, {1, 2});
  ASSERT_EQ(stored.chain.size(), 2u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto merged, store_->uses()->OpenContext(stored.context));
  ASSERT_EQ(merged.size(), 1u);
  ExpectKeys(merged, {1, 2});
  EXPECT_EQ(store_->merged_runs().num_added(), 1u);
  const auto renewed = store_->merged_runs().Renew(stored.chain);
  ASSERT_TRUE(renewed.has_value());
  ASSERT_EQ(renewed->size(), 1u);
  EXPECT_EQ((*renewed)[0].segment, merged[0].segment);
  EXPECT_EQ(store_->Stats("t", true)->bytes_merged,
            store_->admin()->Describe("t", "a")->file_bytes -
                store_->admin()->Describe("t", "a")->companion_bytes);
}

TEST_F(MergerTest, WithoutABackgroundAStoreMergesBeforeItReturns) {
  Open({.background_builds = false});
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored stored, Store({1, 2}, {.name = "a", .replace = true}));
  EXPECT_EQ(stored.chain.size(), 1u);
  ExpectKeys(stored.chain, {1, 2});
}

TEST_F(MergerTest, CompactMergesWhatContextsShare) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_ASSERT_OK(Store({1, 2}, {.name = "b"}).status());
  ATTNDB_ASSERT_OK(Store({1, 2, 3}, {.name = "c"}).status());
  ATTNDB_ASSERT_OK(store_->publisher()->Drop("t", "a"));
  ATTNDB_ASSERT_OK(store_->merger()->Compact("t", {}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const WholeContext b,
                              store_->lookup()->OpenNamed("t", spec_, "b", 0));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const WholeContext c,
                              store_->lookup()->OpenNamed("t", spec_, "c", 0));
  ExpectKeys(b.chain.entries, {1, 2});
  ExpectKeys(c.chain.entries, {1, 2, 3});
  ASSERT_EQ(b.chain.entries.size(), 1u);
  EXPECT_EQ(c.chain.entries.front().segment, b.chain.entries.front().segment);
}

TEST_F(MergerTest, AStoreMergesAsFarAsTheDiskHasRoom) {
  Open({.background_builds = false}, &files_);
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  const uint64_t file_bytes = store_->Stats("t", true)->file_bytes;
  // Half of what is free may be taken.
  files_.free_bytes = [&] { return Result<uint64_t>(2 * (2 * file_bytes) - 1); };
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored two, Store({1, 2}, {.name = "a", .replace = true}));
  EXPECT_EQ(two.chain.size(), 2u);
  files_.free_bytes = [&] { return Result<uint64_t>(2 * (3 * file_bytes)); };
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored three, Store({1, 2, 3}, {.name = "a", .replace = true}));
  EXPECT_EQ(three.chain.size(), 1u);
  ExpectKeys(three.chain, {1, 2, 3});
}

TEST_F(MergerTest, WhatIsNotedAsDamagedIsNotMergedByAStore) {
  Clear();
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  const auto segment = static_cast<SegmentId>(FirstOf("a", 1).chain.entries[0].segment->id());
  ATTNDB_ASSERT_OK(
      store_->damage()->Quarantine(segment, {Status::Corruption("seen once"), kTokens}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored stored, Store({1, 2}, {.name = "a", .replace = true}));
  EXPECT_EQ(stored.chain.size(), 2u);
}

TEST_F(MergerTest, AMergeInTheBackgroundRemovesWhatNobodyReadsAnyMore) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_ASSERT_OK(store_->background()->Wait(nullptr));
  std::vector<storage::ChainEntry> chain = FirstOf("a", kTokens).chain.entries;
  ATTNDB_ASSERT_OK(store_->publisher()->Drop("t", "a"));
  chain.clear();
  ATTNDB_ASSERT_OK(Store({2}).status());
  ATTNDB_ASSERT_OK(store_->background()->Wait(nullptr));
  EXPECT_EQ(NumSegments(), 1u);
}

TEST_F(MergerTest, SamplesOfTheTokensThatAreUsedStay) {
  Random random(5);
  tails_[9] = test::RandomSegment({.shape = ShapeOf(spec_), .num_tokens = 100, .num_queries = 400},
                                  &random);
  const test::SegmentData& data = Tail(9);
  // Cut at a token that has a sample.
  const std::vector<uint32_t>* sampled = &data.head(0, 0).query_tokens;
  for (const auto& layer : data.layers) {
    for (const test::HeadData& head : layer) {
      if (head.query_tokens.size() > sampled->size()) sampled = &head.query_tokens;
    }
  }
  ASSERT_GT(sampled->size(), 10u);
  const uint64_t part = (*sampled)[sampled->size() / 2];
  ASSERT_GT(part, 0u);
  for (const bool is_damaged : {false, true}) {
    Clear();
    ATTNDB_ASSERT_OK(store_->publisher()->Store(Behind({}, 9, {.name = "long"})).status());
    ATTNDB_ASSERT_OK(store_->publisher()
                         ->Store(Behind(FirstOf("long", part), std::nullopt, {.name = "part"}))
                         .status());
    ATTNDB_ASSERT_OK(store_->publisher()->Drop("t", "long"));
    if (is_damaged) {  // The used tokens are sound.
      const auto id = static_cast<SegmentId>(FirstOf("part", 1).chain.entries[0].segment->id());
      ATTNDB_ASSERT_OK(store_->damage()->Quarantine(id, {Status::Corruption("behind it"), part}));
    }
    ATTNDB_ASSERT_OK(Compact());
    const std::vector<storage::ChainEntry> chain = FirstOf("part", part).chain.entries;
    ASSERT_EQ(chain.size(), 1u);
    EXPECT_EQ(chain[0].segment->num_tokens(), part);
    for (LayerId layer = 0; layer < spec_.num_layers(); ++layer) {
      ATTNDB_ASSERT_OK_AND_ASSIGN(const storage::LayerQueries queries,
                                  chain[0].segment->ReadQueries(layer));
      ASSERT_EQ(queries.num_kv_heads(), 2u);
      for (uint32_t head = 0; head < 2; ++head) {
        const test::HeadData& of_head = data.head(layer, head);
        const auto end = std::ranges::lower_bound(of_head.query_tokens, part);
        const auto num_rows = end - of_head.query_tokens.begin();
        const storage::QueryRows& rows = queries.rows(head);
        EXPECT_EQ(std::vector<uint32_t>(rows.tokens.begin(), rows.tokens.end()),
                  std::vector<uint32_t>(of_head.query_tokens.begin(), end));
        EXPECT_EQ(std::vector<uint32_t>(rows.q_heads.begin(), rows.q_heads.end()),
                  std::vector<uint32_t>(of_head.query_heads.begin(),
                                        of_head.query_heads.begin() + num_rows));
      }
    }
  }
}

// They are a help and no more: what can be read is merged once it is known.
TEST_F(MergerTest, SamplesThatCanNotBeReadAreToldAndCostNoToken) {
  Clear();
  Random random(5);
  tails_[9] = test::RandomSegment({.shape = ShapeOf(spec_), .num_tokens = 100, .num_queries = 400},
                                  &random);
  ATTNDB_ASSERT_OK(store_->publisher()->Store(Behind({}, 9, {.name = "beginning"})).status());
  ATTNDB_ASSERT_OK(
      store_->publisher()->Store(Behind(FirstOf("beginning", 100), 1, {.name = "a"})).status());
  ATTNDB_ASSERT_OK(store_->publisher()->Drop("t", "beginning"));
  const uint64_t segment = FirstOf("a", 1).chain.entries[0].segment->id();
  const std::string path = dir_.File("store/" + ObjectPath({.segment_id = segment}));
  const auto turn = [&](uint64_t page) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto place = static_cast<std::streamoff>(page * 4096 + 2048);
    const int turned = file.seekg(place).get() ^ 0x10;
    file.seekp(place).put(static_cast<char>(turned));
  };
  // The first page whose damage harms no context is one of samples.
  uint64_t page = 1;
  for (bool is_found = false; !is_found; page += is_found ? 0 : 1) {
    ASSERT_LT(page, std::filesystem::file_size(path) / 4096);
    turn(page);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const VerifyReport report, VerifyAll());
    is_found = report.damages.size() == 1 && report.damages[0].contexts.empty();
    turn(page);
    ATTNDB_ASSERT_OK(VerifyAll());  // It is whole again.
  }
  turn(page);
  EXPECT_THAT(Compact(), FailsWith(StatusCode::kCorruption, HasSubstr(".seg")));
  ATTNDB_ASSERT_OK(Compact());
  EXPECT_EQ(NumSegments(), 1u);
  EXPECT_TRUE(VerifyAll()->ok());
  EXPECT_EQ(FirstOf("a", 100 + kTokens).chain.tokens.size(), 100 + kTokens);
}

// --- Compact ---

TEST_F(MergerTest, NothingIsCompactedInAStoreThatIsOnlyRead) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  Open({.read_only = true});
  EXPECT_THAT(Compact(), FailsWith(StatusCode::kReadOnly, HasSubstr("was opened for reading")));
}

// It looks, finds nothing to merge, and fails all the same: it could not tell the catalog that.
TEST_F(MergerTest, WhatACompactCanNotWriteDownIsTold) {
  const auto now_us = std::make_shared<int64_t>(1'700'000'000'000'000);
  Open({.background_builds = false, .clock = [now_us] { return *now_us; }});
  ATTNDB_ASSERT_OK(Store({1}).status());
  ATTNDB_ASSERT_OK(Compact());
  ATTNDB_ASSERT_OK(Store({2}, {.ttl = std::chrono::seconds(10)}).status());
  const std::string store = dir_.File("store"), moved = dir_.File("moved");
  const auto is_refused = FailsWith(StatusCode::kIoError, HasSubstr("was moved"));
  std::filesystem::rename(store, moved);
  EXPECT_THAT(Compact(), is_refused) << "of what has changed";
  std::filesystem::rename(moved, store);
  ATTNDB_EXPECT_OK(Compact());
  std::filesystem::rename(store, moved);
  EXPECT_THAT(Compact({.segment_tokens = 4096}), is_refused) << "to another length";
  *now_us += 11'000'000;
  EXPECT_THAT(Compact(), is_refused) << "of what has expired";
  std::filesystem::rename(moved, store);
  ATTNDB_EXPECT_OK(Compact());
  EXPECT_EQ(NumSegments(), 1u);
}

// A chain of a segment that is used in part by two contexts, and two of one context alone, the last
// of which is used in part, too.
TEST_F(MergerTest, WhatIsToBeCopiedIsCountedOnce) {
  MakeTail(8, 100);
  MakeTail(9, 100);
  for (const std::string context : {"", "all"}) {
    Clear();
    Publisher* const publisher = store_->publisher();
    ATTNDB_ASSERT_OK(publisher->Store(Behind({}, 8, {.name = "long"})).status());
    ATTNDB_ASSERT_OK(publisher->Store(Behind(FirstOf("long", 70), 1, {.name = "two"})).status());
    ATTNDB_ASSERT_OK(publisher->Store(Behind(FirstOf("two", 110), 9, {.name = "three"})).status());
    for (const auto& [name, from, num_tokens] :
         {std::tuple("first", "long", 70), std::tuple("all", "three", 160)}) {
      const auto n = static_cast<uint64_t>(num_tokens);
      ATTNDB_ASSERT_OK(
          publisher->Store(Behind(FirstOf(from, n), std::nullopt, {.name = name})).status());
    }
    for (const char* const name : {"long", "two", "three"}) {
      ATTNDB_ASSERT_OK(publisher->Drop("t", name));
    }
    ASSERT_EQ(FirstOf("all", 160).chain.entries.size(), 3u);
    std::vector<uint64_t> done, totals;
    const auto progress = [&](uint64_t bytes_done, uint64_t bytes_total) {
      done.push_back(bytes_done);
      totals.push_back(bytes_total);
      return true;
    };
    ATTNDB_ASSERT_OK(Compact({.context = context, .progress = progress}));
    const uint64_t all = 160 * spec_.KvBytesPerToken();
    ASSERT_FALSE(totals.empty());
    EXPECT_EQ(done.front(), 0u);
    EXPECT_EQ(done.back(), all);
    EXPECT_TRUE(std::ranges::is_sorted(done));
    EXPECT_EQ(std::ranges::count(totals, all), static_cast<int64_t>(totals.size()));
    EXPECT_EQ(NumSegments(), 2u);
    EXPECT_EQ(store_->admin()->Describe("t", "all")->retained_bytes, 0u);
  }
}

TEST_F(MergerTest, WhoCancelsBetweenTwoSegmentsIsAskedNoMore) {
  Clear();
  StorePair(1, 2, "a");
  StorePair(3, 4, "b");
  int num_calls = 0;
  // Before each of two layers, and behind them.
  const auto progress = [&](uint64_t, uint64_t) { return ++num_calls < 3; };
  EXPECT_THAT(Compact({.progress = progress}),
              FailsWith(StatusCode::kCancelled, HasSubstr("between two segments")));
  EXPECT_EQ(num_calls, 3);
  EXPECT_EQ(NumSegments(), 3u);
}

TEST_F(MergerTest, AContextThatIsDroppedWhileItIsCompactedHindersNoOther) {
  Clear();
  StorePair(1, 2, "a");
  StorePair(3, 4, "b");
  bool is_first = true;
  const auto progress = [&](uint64_t, uint64_t) {
    if (std::exchange(is_first, false)) {
      std::thread([&] { ATTNDB_EXPECT_OK(store_->publisher()->Drop("t", "a")); }).join();
    }
    return true;
  };
  ATTNDB_ASSERT_OK(Compact({.progress = progress}));
  store_->uses()->Sweep();
  EXPECT_EQ(NumSegments(), 1u);
  const std::vector<storage::ChainEntry> chain = FirstOf("b", 2 * kTokens).chain.entries;
  ASSERT_EQ(chain.size(), 1u);
  ExpectKeys(chain, {3, 4});
  size_t num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir_.File("store/segments"))) {
    EXPECT_NE(entry.path().extension(), ".loose");
    ++num_files;
  }
  EXPECT_EQ(num_files, 2u);
}

// Half of an object's bytes are for K and V.
TEST_F(MergerTest, NoSegmentBecomesLongerThanAnObjectCanBe) {
  constexpr uint64_t kBytes = storage::kMaxObjectBytes / 2;
  for (const auto& [max_tokens, num_segments] : {std::pair(79u, 2u), std::pair(80u, 1u)}) {
    Clear();
    StorePair(1, 2, "a");
    store_.reset();
    {
      ATTNDB_ASSERT_OK_AND_ASSIGN(
          const auto catalog,
          SqliteDatabase::Open(dir_.File("store/catalog.db"), SqliteDatabase::Mode::kReadWrite));
      const std::string sql =
          "UPDATE segments SET kv_bytes = " + std::to_string(kTokens * (kBytes / max_tokens));
      ATTNDB_ASSERT_OK(catalog->Execute(sql.c_str()));
    }
    Open({.background_builds = false});
    ATTNDB_ASSERT_OK(Compact());
    EXPECT_EQ(NumSegments(), num_segments) << max_tokens;
  }
}

}  // namespace
}  // namespace attndb::store
