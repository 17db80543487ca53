#include "cli/common/text_input.h"

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "cli/common/interrupt.h"
#include "cli/common/progress.h"

namespace attndb::cli {
namespace {

constexpr size_t kMaxNameBytes = 128;  // Longest name of a context: options.h.

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using UniqueFile = std::unique_ptr<std::FILE, FileCloser>;

Result<std::string> ReadAll(std::FILE* file, const std::string& name) {
  std::string text;
  std::array<char, 65536> buffer;
  while (true) {
    const size_t num_bytes = std::fread(buffer.data(), 1, buffer.size(), file);
    text.append(buffer.data(), num_bytes);
    if (text.size() > kMaxTextBytes) {
      return Status::InvalidArgument(name + " has more than 1 GiB of text");
    }
    if (num_bytes < buffer.size()) break;
  }
  if (std::ferror(file) != 0) return Status::IoError("cannot read " + name);
  return text;
}

bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._:@+-").find(c) != std::string_view::npos;
}

}  // namespace

Result<std::string> ReadText(const std::string& path) {
  if (path == "-") return ReadAll(stdin, "stdin");
  const UniqueFile file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) {
    const std::string message = "cannot open '" + path + "': " + std::strerror(errno);
    return errno == ENOENT ? Status::NotFound(message) : Status::IoError(message);
  }
  struct stat info = {};
  if (fstat(fileno(file.get()), &info) == 0 && S_ISDIR(info.st_mode)) {
    return Status::InvalidArgument("'" + path + "' is a folder; expected a text file");
  }
  return ReadAll(file.get(), "'" + path + "'");
}

Result<std::string> QuestionOrStdin(const std::string& question) {
  if (!question.empty()) return question;
  if (IsTerminal(stdin)) {
    return Status::InvalidArgument("no question: give it as argument or on stdin");
  }
  ATTNDB_ASSIGN_OR_RETURN(std::string text, ReadText("-"));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  if (text.empty()) return Status::InvalidArgument("the question on stdin is empty");
  return text;
}

Result<std::string> ReadLine(std::FILE* stream) {
  std::string line;
  while (true) {
    const int c = std::fgetc(stream);
    if (c == EOF && Interrupted()) return Status::Cancelled("interrupted");
    if (c == EOF && line.empty()) return Status::NotFound("end of input");
    if (c == EOF || c == '\n') break;
    line.push_back(static_cast<char>(c));
    if (line.size() > kMaxTextBytes) return Status::InvalidArgument("a line of more than 1 GiB");
  }
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return line;
}

std::string NameFromPath(const std::string& path) {
  if (path == "-") return "";
  std::string name = path.substr(path.find_last_of('/') + 1);
  const size_t dot = name.find_last_of('.');
  if (dot != std::string::npos && dot > 0) name.resize(dot);
  for (char& c : name) {
    if (!IsNameChar(c)) c = '_';
  }
  if (name.size() > kMaxNameBytes) name.resize(kMaxNameBytes);
  return name;
}

}  // namespace attndb::cli
