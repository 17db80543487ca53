// Goal:   files that are not text are named by their kind, and encodings by their bytes.
// Method: the beginnings of files; short texts of each encoding, as iconv writes them.
#include "cli/common/text_kind.h"

#include <gtest/gtest.h>
#include <iconv.h>

#include <string>
#include <utility>
#include <vector>

namespace attndb::cli {
namespace {

std::string NameOfKind(std::string_view bytes) {
  const FileKind* const kind = KindOfFile(bytes);
  return kind == nullptr ? "" : std::string(kind->name);
}

// `text` in another encoding; empty where this machine has no converter for it.
std::string In(const char* encoding, std::string text) {
  const iconv_t converter = iconv_open(encoding, "UTF-8");
  if (converter == reinterpret_cast<iconv_t>(-1)) return "";
  std::string converted(text.size() * 4 + 16, '\0');
  char* from = text.data();
  char* to = converted.data();
  size_t num_from = text.size();
  size_t num_to = converted.size();
  EXPECT_NE(iconv(converter, &from, &num_from, &to, &num_to), static_cast<size_t>(-1)) << encoding;
  iconv_close(converter);
  converted.resize(converted.size() - num_to);
  return converted;
}

TEST(TextKindTest, FilesAreNamedByTheirFirstBytes) {
  using std::literals::string_literals::operator""s;
  EXPECT_EQ(NameOfKind("%PDF-1.7\n"), "a PDF document");
  EXPECT_EQ(NameOfKind("\xFF\xD8\xFF\xE0"), "a JPEG image");
  EXPECT_EQ(NameOfKind("RIFF\x10\0\0\0WEBPVP8 "s), "a WebP image");
  EXPECT_EQ(NameOfKind("\x1F\x8B\x08"), "compressed by gzip");
  EXPECT_EQ(NameOfKind("\xFD"
                       "7zXZ\0"s),
            "compressed by xz");
  EXPECT_EQ(NameOfKind("PK\x03\x04 notes.txt"), "a ZIP archive");
  EXPECT_EQ(NameOfKind("PK\x03\x04 [Content_Types].xml word/document.xml"), "a DOCX document");
  EXPECT_EQ(NameOfKind("PK\x03\x04 mimetypeapplication/epub+zip"), "an EPUB book");
  EXPECT_EQ(NameOfKind(std::string(257, 'x') + "ustar"), "a tar archive");
  EXPECT_EQ(NameOfKind("\x7F"
                       "ELF"),
            "a program");
  EXPECT_EQ(NameOfKind("\x40\0\0\0\0\0\0\0{"s), "a safetensors file");
  EXPECT_EQ(NameOfKind("A text."), "");
  EXPECT_EQ(NameOfKind(""), "");
}

TEST(TextKindTest, EncodingsAreGuessed) {
  const std::vector<std::pair<const char*, const char*>> texts = {
      {"ISO-8859-1", "Der Weg ist naß, und über den Häusern hängt Nebel. C'est très bien."},
      {"ISO-8859-1", "café"},
      {"windows-1252", "It costs 5 € – “as always”, says the café."},
      {"windows-1251", "Маяк стоит на скале. Каждую ночь смотритель зажигает лампу и ждёт."},
      {"KOI8-R", "Маяк стоит на скале. Каждую ночь смотритель зажигает лампу и ждёт."},
      {"IBM866", "Маяк стоит на скале. Каждую ночь смотритель зажигает лампу и ждёт."},
      {"ISO-8859-7", "Ο φάρος στέκεται στον βράχο. Κάθε νύχτα ανάβει η λάμπα."},
      {"ISO-8859-8", "המגדלור עומד על הצוק. בכל לילה השומר מדליק את המנורה"},
      {"EUC-JP", "灯台は岩の上に立っています。毎晩、番人がランプをともします。"},
      {"SHIFT_JIS", "灯台は岩の上に立っています。毎晩、番人がランプをともします。"},
      {"GB18030", "灯塔矗立在岩石上。每天晚上，守塔人都会点亮灯，然后等待天亮。"},
      {"BIG5", "燈塔矗立在岩石上。每天晚上，守塔人都會點亮燈，然後等待天亮。"},
      {"EUC-KR", "등대는 바위 위에 서 있다. 매일 밤 등대지기는 등불을 켜고 기다린다."},
      {"UTF-16LE", "The lighthouse stands on a rock."},
      {"UTF-16BE", "The lighthouse stands on a rock."},
      {"UTF-16", "灯台は岩の上に立っています。"},
      {"UTF-32", "The lighthouse stands on a rock."},
  };
  size_t num_checked = 0;
  for (const auto& [encoding, text] : texts) {
    const std::string bytes = In(encoding, text);
    if (bytes.empty()) continue;
    ++num_checked;
    const std::string expected = encoding == std::string("ISO-8859-1") ? "latin1" : encoding;
    EXPECT_EQ(GuessEncoding(bytes), expected) << text;
  }
  EXPECT_GE(num_checked, 6U);  // Every iconv has these.
}

TEST(TextKindTest, WhatFitsNoneIsNotGuessed) {
  std::string zeros(1000, '\0');
  EXPECT_EQ(GuessEncoding(zeros), "");
  for (size_t i = 0; i < zeros.size(); ++i) zeros[i] = static_cast<char>(i * 7 + i / 256);
  EXPECT_EQ(GuessEncoding(zeros), "");
  EXPECT_EQ(GuessEncoding(""), "");
}

TEST(TextKindTest, CommandsNameTheFileAsAShellReadsIt) {
  EXPECT_EQ(CommandFor("gzip -dc FILE", "a.gz"), "gzip -dc a.gz");
  EXPECT_EQ(CommandFor("pdftotext FILE -", "my 'best' $5.pdf"),
            "pdftotext 'my '\\''best'\\'' $5.pdf' -");
  EXPECT_EQ(CommandFor("pdftotext FILE -", "-"), "pdftotext FILE -");
  EXPECT_EQ(CommandFor("gzip -dc FILE", "-rf.gz"), "gzip -dc ./-rf.gz") << "no option of gzip";
  EXPECT_EQ(ShellWord("-rf"), "-rf");
  EXPECT_EQ(ShellOption("--name", "-rf"), "--name=-rf");
  EXPECT_EQ(ShellOption("--name", "a b"), "--name 'a b'");
  EXPECT_EQ(ShellWord("яблоко.txt"), "яблоко.txt");
  EXPECT_EQ(ShellWord(""), "''");
}

}  // namespace
}  // namespace attndb::cli
