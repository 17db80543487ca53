#include "cli/common/text_kind.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <utility>

namespace attndb::cli {
namespace {

using std::literals::string_view_literals::operator""sv;

constexpr char kPandoc[] = "pandoc -t plain FILE";
constexpr char kOffice[] = "soffice --headless --cat FILE";
constexpr char kOcr[] = "tesseract FILE -";

// Files that begin with `bytes`, or have them at `at`.
struct Magic {
  size_t at;
  std::string_view bytes;
  FileKind kind;
};

constexpr std::array kMagic = {
    Magic{0, "GGUF"sv, {.name = "a GGUF model", .advice = "--model names models"}},
    Magic{0,
          "%PDF-"sv,
          {.name = "a PDF document", .command = "pdftotext FILE -", .is_never_text = true}},
    Magic{0, "\x89PNG\r\n\x1A\n"sv, {"a PNG image", kOcr}},
    Magic{0, "\xFF\xD8\xFF"sv, {"a JPEG image", kOcr}},
    Magic{0, "GIF87a"sv, {"a GIF image", kOcr}},
    Magic{0, "GIF89a"sv, {"a GIF image", kOcr}},
    Magic{0, "II*\0"sv, {"a TIFF image", kOcr}},
    Magic{0, "MM\0*"sv, {"a TIFF image", kOcr}},
    Magic{8, "WEBP"sv, {"a WebP image", kOcr}},
    Magic{4, "ftypheic"sv, {"a HEIC image", ""}},
    Magic{4, "ftypavif"sv, {"an AVIF image", ""}},
    Magic{4, "ftyp"sv, {"a video or a sound", ""}},
    Magic{8, "WAVE"sv, {"a sound", ""}},
    Magic{0, "ID3\x02"sv, {"a sound", ""}},
    Magic{0, "ID3\x03"sv, {"a sound", ""}},
    Magic{0, "ID3\x04"sv, {"a sound", ""}},
    Magic{0, "OggS"sv, {"a sound", ""}},
    Magic{0, "fLaC"sv, {"a sound", ""}},
    Magic{8, "AVI "sv, {"a video", ""}},
    Magic{0, "\x1A\x45\xDF\xA3"sv, {"a video", ""}},
    Magic{0, "\x1F\x8B"sv, {"compressed by gzip", "gzip -dc FILE"}},
    Magic{0, "BZh91AY&SY"sv, {"compressed by bzip2", "bzip2 -dc FILE"}},
    Magic{0,
          "\xFD"
          "7zXZ\0"sv,
          {"compressed by xz", "xz -dc FILE"}},
    Magic{0, "\x28\xB5\x2F\xFD"sv, {"compressed by zstd", "zstd -dc FILE"}},
    Magic{0, "\x04\x22\x4D\x18"sv, {"compressed by lz4", "lz4 -dc FILE"}},
    Magic{0, "7z\xBC\xAF\x27\x1C"sv, {"a 7z archive", "7z e -so FILE"}},
    Magic{0, "Rar!\x1A\x07"sv, {"a RAR archive", "unrar p -inul FILE"}},
    Magic{257, "ustar"sv, {"a tar archive", "tar -xOf FILE"}},
    Magic{0, "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"sv, {"an old Office document", kOffice}},
    Magic{0, "SQLite format 3\0"sv, {"a SQLite database", "sqlite3 FILE .dump"}},
    Magic{0,
          "\x7F"
          "ELF"sv,
          {"a program", ""}},
    Magic{0, "MZ\x90\0"sv, {"a program", ""}},
    Magic{0, "\xCA\xFE\xBA\xBE"sv, {"a program", ""}},
    Magic{0, "\xCF\xFA\xED\xFE"sv, {"a program", ""}},
    Magic{0, "\x93NUMPY"sv, {"an array of NumPy", ""}},
    Magic{0, "PAR1"sv, {"a Parquet file", ""}},
    Magic{0, "\x89HDF\r\n\x1A\n"sv, {"an HDF5 file", ""}},
};

// Documents that are ZIP archives, by the name of a file that they hold.
struct Packed {
  std::string_view holds;
  FileKind kind;
};
constexpr std::array kPacked = {
    Packed{"mimetypeapplication/epub+zip"sv, {"an EPUB book", kPandoc}},
    Packed{"mimetypeapplication/vnd.oasis.opendocument.text"sv, {"an OpenDocument text", kPandoc}},
    Packed{"mimetypeapplication/vnd.oasis.opendocument"sv, {"an OpenDocument file", kOffice}},
    Packed{"word/document"sv, {"a DOCX document", kPandoc}},
    Packed{"xl/workbook"sv, {"an XLSX table", kOffice}},
    Packed{"ppt/presentation"sv, {"a PPTX presentation", kOffice}},
};
constexpr FileKind kZip = {"a ZIP archive", "unzip -p FILE"};
constexpr FileKind kSafetensors = {
    .name = "a safetensors file",
    .advice = "'attndb import --safetensors FILE' takes stored K and V",
    .is_never_text = true};

unsigned ByteAt(std::string_view text, size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
}

bool IsIn(unsigned c, unsigned first, unsigned last) { return c >= first && c <= last; }

// UTF-16 and UTF-32, by their marks, or by zeros at every second byte.
std::string_view GuessWide(std::string_view text) {
  constexpr std::array kMarks = {
      std::pair{"\xFF\xFE\0\0"sv, "UTF-32"sv}, std::pair{"\0\0\xFE\xFF"sv, "UTF-32"sv},
      std::pair{"\xFF\xFE"sv, "UTF-16"sv}, std::pair{"\xFE\xFF"sv, "UTF-16"sv}};
  for (const auto& [mark, name] : kMarks) {
    if (text.starts_with(mark)) return name;
  }
  std::array<size_t, 2> num_zeros = {};  // At even bytes, and at odd ones.
  size_t num_plain = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned c = ByteAt(text, i);
    if (c == 0) ++num_zeros[i % 2];
    if (IsIn(c, ' ', '~') || IsIn(c, '\t', '\r')) ++num_plain;
  }
  const size_t num_pairs = text.size() / 2;
  // Most characters are ASCII, and zeros stand only beside them.
  const auto are_beside = [&](size_t zeros, size_t others) {
    return zeros > 0 && 10 * zeros >= 7 * num_pairs && 50 * others <= num_pairs &&
           zeros <= num_plain;
  };
  if (are_beside(num_zeros[1], num_zeros[0])) return "UTF-16LE";
  if (are_beside(num_zeros[0], num_zeros[1])) return "UTF-16BE";
  return "";
}

// Bytes of a text that are no ASCII.
struct HighBytes {
  size_t count = 0;
  size_t num_runs = 0;
  size_t num_ascii_letters = 0;
  std::array<size_t, 256> num_of = {};

