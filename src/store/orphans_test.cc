// Goal:   among the files that the catalog does not know, those that nobody can miss are removed.
//         The others are put aside and keep their numbers. Nothing is written where the disk of the
//         store's own files is absent.
// Method: files of made-up names beside those of a small store, which is opened again.
#include "store/orphans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "store/hooked_files_test_util.h"
#include "store/object_path.h"
#include "store/store_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using storage::ObjectFile;
using storage::ObjectName;
using test::FailsWith;
using ::testing::Contains;
using ::testing::HasSubstr;

class OrphansTest : public StoreTest {
 protected:
  OrphansTest() {
    Open({.background_builds = false});
    ATTNDB_EXPECT_OK(Store({1}, {.name = "a"}).status());
    segment_ = FirstOf("a", 1).chain.entries[0].segment->id();
    store_.reset();
    end_ = EndOfNumbers();
  }
  ~OrphansTest() override { store_.reset(); }  // While its files are there.

  uint64_t EndOfNumbers() const {
    return *(*Catalog::Open({.path = dir_.File("store/catalog.db"), .read_only = true}))
                ->EndOfNumbers();
  }
  Status OpenStatus() {
    store_.reset();
    return ContextStore::Open(
               dir_.File("store"), {.background_builds = false},
               {.file_system = &files_, .budget = &budget_, .kinds = &kinds_, .also = nullptr})
        .status();
  }
  std::string InSegments(const std::string& name) const {
    return dir_.File("store/segments/" + name);
  }
  std::string Aside(const std::string& name) const { return dir_.File("store/aside/" + name); }
  static std::string NameOf(const ObjectName& name) {
    return storage::FileNameOf(name, ObjectFile::kData);
  }
  static std::string MarkOf(uint64_t segment) { return storage::LooseNameOf(segment); }
  static void Make(const std::string& path) { std::ofstream(path) << "whatever"; }
  static bool Exists(const std::string& path) { return std::filesystem::exists(path); }
  enum class Place { kNowhere, kSegments, kAside, kBoth };
  Place PlaceOf(const std::string& name) const {
    const bool in_segments = Exists(InSegments(name));
    if (Exists(Aside(name))) return in_segments ? Place::kBoth : Place::kAside;
    return in_segments ? Place::kSegments : Place::kNowhere;
  }

  uint64_t segment_ = 0;  // The segment of the one context.
  uint64_t end_ = 0;      // The catalog has handed out no number from here on.
  HookedFiles files_{storage::PosixFileSystem()};
};

TEST_F(OrphansTest, WhatIsMarkedGoesIfTheCatalogCanHaveMarkedIt) {
  for (const uint64_t id : {end_ - 1, end_}) {
    Make(InSegments(NameOf({.segment_id = id})));
    Make(InSegments(MarkOf(id)));
  }
  ATTNDB_ASSERT_OK(OpenStatus());
  EXPECT_EQ(PlaceOf(NameOf({.segment_id = end_ - 1})), Place::kNowhere);
  EXPECT_EQ(PlaceOf(NameOf({.segment_id = end_})), Place::kAside);
  for (const uint64_t id : {end_ - 1, end_}) EXPECT_EQ(PlaceOf(MarkOf(id)), Place::kNowhere);
}

TEST_F(OrphansTest, WhatIsDerivedFromAKnownSegmentGoesIfTheCatalogCanHaveKnownIt) {
  const std::string old = NameOf({segment_, "planes", end_ - 1});
  const std::string newer = NameOf({segment_, "planes", end_});
  const std::string of_unknown = NameOf({end_ - 1, "planes", 1});
  for (const std::string& name : {old, newer, of_unknown}) Make(InSegments(name));
  ATTNDB_ASSERT_OK(OpenStatus());
  EXPECT_EQ(PlaceOf(old), Place::kNowhere);
  EXPECT_EQ(PlaceOf(newer), Place::kAside);
  EXPECT_EQ(PlaceOf(of_unknown), Place::kAside);
}

