// Goal:   no answer names a path of the host, and no other word of it changes.
// Method: messages as the library writes them.
#include "server/http/hidden_paths.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "server/json.h"

namespace attndb::server {
namespace {

const std::vector<std::string> kFiles = {"catalog.db", "segments"};

TEST(HiddenPathsTest, WhatLiesInAHiddenFolderIsNamedFromThere) {
  const HiddenPaths hidden(
      {{"/var/lib/my store/", "the store", kFiles}, {"/models/m.gguf", "the model"}});
  EXPECT_EQ(hidden.Hide("/var/lib/my store/segments/7.seg: open: No such file"),
            "segments/7.seg: open: No such file");
  EXPECT_EQ(hidden.Hide("a '/var/lib/my store/catalog.db' and (/var/lib/my store/catalog.db-wal)"),
            "a 'catalog.db' and (catalog.db-wal)");
  EXPECT_EQ(hidden.Hide("store '/var/lib/my store' was opened for reading only"),
            "store 'the store' was opened for reading only");
  EXPECT_EQ(hidden.Hide("/var/lib/my store: was moved"), "the store: was moved");
  EXPECT_EQ(hidden.Hide("made by /models/m.gguf"), "made by the model");
}

TEST(HiddenPathsTest, OtherWordsStay) {
  const HiddenPaths hidden({{"/var/lib/st", "the store", kFiles},
                            {"store", "the store", kFiles},
                            {"", "nothing"},
                            {".", "here"},
                            {"/", "the root"}});
  for (const char* text : {"/var/lib/stable/x", "/old/var/lib/st/x", "a store is restored",
                           "the store", "a / b", "/v1/models", "no context \"notes/may\"", ""}) {
    EXPECT_EQ(hidden.Hide(text), text);
  }
  EXPECT_EQ(hidden.Hide("store/segments/1: read"), "segments/1: read");
  EXPECT_EQ(hidden.Hide("mystore/segments/1"), "mystore/segments/1");
}

// Contexts may have "/" in their names.
TEST(HiddenPathsTest, ANameThatBeginsAsThePathOfTheStoreStays) {
  const HiddenPaths hidden({{"notes", "the store", kFiles}, {"/data", "the store", kFiles}});
  for (const char* text :
       {R"({"name":"notes/may"})", "no context 'notes/june'", "no context '/data/x'",
        "notes/segments2", "notes/catalog.dbs", "/data/segments_of_may"}) {
    EXPECT_EQ(hidden.Hide(text), text);
  }
  EXPECT_EQ(hidden.Hide("notes/may: notes/segments/1: read"), "notes/may: segments/1: read");
}

TEST(HiddenPathsTest, ARelativePathIsHiddenFromTheRootToo) {
  const HiddenPaths hidden(std::vector<HiddenPaths::Entry>{{"data/st", "the store", kFiles}});
  const std::string full = std::filesystem::absolute("data/st").string();
  EXPECT_EQ(hidden.Hide(full + "/catalog.db: open"), "catalog.db: open");
  EXPECT_EQ(hidden.Hide("in " + full), "in the store");
}

TEST(HiddenPathsTest, APathIsHiddenAsJsonHasIt) {
  const HiddenPaths hidden(std::vector<HiddenPaths::Entry>{{"/a\"b\xff", "the store", kFiles}});
  const std::string body = ToText(Json{{"error", "/a\"b\xff/segments/1: read"}});
  EXPECT_EQ(hidden.Hide(body), R"({"error":"segments/1: read"})");
}

}  // namespace
}  // namespace attndb::server
