// Goal:   a damaged catalog.db is reported, and never crashes or answers wrongly.
// Method: single-bit flips, truncations and swapped pages; after each, everything that
//         the API tells is compared with what it told before, and Verify must name the damage.
//         A long run flips a bit in every byte of the file, a short one in a sample.
// Replay: ATTNDB_SEED=17 ctest -R db_test
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/random.h"
#include "store/catalog/catalog_test_util.h"
#include "store/catalog/checked_vfs.h"
#include "testing/matchers.h"
#include "testing/seed.h"
#include "testing/test_size.h"

namespace attndb::store {
namespace {

using ::testing::HasSubstr;

class CatalogDamage : public ::testing::Test {
 protected:
  // A little of everything, free pages too.
  CatalogDamage() {
    const ContextId first = harness_.MustPublish(
        Range(0, 200), {.name = "first", .title = "A book", .note = std::string(9000, 'n')});
    harness_.MustPublish(Range(0, 300), {.name = "second", .base = first, .num_shared = 150});
    harness_.MustPublish(Range(0, 200), {.ttl = std::chrono::seconds(1000), .pin = true});
    const ContextId large = harness_.MustPublish(Range(5, 3000));
    const ContextId bad = harness_.MustPublish(Range(7, 70), {.name = "bad"});
    harness_.MustPublish(Range(0, 210), {.name = "more", .base = first, .num_shared = 200});
    EXPECT_TRUE(harness_->segments()
                    ->Quarantine(harness_->contexts()->Chain(bad)->front().segment, "test")
                    .ok());
    EXPECT_TRUE(harness_->companions()->Publish(1, {.kind = "planes", .generation = 7}).ok());
    EXPECT_TRUE(harness_->owners()->DeclareEqual(harness_.tenant(), "weights", "others").ok());
    harness_.set_spec(TestSpec("others"));
    harness_.set_tenant(harness_->owners()->EnsureTenant("other")->id);
    harness_.MustPublish(Range(0, 65), {.name = "first", .first_position = 9});
    EXPECT_TRUE(
        harness_->contexts()->Drop(harness_->owners()->FindTenant("default")->id, large).ok());
    harness_.Reopen();  // Forgets the dropped context's segment, as any writer would.
    harness_.Close();
    good_ = ReadFile(harness_.path());
    dump_ = CatalogHarness::Dump(*harness_.Open(/*read_only=*/true).value(), TestSpec()).value();
  }

  // Nothing but an error, or the same answers; and in any case Verify finds it.
  void ExpectReported(const std::string& what) {
    SCOPED_TRACE(what);
    const Result<std::unique_ptr<Catalog>> catalog = harness_.Open(/*read_only=*/true);
    if (!catalog.ok()) {
      ++num_refused_;
      EXPECT_THAT(catalog.status().code(),
                  ::testing::AnyOf(StatusCode::kCorruption, StatusCode::kUnsupported));
      return;
    }
    const Result<std::string> dump = CatalogHarness::Dump(**catalog, TestSpec());
    if (dump.ok()) {
      EXPECT_TRUE(*dump == dump_);
    } else {
      ++num_failed_;
      EXPECT_EQ(dump.status().code(), StatusCode::kCorruption) << dump.status();
    }
    const Result<std::vector<std::string>> findings = (*catalog)->Verify();
    ATTNDB_ASSERT_OK(findings);
    EXPECT_FALSE(findings->empty());
  }

