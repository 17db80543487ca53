// Goal:   one object has one pair of names, and no other name is parsed as one.
// Method: round trips; near misses; random changes to good names.
#include "storage/vfs/object_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/random.h"
#include "testing/seed.h"

namespace attndb::storage {
namespace {

const ObjectName kSegment{.segment_id = 0x2a};
const ObjectName kPlanes{.segment_id = 0x2a, .kind = "key_planes", .generation = 3};

TEST(ObjectName, FilesAreNamedAsTheFormatSays) {
  EXPECT_EQ(FileNameOf(kSegment, ObjectFile::kData), "000000000000002a.seg");
  EXPECT_EQ(FileNameOf(kSegment, ObjectFile::kManifest), "000000000000002a.manifest");
  EXPECT_EQ(FileNameOf(kPlanes, ObjectFile::kData), "000000000000002a.key_planes.3.obj");
  EXPECT_EQ(FileNameOf(kPlanes, ObjectFile::kManifest), "000000000000002a.key_planes.3.manifest");
  EXPECT_EQ(TemporaryNameOf(kSegment, ObjectFile::kData), "000000000000002a.seg.tmp");
  EXPECT_EQ(Describe(kSegment), "segment 000000000000002a");
  EXPECT_EQ(Describe(kPlanes), "key_planes.3 of segment 000000000000002a");
}

TEST(ObjectName, ParsingIsTheInverse) {
  for (const ObjectName& name :
       {kSegment, kPlanes, ObjectName{UINT64_MAX, "a", UINT64_MAX}, ObjectName{0, "x_9", 0}}) {
    for (const ObjectFile file : {ObjectFile::kData, ObjectFile::kManifest}) {
      for (const bool temporary : {false, true}) {
        const std::string text = temporary ? TemporaryNameOf(name, file) : FileNameOf(name, file);
        const auto parsed = ParseFileName(text);
        ASSERT_TRUE(parsed.has_value()) << text;
        EXPECT_EQ(parsed->name, name) << text;
        EXPECT_EQ(parsed->file, file) << text;
        EXPECT_EQ(parsed->temporary, temporary) << text;
      }
    }
  }
}

TEST(ObjectName, OtherNamesAreNotOurs) {
  for (const char* text : {"",
                           ".",
                           ".seg",
                           "seg",
                           "LOCK",
                           "2a.seg",
                           "000000000000002A.seg",
                           "000000000000002a",
                           "000000000000002a.obj",
                           "000000000000002a.tmp",
                           "000000000000002a.seg.bak",
                           "000000000000002a.seg.tmp.tmp",
                           "x000000000000002a.seg",
                           "000000000000002a.segment.0.obj",
                           "000000000000002a.key_planes.3.seg",
                           "000000000000002a.key_planes.obj",
                           "000000000000002a.key_planes..obj",
                           "000000000000002a..3.obj",
                           "000000000000002a.key_planes.03.obj",
                           "000000000000002a.key_planes.-3.obj",
                           "000000000000002a.key_planes.+3.obj",
                           "000000000000002a.Planes.3.obj",
                           "000000000000002a.a.b.3.obj",
                           "000000000000002a.seventeen_letters.1.obj",
                           "000000000000002a.x.18446744073709551616.obj",
                           "000000000000002a_x.3.obj"}) {
    EXPECT_FALSE(ParseFileName(text).has_value()) << text;
  }
}

TEST(ObjectName, WhateverParsesIsItsOwnName) {
  Random random(test::SeedOr(50));
  const std::string letters = "0a.sz_9\x80\n";
  for (int i = 0; i < 20000; ++i) {
    std::string text = FileNameOf(random.OneIn(2) ? kSegment : kPlanes,
                                  random.OneIn(2) ? ObjectFile::kData : ObjectFile::kManifest);
    for (uint64_t changes = 1 + random.Uniform(2); changes-- > 0;) {
      const size_t at = random.Uniform(text.size());
      text.replace(at, random.Uniform(3), 1, letters[random.Uniform(letters.size())]);
    }
    const auto parsed = ParseFileName(text);
    if (!parsed) continue;
    EXPECT_EQ(text, parsed->temporary ? TemporaryNameOf(parsed->name, parsed->file)
                                      : FileNameOf(parsed->name, parsed->file));
  }
}

TEST(ObjectName, LooseSegmentsHaveOneNameEach) {
  for (const uint64_t id : {uint64_t{0}, uint64_t{0x2a}, UINT64_MAX}) {
    EXPECT_EQ(ParseLooseName(LooseNameOf(id)), id);
  }
  EXPECT_EQ(LooseNameOf(0x2a), "000000000000002a.loose");
  for (const char* text : {"", ".loose", "2a.loose", "000000000000002a", "000000000000002a.seg",
                           "000000000000002A.loose", "0000000000000002a.loose",
                           "000000000000002a.loose.loose", "000000000000002a.loose.tmp"}) {
    EXPECT_FALSE(ParseLooseName(text).has_value()) << text;
  }
  EXPECT_FALSE(ParseFileName(LooseNameOf(0x2a)).has_value());
}

}  // namespace
}  // namespace attndb::storage
