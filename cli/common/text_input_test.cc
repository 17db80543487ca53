// Goal:   texts come in whole, and names made from paths are legal.
// Method: small files in a temporary folder.
#include "cli/common/text_input.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace attndb::cli {
namespace {

TEST(TextInputTest, NamesComeFromTheFilesName) {
  EXPECT_EQ(NameFromPath("book.txt"), "book");
  EXPECT_EQ(NameFromPath("/a/b/The Book (2).v1.txt"), "The_Book__2_.v1");
  EXPECT_EQ(NameFromPath("README"), "README");
  EXPECT_EQ(NameFromPath(".hidden"), ".hidden");
  EXPECT_EQ(NameFromPath("\xC3\xBC.txt"), "__");
  EXPECT_EQ(NameFromPath(std::string(300, 'x')).size(), 128U);
  EXPECT_EQ(NameFromPath("-"), "");
}

TEST(TextInputTest, AFileIsReadWholeWithAllItsBytes) {
  const std::string path = testing::TempDir() + "text_input_test.txt";
  std::string text(200'000, 'a');
  text[100] = '\0';
  text[150'000] = '\xFF';
  std::ofstream(path, std::ios::binary) << text;
  const Result<std::string> read = ReadText(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, text);
  std::filesystem::remove(path);
}

TEST(TextInputTest, WhatIsNoFileIsSaidByName) {
  const Result<std::string> missing = ReadText("/no/such/file.txt");
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find("/no/such/file.txt"), std::string::npos);
  EXPECT_EQ(ReadText(testing::TempDir()).status().code(), StatusCode::kInvalidArgument);
}

TEST(TextInputTest, LinesComeWithoutTheirEndsAndTheLastNeedsNone) {
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  std::fputs("one\r\n\ntwo", file);
  std::rewind(file);
  EXPECT_EQ(*ReadLine(file), "one");
  EXPECT_EQ(*ReadLine(file), "");
  EXPECT_EQ(*ReadLine(file), "two");
  EXPECT_EQ(ReadLine(file).status().code(), StatusCode::kNotFound);
  std::fclose(file);
}

}  // namespace
}  // namespace attndb::cli