TEST_F(OrphansTest, WhatIsNoFileOfAStoreStaysWhereItIs) {
  const std::string unknown = NameOf({.segment_id = end_ - 1});
  const std::string half = storage::TemporaryNameOf({.segment_id = segment_}, ObjectFile::kData);
  std::filesystem::create_directory(dir_.File("store/aside"));
  for (const std::string& name : {std::string("notes.txt"), unknown, half}) Make(Aside(name));
  Make(InSegments("notes.txt"));
  Make(InSegments(unknown));  // One of that name is put aside already.
  ATTNDB_ASSERT_OK(OpenStatus());
  EXPECT_EQ(PlaceOf("notes.txt"), Place::kBoth);
  EXPECT_EQ(PlaceOf(unknown), Place::kBoth);
  EXPECT_EQ(PlaceOf(half), Place::kAside);
  EXPECT_EQ(PlaceOf(NameOf({.segment_id = segment_})), Place::kSegments);
}

TEST_F(OrphansTest, AFileOfAnothersIsNoSignOfItsDisk) {
  const std::string away = dir_.File("away");
  std::filesystem::rename(dir_.File("store/segments"), away);
  std::filesystem::create_directory(dir_.File("store/segments"));
  Make(InSegments(NameOf({.segment_id = end_ - 1})));
  EXPECT_THAT(OpenStatus(),
              FailsWith(StatusCode::kIoError, HasSubstr("has none of the files that catalog.db")));
}

TEST_F(OrphansTest, WhatIsPutAsideIsDurableThere) {
  const std::string unknown = NameOf({.segment_id = end_ - 1});
  std::vector<std::string> synced;
  files_.before = [&](std::string_view call, const std::string& path) {
    if (call == "SyncDir" && Exists(Aside(unknown))) synced.push_back(path);
    return Status::Ok();
  };
  Make(InSegments(unknown));
  ATTNDB_ASSERT_OK(OpenStatus());
  EXPECT_THAT(synced, Contains(dir_.File("store/aside")));
  EXPECT_THAT(synced, Contains(dir_.File("store")));
}

// Else what is stored next would have the name that it needs when it comes back.
TEST_F(OrphansTest, NumbersOfWhatLiesAsideAreNotHandedOut) {
  Make(InSegments(NameOf({.segment_id = end_ + 10})));
  ATTNDB_ASSERT_OK(OpenStatus());
  EXPECT_EQ(EndOfNumbers(), end_ + 11);
  Make(InSegments(NameOf({segment_, "planes", end_ + 1000})));
  ATTNDB_ASSERT_OK(OpenStatus());
  EXPECT_EQ(EndOfNumbers(), end_ + 1001);
  Make(Aside(NameOf({.segment_id = end_ + 2000})));  // A crash came before its number was passed.
  for (int i = 0; i < 2; ++i) {
    ATTNDB_ASSERT_OK(OpenStatus());
    EXPECT_EQ(EndOfNumbers(), end_ + 2001);
  }
}

TEST_F(OrphansTest, ANumberThatIsMadeUpUsesUpNoOthers) {
  const std::string made_up = NameOf({.segment_id = UINT64_MAX});
  Make(InSegments(made_up));
  ATTNDB_ASSERT_OK(OpenStatus());
  EXPECT_EQ(PlaceOf(made_up), Place::kAside);
  EXPECT_EQ(EndOfNumbers(), end_);
}

TEST_F(OrphansTest, WhatCanNotBeRemovedOrPutAsideIsTold) {
  const std::string unknown = NameOf({.segment_id = end_ - 1});
  const std::string half = storage::TemporaryNameOf({.segment_id = segment_}, ObjectFile::kData);
  Make(InSegments(unknown));
  Make(InSegments(half));
  const std::pair<std::string, std::string> calls[] = {
      {"Remove", InSegments(half)},
      {"Rename", InSegments(unknown)},
      {"CreateDir", dir_.File("store/aside")},
      {"SyncDir", dir_.File("store/aside")},
  };
  for (const auto& failing : calls) {
    files_.before = [&](std::string_view call, const std::string& path) {
      return call == failing.first && path == failing.second ? Status::IoError("test")
                                                             : Status::Ok();
    };
    EXPECT_THAT(OpenStatus(), FailsWith(StatusCode::kIoError, HasSubstr("test"))) << failing.first;
    Make(InSegments(unknown));
    Make(InSegments(half));
    std::filesystem::remove_all(dir_.File("store/aside"));
  }
}

}  // namespace
}  // namespace attndb::store
