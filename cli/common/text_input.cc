#include "cli/common/text_input.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "attndb/context_name.h"
#include "cli/common/interrupt.h"
#include "cli/common/progress.h"
#include "cli/common/text_kind.h"
#include "engines/llama/utf8_bytes.h"

namespace attndb::cli {
namespace {

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using UniqueFile = std::unique_ptr<std::FILE, FileCloser>;

Status TooLong(const std::string& name) {
  return Status::InvalidArgument(name + " has more than 1 GiB, expected a text of less");
}

// A file that is read, and the names that a message has for it.
struct TextSource {
  std::FILE* file;
  std::string name;    // "'a.pdf'".
  std::string path;    // "-": stdin.
  std::string reader;  // See ReadText.
};

Status CheckIsText(std::string_view bytes, bool is_whole, const TextSource& source);

// `num_expected`: the bytes that a file has, if it is known. Its beginning is judged before the
// rest is read.
Result<std::string> ReadAll(const TextSource& source, uint64_t num_expected) {
  std::string text;
  text.reserve(num_expected);
  std::array<char, 65536> buffer;
  bool is_judged = false;
  while (WaitToRead(fileno(source.file))) {
    const ssize_t num_bytes = read(fileno(source.file), buffer.data(), buffer.size());
    if (num_bytes < 0 && errno == EINTR) continue;
    if (num_bytes < 0 && errno == EBADF && source.file == stdin) return ClosedStdin();
    if (num_bytes < 0) {
      return Status::IoError("cannot read " + source.name + ": " + std::strerror(errno));
    }
    if (num_bytes == 0) return text;
    text.append(buffer.data(), static_cast<size_t>(num_bytes));
    if (!is_judged && text.size() >= buffer.size()) {
      ATTNDB_RETURN_IF_ERROR(CheckIsText(text, /*is_whole=*/false, source));
      is_judged = true;
    }
    if (text.size() > kMaxTextBytes) return TooLong(source.name);
  }
  return Status::Cancelled("interrupted while " + source.name + " was read");
}

// Bytes of the character that `text` begins with: 0 if that is no UTF-8 (RFC 3629: the shortest
// form, no surrogates, up to U+10FFFF).
size_t CharacterBytes(std::string_view text) {
  const auto byte = [text](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (!llama::ContinuesUtf8Char(static_cast<char>(byte(i)))) return 0;
  }
  const bool is_long = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool is_none = (first == 0xED && byte(1) >= 0xA0) || (first == 0xF4 && byte(1) >= 0x90);
  return is_long || is_none ? 0 : length;
}

// "; try: pdftotext a.pdf - | attndb import - --name a": advice for a file that is not text.
std::string HelpOf(std::string_view command, const TextSource& source) {
  if (command.empty()) return "";
  const std::string pipe = source.reader.empty() ? "" : " | " + source.reader;
  return "; try: " + CommandFor(command, source.path) + pipe;
}

// The place where `text` is not UTF-8, or has a byte 0; text.size(): nowhere. The last character
// may be cut unless `is_whole`.
size_t FirstWrongByte(std::string_view text, bool is_whole) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = CharacterBytes(text.substr(at));
    const bool may_be_cut = !is_whole && text.size() - at < 4 && text[at] != '\0';
    if (length == 0 && may_be_cut) return text.size();
    if (length == 0 || text[at] == '\0') return at;
    at += length;
  }
  return text.size();
}

// Why bytes are not text, and a helpful command.
struct NoText {
  std::string reason;   // "is a PDF document"
  std::string command;  // Converts it to text.
  std::string advice;
};

// The reason where a byte is wrong that no known kind of file explains.
NoText WrongByte(std::string_view bytes, size_t wrong_byte) {
  const bool is_zero = bytes[wrong_byte] == '\0';
  const std::string reason =
      (is_zero ? "has a byte 0, at byte " : "is not UTF-8 at byte ") + std::to_string(wrong_byte);
  const std::string encoding(GuessEncoding(bytes));
  if (!encoding.empty()) {
    return {reason + ", it looks like " + encoding, "iconv -f " + encoding + " -t UTF-8 FILE", ""};
  }
  // It may be UTF-8 with a few bytes that are none.
  return {reason, is_zero ? "tr -d '\\000' <FILE" : "iconv -c -f UTF-8 -t UTF-8 FILE", ""};
}

// Nothing: they may be a text, of which these are all bytes if `is_whole`.
std::optional<NoText> WhyNoText(std::string_view bytes, bool is_whole) {
  const size_t wrong_byte = FirstWrongByte(bytes, is_whole);
  const FileKind* const kind = KindOfFile(bytes);
  const bool is_kind = kind != nullptr && (kind->is_never_text || wrong_byte < bytes.size());
  if (is_kind) {
    return NoText{"is " + std::string(kind->name), std::string(kind->command),
                  std::string(kind->advice)};
  }
  if (wrong_byte == bytes.size()) return std::nullopt;
  return WrongByte(bytes, wrong_byte);
}