  size_t In(unsigned first, unsigned last) const {
    return std::accumulate(num_of.begin() + first, num_of.begin() + last + 1, size_t{0});
  }
};

HighBytes HighBytesOf(std::string_view text) {
  HighBytes high;
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned c = ByteAt(text, i);
    if (IsIn(c | 0x20U, 'a', 'z')) ++high.num_ascii_letters;
    if (c < 0x80) continue;
    ++high.count;
    if (i == 0 || ByteAt(text, i - 1) < 0x80) ++high.num_runs;
    ++high.num_of[c];
  }
  return high;
}

// Alphabets of a byte a letter, by where their small letters are.
std::string_view GuessAlphabet(const HighBytes& high) {
  const auto is_share = [&](size_t count, size_t percent) {
    return 100 * count > percent * high.count;
  };
  if (is_share(high.In(0xA0, 0xAF), 25)) return "IBM866";
  if (is_share(high.In(0x80, 0xBF), 25)) return "";
  if (!is_share(high.In(0xE0, 0xFF), 50)) return "KOI8-R";
  if (is_share(high.In(0xDC, 0xDF), 4)) return "ISO-8859-7";  // Greek vowels with accents.
  if (high.In(0xFB, 0xFF) == 0 && high.In(0xC0, 0xDF) == 0) return "ISO-8859-8";
  return "windows-1251";
}

// Counts a text as if each of its characters had two bytes.
struct Pairs {
  size_t count = 0;
  size_t num_broken = 0;  // Leads without a second byte.
  size_t num_sjis_kana = 0;
  size_t num_euc_kana = 0;
  size_t num_low = 0;   // With an ASCII letter as the second byte.
  size_t num_late = 0;  // Behind the Hangul of EUC-KR.
};

