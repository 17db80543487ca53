// Goal:   a byte that differs from the stored one is never used. Any change in any file of a store
//         is reported, or has no effect at all.
// Method: a small store with contexts of two tenants that share and don't share segments. One bit
//         of one file is flipped (or a file is cut, grown, zeroed, exchanged, removed), the store
//         is opened and asked everything, and put back. Each flip must be reported by a typed
//         error, a damage flag or a finding of Verify, or leave every answer equal bit by bit; no
//         output may ever differ from float64 attention over the context's tokens.
// Replay: ATTNDB_SEED=17 ctest -R bit_flip
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "common/random.h"
#include "testing/matchers.h"
#include "testing/seed.h"
#include "testing/temp_dir.h"
#include "testing/test_size.h"
#include "tests/crash/examination.h"
#include "tests/crash/store_image.h"

namespace attndb::test {
namespace {

using Tokens = std::vector<TokenId>;

// A tenth as many in each of the two states that a crash leaves.
uint64_t NumFlips() { return Sized(600, 5000); }

// Small, so that a flip costs milliseconds, but with every kind of section.
ModelSpec SmallSpec() {
  ModelSpec spec = ToyModel().spec();
  spec.layers[0].num_q_heads = 2;
  spec.layers[0].num_kv_heads = 1;
  spec.layers[1].num_q_heads = 2;
  spec.layers[1].num_kv_heads = 2;
  return spec;
}

class DamageTest : public ::testing::Test {
 protected:
  DamageTest() : dir_(TempDir::InMemory()), model_(SmallSpec()), path_(dir_.File("store")) {
    contexts_ = Fill(path_, 1);
    std::filesystem::remove(path_ + "/reserve");  // Its bytes mean nothing: only its size counts.
    image_ = StoreImage::Capture(path_);
    expected_ = Examine(path_, {.clock = Clock}, model_, contexts_);
    image_.Restore(path_);
  }

  void SetUp() override {
    ASSERT_FALSE(expected_.reported()) << expected_.reports[0].message;
    ASSERT_TRUE(expected_.wrong_outputs.empty());
    ASSERT_EQ(image_.PathsWith(".seg").size(), 4u);
  }

  // "trunk" of one segment, "branch" that shares it and adds one, "alone", and one of another
  // tenant with the trunk's tokens. What the store was given.
  std::vector<KnownContext> Fill(const std::string& path, uint64_t seed) const {
    std::vector<KnownContext> contexts;
    const DB db = *DB::Open(path, {.clock = Clock});
    const auto store = [&](const std::string& tenant, const std::string& name,
                           const Tokens& tokens) {
      const DB handle = *db.ForTenant(tenant);
      SessionStart start = *handle.CreateSession(model_.spec(), tokens);
      EXPECT_THAT(model_.Step(&start.session, start.rest), IsOk());
      EXPECT_THAT(handle.Store(start.session, tokens, {.name = name}), IsOk());
      contexts.push_back({tenant, name, tokens});
    };
    const Tokens trunk = ToyModel::Tokens(90, seed);
    Tokens branch = trunk;
    const Tokens more = ToyModel::Tokens(40, seed + 100);
    branch.insert(branch.end(), more.begin(), more.end());
    store("default", "trunk", trunk);
    store("default", "branch", branch);
    store("default", "alone", ToyModel::Tokens(70, seed + 200));
    store("tenant", "trunk", trunk);
    return contexts;
  }

