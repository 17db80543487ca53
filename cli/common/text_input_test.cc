// Goal:   texts come in whole, and names made from paths are legal.
// Method: small files in a temporary folder.
#include "cli/common/text_input.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "cli/common/temp_dir.h"

namespace attndb::cli {
namespace {

TEST(TextInputTest, NamesComeFromTheFilesName) {
  EXPECT_EQ(NameFromPath("book.txt"), "book");
  EXPECT_EQ(NameFromPath("/a/b/The Book (2).v1.txt"), "The_Book__2_.v1");
  EXPECT_EQ(NameFromPath("README"), "README");
  EXPECT_EQ(NameFromPath(".hidden"), ".hidden");
  EXPECT_EQ(NameFromPath("яблоко 1.txt"), "яблоко_1");
  EXPECT_EQ(NameFromPath("a\xFF\xC3.txt"), "a__");
  std::string long_name;
  for (int i = 0; i < 100; ++i) long_name += "я";
  EXPECT_EQ(NameFromPath(long_name + ".txt"), long_name.substr(0, 128));
  EXPECT_EQ(NameFromPath(std::string(300, 'x')).size(), 128U);
  EXPECT_EQ(NameFromPath("-"), "");
}

TEST(TextInputTest, AFileIsReadWholeWithAllItsBytes) {
  const TempDir dir = *TempDir::Create("");
  const std::string path = dir.path() + "/text_input_test.txt";
  std::string text(200'000, 'a');
  text[100] = '\x01';
  text.replace(150'000, 2, "\xC3\xBC");
  text.replace(65'535, 3, "\xE2\x82\xAC");  // Over the end of a buffer.
  std::ofstream(path, std::ios::binary) << text;
  const Result<std::string> read = ReadText(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, text);
}

TEST(TextInputTest, AByteOrderMarkInFrontIsDropped) {
  const TempDir dir = *TempDir::Create("");
  const std::string path = dir.path() + "/text_input_test.txt";
  const auto read = [&path](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    return *ReadText(path);
  };
  EXPECT_EQ(read("\xEF\xBB\xBFOnce\xEF\xBB\xBF"), "Once\xEF\xBB\xBF");
  EXPECT_EQ(read("\xEF\xBB\xBF"), "") << "it is an empty text";
}

TEST(TextInputTest, WhatIsNoFileIsSaidByName) {
  const Result<std::string> missing = ReadText("/no/such/file.txt");
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find("/no/such/file.txt"), std::string::npos);
  EXPECT_EQ(ReadText(testing::TempDir()).status().code(), StatusCode::kInvalidArgument);
}

TEST(TextInputTest, WhatIsNotUtf8IsRefusedAtItsByte) {
  for (const char* good : {"", "plain", "\xC3\xBC", "\xE2\x82\xAC", "\xF0\x9F\x98\x80",
                           "\xED\x9F\xBF", "\xEE\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(CheckUtf8(good, "it").ok()) << good;
  }
  for (const char* bad :
       {"\xFF", "\x80", "\xC3", "\xC3(", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE2\x82",
        "\xED\xA0\x80", "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80"}) {
    const Status status = CheckUtf8("ab" + std::string(bad) + "c", "it");
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << bad;
    EXPECT_NE(status.message().find("it is not UTF-8 at byte 2"), std::string::npos)
        << status.message();
  }
}

TEST(TextInputTest, FilesOfOtherKindsAreNamedWithTheCommandThatHelps) {
  const TempDir dir = *TempDir::Create("");
  const std::string path = dir.path() + "/a b.bin";
  const auto message_of = [&path](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    return ReadText(path, "attndb import - --name a_b").status().message();
  };
  const std::string name = "'" + path + "'";
  EXPECT_EQ(message_of("%PDF-1.7\n\xE2\xE3"),
            name + " is a PDF document, expected a text; try: pdftotext " + name +
                " - | attndb import - --name a_b");
  EXPECT_EQ(message_of("%PDF-1.7\n"), message_of("%PDF-1.7\n\xE2\xE3"));  // All ASCII, too.
  EXPECT_EQ(message_of("gr\xFC\xDF"
                       "e an alle"),
            name +
                " is not UTF-8 at byte 2, it looks like latin1, expected a text; try: iconv -f "
                "latin1 -t UTF-8 " +
                name + " | attndb import - --name a_b");
  EXPECT_EQ(message_of(std::string("a\0\0b", 4)),
            name + " has a byte 0, at byte 1, expected a text; try: tr -d '\\000' <" + name +
                " | attndb import - --name a_b");
  EXPECT_NE(message_of(std::string("h\0i\0 \0", 6)).find("iconv -f UTF-16LE"), std::string::npos);
  EXPECT_EQ(ReadText(path).status().message(),
            name +
                " has a byte 0, at byte 1, it looks like UTF-16LE, expected a text; try: iconv "
                "-f UTF-16LE -t UTF-8 " +
                name);
  EXPECT_EQ(message_of(std::string("GGUF\x03\0\0\0", 8)),
            name + " is a GGUF model, expected a text; --model names models");
  EXPECT_EQ(message_of("GGUF is a file format"), "");
  EXPECT_NE(message_of(std::string("\x40\0\0\0\0\0\0\0{\"a\":1}", 15)).find("safetensors"),
            std::string::npos);
  EXPECT_EQ(message_of("{\"a\": 1}"), "");
}

TEST(TextInputTest, ReasonsAreGivenByTheFirstBytes) {
  EXPECT_EQ(ReasonForNoText("a text", true), "");
  EXPECT_EQ(ReasonForNoText("", true), "it is empty");
  EXPECT_EQ(ReasonForNoText("\x89PNG\r\n\x1A\n", true), "it is a PNG image");
  EXPECT_EQ(ReasonForNoText("%PDF-1.4 all in ASCII", true), "it is a PDF document");
  EXPECT_EQ(ReasonForNoText("caf\xE9", true), "it is not UTF-8 at byte 3, it looks like latin1");
  // A character that is cut where the file goes on is none that is wrong.
  EXPECT_EQ(ReasonForNoText("caf\xC3", false), "");
  EXPECT_NE(ReasonForNoText("caf\xC3", true), "");
  EXPECT_NE(ReasonForNoText(std::string_view("a\0", 2), false), "");
}

TEST(TextInputTest, AHugeFileIsRefusedUnread) {
  const TempDir dir = *TempDir::Create("");
  const std::string path = dir.path() + "/text_input_test.huge";
  std::ofstream(path).close();
  std::filesystem::resize_file(path, kMaxTextBytes + 1);  // Sparse.
  EXPECT_NE(ReadText(path).status().message().find("more than 1 GiB"), std::string::npos);
  std::ofstream(path, std::ios::binary) << "\x89PNG\r\n\x1A\n";
  std::filesystem::resize_file(path, kMaxTextBytes + 1);
  EXPECT_NE(ReadText(path).status().message().find("is a PNG image"), std::string::npos);
}

TEST(TextInputTest, AnEmptyQuestionIsNotSoughtOnStdin) {
  EXPECT_EQ(*QuestionOrStdin("Why?", true), "Why?");
  EXPECT_EQ(QuestionOrStdin("", true).status().message(), "the question is empty");
  EXPECT_EQ(QuestionOrStdin("\xFF", true).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace attndb::cli