Pairs PairsOf(std::string_view text) {
  Pairs pairs;
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned lead = ByteAt(text, i);
    if (lead < 0x80) continue;
    const unsigned second = ByteAt(text, i + 1);
    if (second < 0x40 || second == 0x7F || lead == 0x80 || lead == 0xFF) {
      ++pairs.num_broken;
      continue;
    }
    ++i;
    ++pairs.count;
    const bool is_hiragana = lead == 0x82 && IsIn(second, 0x9F, 0xF1);
    const bool is_katakana = lead == 0x83 && IsIn(second, 0x40, 0x96);
    if (is_hiragana || is_katakana) ++pairs.num_sjis_kana;
    if ((lead == 0xA4 || lead == 0xA5) && second >= 0xA1) ++pairs.num_euc_kana;
    if (second < 0x80) ++pairs.num_low;
    if (lead > 0xC8) ++pairs.num_late;
  }
  return pairs;
}

std::string_view GuessDouble(const Pairs& pairs) {
  if (10 * pairs.num_sjis_kana > pairs.count) return "SHIFT_JIS";
  if (10 * pairs.num_low > pairs.count) return "BIG5";
  if (10 * pairs.num_euc_kana > pairs.count) return "EUC-JP";
  return 20 * pairs.num_late < pairs.count ? "EUC-KR" : "GB18030";
}

}  // namespace

bool BeginsAsSafetensors(std::string_view bytes) {
  return bytes.size() > 8 && bytes.substr(6, 3) == "\0\0{"sv;
}

const FileKind* KindOfFile(std::string_view bytes) {
  if (BeginsAsSafetensors(bytes)) return &kSafetensors;
  if (bytes.starts_with("PK\x03\x04") || bytes.starts_with("PK\x05\x06")) {
    const auto packed = std::ranges::find_if(kPacked, [bytes](const Packed& each) {
      return bytes.find(each.holds) != std::string_view::npos;
    });
    return packed == kPacked.end() ? &kZip : &packed->kind;
  }
  for (const Magic& magic : kMagic) {
    if (bytes.size() < magic.at + magic.bytes.size()) continue;
    if (bytes.substr(magic.at, magic.bytes.size()) == magic.bytes) return &magic.kind;
  }
  return nullptr;
}

std::string_view GuessEncoding(std::string_view text) {
  text = text.substr(0, size_t{1} << 20);
  if (const std::string_view wide = GuessWide(text); !wide.empty()) return wide;
  if (text.find('\0') != std::string_view::npos) return "";
  const HighBytes high = HighBytesOf(text);
  if (high.count == 0) return "";
  // Letters with accents are isolated among ASCII letters, or come in pairs among many.
  const bool are_alone = 2 * high.count < 3 * high.num_runs && high.count < high.num_ascii_letters;
  const bool are_few =
      2 * high.count < 5 * high.num_runs && 3 * high.count < high.num_ascii_letters;
  if (are_alone || are_few) {
    return high.In(0x80, 0x9F) > 0 ? "windows-1252" : "latin1";
  }
  const Pairs pairs = PairsOf(text);
  return 50 * pairs.num_broken <= pairs.count ? GuessDouble(pairs) : GuessAlphabet(high);
}

std::string ShellWord(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+:,@%";
  const bool is_plain = std::ranges::all_of(text, [&](char c) {
    return static_cast<unsigned char>(c) >= 0x80 || kPlain.find(c) != std::string_view::npos;
  });
  if (is_plain && !text.empty()) return std::string(text);
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string ShellOption(std::string_view option, std::string_view value) {
  return std::string(option) + (value.starts_with('-') ? "=" : " ") + ShellWord(value);
}

std::string CommandFor(std::string_view command, const std::string& path) {
  constexpr std::string_view kFile = "FILE";
  std::string text(command);
  const size_t at = text.find(kFile);
  if (at == std::string::npos || path == "-") return text;
  return text.replace(at, kFile.size(), ShellWord((path.starts_with('-') ? "./" : "") + path));
}

}  // namespace attndb::cli
