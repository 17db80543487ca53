#include "cli/common/text_input.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

#include "attndb/context_name.h"
#include "cli/common/interrupt.h"
#include "cli/common/progress.h"

namespace attndb::cli {
namespace {

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using UniqueFile = std::unique_ptr<std::FILE, FileCloser>;

Status TooLong(const std::string& name) {
  return Status::InvalidArgument(name + " has more than 1 GiB, expected a text of less");
}

// `num_expected`: the bytes that a file has, if it is known.
Result<std::string> ReadAll(std::FILE* file, const std::string& name, uint64_t num_expected) {
  std::string text;
  text.reserve(num_expected);
  std::array<char, 65536> buffer;
  while (WaitToRead(fileno(file))) {
    const ssize_t num_bytes = read(fileno(file), buffer.data(), buffer.size());
    if (num_bytes < 0 && errno == EINTR) continue;
    if (num_bytes < 0) return Status::IoError("cannot read " + name + ": " + std::strerror(errno));
    if (num_bytes == 0) return text;
    text.append(buffer.data(), static_cast<size_t>(num_bytes));
    if (text.size() > kMaxTextBytes) return TooLong(name);
  }
  return Status::Cancelled("interrupted while " + name + " was read");
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
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool is_long = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool is_none = (first == 0xED && byte(1) >= 0xA0) || (first == 0xF4 && byte(1) >= 0x90);
  return is_long || is_none ? 0 : length;
}

bool IsHeadOfSafetensors(std::string_view head) {
  return head.size() > 8 && head.substr(6, 3) == std::string_view("\0\0{", 3);
}

// Files that people take for texts, by their first bytes.
Status CheckKind(std::string_view text, const std::string& name) {
  if (text.starts_with("GGUF")) {
    return Status::InvalidArgument(name +
                                   " is a GGUF model, expected a text; --model names models");
  }
  if (IsHeadOfSafetensors(text)) {
    return Status::InvalidArgument(name +
                                   " is a safetensors file, expected a text; 'attndb import "
                                   "--safetensors FILE' takes stored K and V");
  }
  return Status::Ok();
}

Result<std::string> ReadChecked(std::FILE* file, const std::string& name,
                                uint64_t num_expected = 0) {
  ATTNDB_ASSIGN_OR_RETURN(std::string text, ReadAll(file, name, num_expected));
  ATTNDB_RETURN_IF_ERROR(CheckKind(text, name));
  ATTNDB_RETURN_IF_ERROR(CheckUtf8(text, name));
  return text;
}

}  // namespace

Result<std::string> ReadText(const std::string& path) {
  if (path == "-") return ReadChecked(stdin, "the text on stdin");
  const UniqueFile file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) {
    const std::string message = "cannot open '" + path + "': " + std::strerror(errno);
    return errno == ENOENT ? Status::NotFound(message) : Status::IoError(message);
  }
  struct stat info = {};
  const bool is_known = fstat(fileno(file.get()), &info) == 0;
  if (is_known && S_ISDIR(info.st_mode)) {
    return Status::InvalidArgument("'" + path + "' is a folder; expected a text file");
  }
  if (!is_known || !S_ISREG(info.st_mode)) return ReadChecked(file.get(), "'" + path + "'");
  const auto num_bytes = static_cast<uint64_t>(info.st_size);
  if (num_bytes > kMaxTextBytes) return TooLong("'" + path + "'");
  return ReadChecked(file.get(), "'" + path + "'", num_bytes);
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

bool BeginsAsSafetensors(const std::string& path) {
  std::array<char, 9> head = {};
  const UniqueFile file(std::fopen(path.c_str(), "rb"));
  return file != nullptr && std::fread(head.data(), 1, head.size(), file.get()) == head.size() &&
         IsHeadOfSafetensors({head.data(), head.size()});
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