Status CheckIsText(std::string_view bytes, bool is_whole, const TextSource& source) {
  const std::optional<NoText> why = WhyNoText(bytes, is_whole);
  if (!why) return Status::Ok();
  return Status::InvalidArgument(source.name + " " + why->reason + ", expected a text" +
                                 (why->advice.empty() ? "" : "; " + why->advice) +
                                 HelpOf(why->command, source));
}

Result<std::string> ReadChecked(const TextSource& source, uint64_t num_expected = 0) {
  ATTNDB_ASSIGN_OR_RETURN(std::string text, ReadAll(source, num_expected));
  text.erase(0, text.size() - llama::WithoutBom(text).size());
  ATTNDB_RETURN_IF_ERROR(CheckIsText(text, /*is_whole=*/true, source));
  return text;
}

// The error of a file that is too long for a text: names its kind, if that is known.
Status TooLongToRead(const TextSource& source) {
  std::string head(65536, '\0');
  head.resize(std::fread(head.data(), 1, head.size(), source.file));
  if (KindOfFile(head) == nullptr) return TooLong(source.name);
  const Status status = CheckIsText(head, /*is_whole=*/false, source);
  return status.ok() ? TooLong(source.name) : status;
}

}  // namespace

Status ClosedStdin() { return Status::InvalidArgument("stdin is closed, expected a text on it"); }

Result<std::string> ReadText(const std::string& path, const std::string& reader) {
  if (path == "-") {
    return ReadChecked(
        {.file = stdin, .name = "the text on stdin", .path = path, .reader = reader});
  }
  const std::string name = "'" + path + "'";
  const UniqueFile file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) {
    // Opening waits for a pipe without a writer.
    if (errno == EINTR && Interrupted()) {
      return Status::Cancelled("interrupted while " + name + " was opened");
    }
    const std::string message = "cannot open " + name + ": " + std::strerror(errno);
    return errno == ENOENT ? Status::NotFound(message) : Status::IoError(message);
  }
  struct stat info = {};
  const bool is_known = fstat(fileno(file.get()), &info) == 0;
  if (is_known && S_ISDIR(info.st_mode)) {
    return Status::InvalidArgument(name + " is a folder; expected a text file");
  }
  const TextSource source = {.file = file.get(), .name = name, .path = path, .reader = reader};
  if (!is_known || !S_ISREG(info.st_mode)) return ReadChecked(source);
  const auto num_bytes = static_cast<uint64_t>(info.st_size);
  if (num_bytes > kMaxTextBytes) return TooLongToRead(source);
  return ReadChecked(source, num_bytes);
}

std::string ReasonForNoText(std::string_view begin, bool is_whole) {
  if (begin.empty()) return "it is empty";
  const std::optional<NoText> why = WhyNoText(begin, is_whole);
  return why ? "it " + why->reason : "";
}

Status CheckUtf8(std::string_view text, const std::string& name) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = CharacterBytes(text.substr(at));
    if (length == 0) {
      return Status::InvalidArgument(name + " is not UTF-8 at byte " + std::to_string(at) +
                                     "; 'iconv -t UTF-8' converts texts");
    }
    at += length;
  }
  return Status::Ok();
}

bool IsSafetensorsFile(const std::string& path) {
  std::array<char, 9> head = {};
  const UniqueFile file(std::fopen(path.c_str(), "rb"));
  return file != nullptr && std::fread(head.data(), 1, head.size(), file.get()) == head.size() &&
         BeginsAsSafetensors({head.data(), head.size()});
}

Result<std::string> QuestionOrStdin(const std::string& question, bool is_given) {
  if (is_given) {
    if (question.empty()) return Status::InvalidArgument("the question is empty");
    ATTNDB_RETURN_IF_ERROR(CheckUtf8(question, "the question"));
    return question;
  }
  if (IsTerminal(stdin)) {
    return Status::InvalidArgument("no question: give it as argument or on stdin");
  }
  ATTNDB_ASSIGN_OR_RETURN(std::string text, ReadText("-"));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  if (text.empty()) return Status::InvalidArgument("the question on stdin is empty");
  return text;
}

std::string NameFromPath(const std::string& path) {
  if (path == "-") return "";
  std::string file = path.substr(path.find_last_of('/') + 1);
  const size_t dot = file.find_last_of('.');
  if (dot != std::string::npos && dot > 0) file.resize(dot);
  std::string name;
  for (size_t at = 0; at < file.size();) {
    const size_t length = CharacterBytes(std::string_view(file).substr(at));
    std::string c = file.substr(at, std::max<size_t>(length, 1));
    at += c.size();
    if (!CheckContextName(c).ok()) c = "_";
    if (name.size() + c.size() > kMaxContextNameBytes) break;
    name += c;
  }
  return name;
}

}  // namespace attndb::cli