  CatalogHarness harness_;
  std::string good_;
  std::string dump_;
  int num_refused_ = 0;
  int num_failed_ = 0;
};

TEST_F(CatalogDamage, EveryBitFlipIsReported) {
  Random random(test::SeedOr(1));
  std::vector<uint64_t> bits;
  if (test::IsLongRun()) {
    for (uint64_t byte = 0; byte < good_.size(); ++byte)
      bits.push_back(byte * 8 + random.Uniform(8));
  } else {
    for (uint64_t bit = 0; bit < 100 * 8; bit += 3) bits.push_back(bit);  // SQLite's header.
    for (int i = 0; i < 400; ++i) bits.push_back(random.Uniform(good_.size() * 8));
  }
  for (const uint64_t bit : bits) {
    std::string damaged = good_;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    WriteFile(harness_.path(), damaged);
    ExpectReported("bit " + std::to_string(bit));
  }
  std::printf(
      "%zu flips: %d refused at open, %d failed on reading, the rest found by Verify only\n",
      bits.size(), num_refused_, num_failed_);
  test::PrintCount(bits.size(), "flips of a catalog");
  WriteFile(harness_.path(), good_);
  EXPECT_EQ(harness_.Open().value()->Verify().value(), std::vector<std::string>());
}

TEST_F(CatalogDamage, AWriterReportsFlipsAsWell) {
  Random random(test::SeedOr(2));
  for (int i = 0; i < 60; ++i) {
    const uint64_t bit = random.Uniform(good_.size() * 8);
    std::string damaged = good_;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    WriteFile(harness_.path(), damaged);
    SCOPED_TRACE("bit " + std::to_string(bit));
    const Result<std::unique_ptr<Catalog>> catalog = harness_.Open();
    if (!catalog.ok()) continue;
    const Result<std::string> dump = CatalogHarness::Dump(**catalog, TestSpec());
    EXPECT_TRUE(!dump.ok() || *dump == dump_);
    EXPECT_FALSE((*catalog)->Verify()->empty());
  }
}

TEST_F(CatalogDamage, TruncatedAndExtendedFilesAreReported) {
  for (const size_t num_bytes :
       {size_t{0}, size_t{1}, size_t{99}, size_t{100}, size_t{4095}, size_t{4096}, good_.size() / 2,
        good_.size() - 4096, good_.size() - 1}) {
    WriteFile(harness_.path(), good_.substr(0, num_bytes));
    ExpectReported("truncated to " + std::to_string(num_bytes));
  }
  WriteFile(harness_.path(), good_ + std::string(100, 'x'));
  ExpectReported("extended by 100 bytes");
}

TEST_F(CatalogDamage, SwappedAndZeroedPagesAreReported) {
  const size_t num_pages = good_.size() / kPageBytes;
  ASSERT_GT(num_pages, 10u);
  for (size_t page = 0; page + 1 < num_pages; ++page) {
    std::string damaged = good_;
    for (size_t i = 0; i < kPageBytes; ++i) {
      std::swap(damaged[page * kPageBytes + i], damaged[(page + 1) * kPageBytes + i]);
    }
    WriteFile(harness_.path(), damaged);
    ExpectReported("pages swapped: " + std::to_string(page + 1));
    damaged = good_;
    damaged.replace(page * kPageBytes, kPageBytes, kPageBytes, '\0');
    WriteFile(harness_.path(), damaged);
    ExpectReported("page zeroed: " + std::to_string(page + 1));
  }
}

TEST_F(CatalogDamage, AListOfFindingsEnds) {
  WriteFile(harness_.path(), good_ + std::string(kPageBytes * 1100, 'x'));
  const auto catalog = harness_.Open(/*read_only=*/true);
  ATTNDB_ASSERT_OK(catalog);
  EXPECT_EQ((*catalog)->Verify()->size(), 1000u);
}

TEST_F(CatalogDamage, AMessageNamesFileAndPage) {
  std::string damaged = good_;
  damaged[kPageBytes * 3 + 500] ^= 1;
  WriteFile(harness_.path(), damaged);
  const auto catalog = harness_.Open(/*read_only=*/true);
  ATTNDB_ASSERT_OK(catalog);
  EXPECT_THAT((*catalog)->Verify()->front(), HasSubstr("catalog.db: page 4: checksum "));
}

}  // namespace
}  // namespace attndb::store