  // Stands still, so that two stores of equal history are equal.
  static int64_t Clock() { return 1'000'000'000; }

  // Examines the store as it is now, judges and counts, and puts it back.
  void Judge(const std::string& what, bool read_only = false);

  void PrintCounts(const std::string& title) const {
    std::printf("%s: %llu", title.c_str(), static_cast<unsigned long long>(num_trials_));
    for (size_t stage = 0; stage < kNumStages; ++stage) {
      std::printf(", %llu reported first at %s",
                  static_cast<unsigned long long>(num_reported_[stage]),
                  StageName(static_cast<Stage>(stage)));
    }
    std::printf(", %llu changed nothing, %llu wrong outputs\n",
                static_cast<unsigned long long>(num_unused_),
                static_cast<unsigned long long>(num_wrong_));
  }

  void Flip(const std::string& file, uint64_t bit) {
    std::string contents = image_.files().at(file);
    contents[bit / 8] = static_cast<char>(contents[bit / 8] ^ (1 << (bit % 8)));
    WriteWholeFile(path_ + "/" + file, contents);
  }
  void FlipRandomBits(uint64_t num_flips, Random* random);

  TempDir dir_;
  ToyModel model_;
  std::string path_;
  std::vector<KnownContext> contexts_;
  StoreImage image_;
  Examination expected_;
  uint64_t num_trials_ = 0;
  std::array<uint64_t, kNumStages> num_reported_{};
  uint64_t num_unused_ = 0;
  uint64_t num_wrong_ = 0;
};

void DamageTest::Judge(const std::string& what, bool read_only) {
  const Examination found =
      Examine(path_, {.read_only = read_only, .clock = Clock}, model_, contexts_);
  image_.Restore(path_);
  ++num_trials_;
  num_wrong_ += found.wrong_outputs.size();
  EXPECT_THAT(found.wrong_outputs, ::testing::IsEmpty()) << what;
  EXPECT_THAT(found.absurdities, ::testing::IsEmpty()) << what;
  EXPECT_THAT(found.lost, ::testing::IsEmpty()) << what;
  const std::vector<std::string> differences = Differences(expected_, found);
  if (found.reported()) {
    ++num_reported_[static_cast<size_t>(found.reports[0].stage)];
    // Questions that can still be answered have the same answers. Only prompts of a context out of
    // service may have less to reuse.
    for (const std::string& question : differences) {
      EXPECT_TRUE(question.starts_with("reused "))
          << what << ": " << question << " became \"" << found.answers.at(question) << '"';
    }
    return;
  }
  ++num_unused_;
  EXPECT_THAT(differences, ::testing::IsEmpty()) << what << ": not reported";
  EXPECT_EQ(found.answers.size(), expected_.answers.size()) << what << ": not reported";
}

// Half of them anywhere, so that large files get their share; half in a file chosen first, so that
// small ones get theirs.
void DamageTest::FlipRandomBits(uint64_t num_flips, Random* random) {
  std::vector<std::string> files;
  for (const auto& [path, contents] : image_.files()) {
    if (!contents.empty()) files.push_back(path);
  }
  for (uint64_t i = 0; i < num_flips && !HasFatalFailure(); ++i) {
    std::string file = files[random->Uniform(files.size())];
    uint64_t byte = random->Uniform(image_.files().at(file).size());
    if (random->OneIn(2)) {
      byte = random->Uniform(image_.num_bytes());
      for (const auto& [path, contents] : image_.files()) {
        file = path;
        if (byte < contents.size()) break;
        byte -= contents.size();
      }
    }
    const uint64_t bit = 8 * byte + random->Uniform(8);
    Flip(file, bit);
    const bool read_only = random->OneIn(4);
    Judge("bit " + std::to_string(bit) + " of " + file + (read_only ? ", read-only" : ""),
          read_only);
    if (::testing::Test::HasFailure()) break;
  }
}

TEST_F(DamageTest, EveryFlippedBitIsReportedOrChangesNothing) {
  Random random(SeedOr(5));
  FlipRandomBits(NumFlips(), &random);
  PrintCounts("flipped bits");
  PrintCount(num_trials_, "flips of a closed store");
  EXPECT_EQ(num_trials_, NumFlips());
  EXPECT_EQ(num_unused_, 0u) << "every byte of a closed store is under some checksum";
}

// The files that remain when the process dies: SQLite's log and its index beside the catalog.
TEST_F(DamageTest, EveryFlippedBitOfWhatACrashLeavesIsReportedOrChangesNothing) {
  image_.Restore(path_);
  {
    const DB db = *DB::Open(path_);
    SessionStart start = *db.CreateSession(model_.spec(), Tokens{1, 2, 3});
    ATTNDB_ASSERT_OK(model_.Step(&start.session, start.rest));
    ATTNDB_ASSERT_OK(db.Store(start.session, Tokens{1, 2, 3}, {.name = "last"}));
    contexts_.push_back({"default", "last", {1, 2, 3}});
    image_ = StoreImage::Capture(path_);
  }
  image_.Restore(path_);
  expected_ = Examine(path_, {.clock = Clock}, model_, contexts_);
  ASSERT_FALSE(expected_.reported()) << expected_.reports[0].message;
  image_.Restore(path_);
  ASSERT_FALSE(image_.PathsWith("-shm").empty());
  Random random(SeedOr(6));
  FlipRandomBits(NumFlips() / 10, &random);
  PrintCounts("flipped bits after a crash");
  PrintCount(num_trials_, "flips of what a crash leaves");
}

// A reader that holds on to an old state keeps the log from being emptied after a commit, so that
// acknowledged commits may lie in it alone when the process dies. Damage in one that others follow
// is reported. The last one can't be told from one that a power cut tore: it may be missing as a
// whole.
TEST_F(DamageTest, EveryFlippedBitOfALogIsReportedOrAsIfTheLastCommitWereTorn) {
  const Examination before_last = expected_;
  {
    const DB db = *DB::Open(path_, {.clock = Clock});
    sqlite3* reader = nullptr;
    const std::string catalog = path_ + "/catalog.db";
    ASSERT_EQ(sqlite3_open_v2(catalog.c_str(), &reader, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK);
    ASSERT_EQ(
        sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM contexts", nullptr, nullptr, nullptr),
        SQLITE_OK);
    SessionStart start = *db.CreateSession(model_.spec(), Tokens{1, 2, 3});
    ATTNDB_ASSERT_OK(model_.Step(&start.session, start.rest));
    ATTNDB_ASSERT_OK(db.Store(start.session, Tokens{1, 2, 3}, {.name = "last"}));
    image_ = StoreImage::Capture(path_);
    sqlite3_close(reader);
  }
  const std::vector<std::string> logs = image_.PathsWith("-wal");
  ASSERT_EQ(logs.size(), 1u);
  const uint64_t num_bits = 8 * image_.files().at(logs[0]).size();
  ASSERT_GT(num_bits, 0u);
  image_.Restore(path_);
  expected_ = Examine(path_, {.clock = Clock}, model_, contexts_);
  ASSERT_FALSE(expected_.reported()) << expected_.reports[0].message;
  image_.Restore(path_);
  Random random(SeedOr(7));
  uint64_t num_torn = 0;
  for (uint64_t i = 0; i < NumFlips() / 10 && !HasFailure(); ++i) {
    const uint64_t bit = random.Uniform(num_bits);
    Flip(logs[0], bit);
    const Examination found = Examine(path_, {.clock = Clock}, model_, contexts_);
    image_.Restore(path_);
    if (!found.reported() && Differences(before_last, found).empty()) {
      ++num_torn;
      continue;
    }
    Flip(logs[0], bit);
    Judge("bit " + std::to_string(bit) + " of " + logs[0]);
  }
  PrintCounts("flipped bits of a log");
  PrintCount(num_trials_ + num_torn, "flips of a log");
  std::printf("... and %llu as if the last commit were torn\n",
              static_cast<unsigned long long>(num_torn));
}

// A damage to whole files, by name.
struct FileDamage {
  const char* name;
  std::function<std::string(const std::string&)> apply;
};

std::string WithZeros(std::string contents, size_t begin, size_t size) {
  for (size_t i = begin; i < std::min(begin + size, contents.size()); ++i) contents[i] = '\0';
  return contents;
}

std::string WithPagesExchanged(std::string contents, size_t page_a, size_t page_b) {
  constexpr size_t kPage = 4096;
  if (contents.size() < kPage * (std::max(page_a, page_b) + 1)) return contents;
  const auto begin = contents.begin();
  const auto at = [&](size_t page) { return begin + static_cast<int64_t>(kPage * page); };
  std::swap_ranges(at(page_a), at(page_a + 1), at(page_b));
  return contents;
}

TEST_F(DamageTest, CutGrownZeroedAndReorderedFilesAreReported) {
  const std::vector<FileDamage> damages = {
      {"emptied", [](const std::string&) { return std::string(); }},
      {"cut by one byte",
       [](std::string c) {
         c.pop_back();
         return c;
       }},
      {"cut in half",
       [](std::string c) {
         c.resize(c.size() / 2);
         return c;
       }},
      {"cut to its first 4096 bytes",
       [](std::string c) {
         c.resize(std::min<size_t>(c.size() - 1, 4096));
         return c;
       }},
      {"grown by a zero", [](std::string c) { return c + '\0'; }},
      {"grown by a page of zeros", [](std::string c) { return c + std::string(4096, '\0'); }},
      {"doubled", [](const std::string& c) { return c + c; }},
      {"zeroed", [](const std::string& c) { return std::string(c.size(), '\0'); }},
      {"zeroed in its first 64 bytes", [](const std::string& c) { return WithZeros(c, 0, 64); }},
      {"zeroed in its last 64 bytes",
       [](const std::string& c) { return WithZeros(c, c.size() - 64, 64); }},
      {"zeroed in its second page", [](const std::string& c) { return WithZeros(c, 4096, 4096); }},
      {"with two pages exchanged",
       [](const std::string& c) { return WithPagesExchanged(c, 1, 2); }},
      {"filled with ones", [](const std::string& c) { return std::string(c.size(), '\xff'); }},
  };
  for (const auto& [file, contents] : image_.files()) {
    if (contents.empty()) continue;
    for (const FileDamage& damage : damages) {
      const std::string damaged = damage.apply(contents);
      if (damaged == contents) continue;
      for (const bool read_only : {false, true}) {
        WriteWholeFile(path_ + "/" + file, damaged);
        Judge(file + " " + damage.name, read_only);
      }
    }
  }
  PrintCounts("files changed");
  EXPECT_EQ(num_unused_, 0u);
}

TEST_F(DamageTest, MissingFilesAreReported) {
  for (const auto& [file, contents] : image_.files()) {
    std::filesystem::remove(path_ + "/" + file);
    Judge(file + " removed");
  }
  PrintCounts("files removed");
  EXPECT_EQ(num_unused_, 1u) << "only the lock is made again";
}

// Files of the right form in the wrong place: exchanged between contexts, alone and with their
// manifests, and taken from another store of equal history.
TEST_F(DamageTest, ExchangedAndForeignFilesAreReported) {
  const std::string foreign_path = dir_.File("foreign");
  Fill(foreign_path, 1);  // The same tokens, segment ids and sizes.
  const StoreImage foreign = StoreImage::Capture(foreign_path);
  const std::vector<std::string> segments = image_.PathsWith(".seg");
  const auto manifest = [](const std::string& segment) {
    return segment.substr(0, segment.size() - 4) + ".manifest";
  };
  const auto put = [&](const std::string& file, const StoreImage& from,
                       const std::string& from_file) {
    WriteWholeFile(path_ + "/" + file, from.files().at(from_file));
  };
  for (const std::string& a : segments) {
    ASSERT_TRUE(foreign.files().contains(a));
    for (const std::string& b : segments) {
      if (a == b) continue;
      put(a, image_, b);
      Judge(a + " is a copy of " + b);
      put(manifest(a), image_, manifest(b));
      Judge(manifest(a) + " is a copy of " + manifest(b));
      put(a, image_, b);
      put(manifest(a), image_, manifest(b));
      Judge(a + " and its manifest are a copy of " + b);
    }
    put(a, foreign, a);
    Judge(a + " is another store's");
    put(manifest(a), foreign, manifest(a));
    Judge(manifest(a) + " is another store's");
    put(a, foreign, a);
    put(manifest(a), foreign, manifest(a));
    Judge(a + " and its manifest are another store's");
  }
  for (const auto& [file, contents] : foreign.files()) {
    if (file.starts_with("segments/")) put(file, foreign, file);
  }
  Judge("all segments are another store's");
  put("catalog.db", foreign, "catalog.db");
  Judge("the catalog is another store's");
  PrintCounts("files exchanged");
  EXPECT_EQ(num_unused_, 0u);
}

}  // namespace
}  // namespace attndb::test
