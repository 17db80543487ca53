#include "cli/common/line_reader.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "cli/common/interrupt.h"
#include "cli/common/progress.h"
#include "cli/common/text_input.h"
#include "cli/environment.h"

namespace attndb::cli {
namespace {

class PlainLines : public LineReader {
 public:
  PlainLines(int file, bool has_prompt) : file_(file), has_prompt_(has_prompt) {}

  Result<std::string> Next() override {
    if (has_prompt_) std::fputs("> ", stderr);
    size_t end = 0;
    for (size_t seen = 0; (end = read_.find('\n', seen)) == std::string::npos;) {
      seen = read_.size();
      ATTNDB_ASSIGN_OR_RETURN(const bool has_more, ReadMore());
      if (has_more) continue;
      if (read_.empty()) return Status::NotFound("end of input");
      end = read_.size();
      break;
    }
    std::string line = read_.substr(0, end);
    read_.erase(0, end + 1);
    if (line.ends_with('\r')) line.pop_back();
    ATTNDB_RETURN_IF_ERROR(CheckUtf8(line, "the line"));
    return line;
  }

 private:
  // False at the end.
  Result<bool> ReadMore() {
    std::array<char, 4096> buffer;
    for (;;) {
      if (!WaitToRead(file_)) return Status::Cancelled("interrupted");
      const ssize_t num_bytes = read(file_, buffer.data(), buffer.size());
      if (num_bytes < 0 && errno == EINTR) continue;
      if (num_bytes < 0 && errno == EBADF) return ClosedStdin();
      if (num_bytes < 0) {
        return Status::IoError(std::string("cannot read a line: ") + std::strerror(errno));
      }
      read_.append(buffer.data(), static_cast<size_t>(num_bytes));
      if (read_.size() > kMaxTextBytes) {
        return Status::InvalidArgument("a line of more than 1 GiB");
      }
      return num_bytes > 0;
    }
  }

  const int file_;
  const bool has_prompt_;
  std::string read_;  // The bytes behind the last returned line.
};

}  // namespace

std::unique_ptr<LineReader> MakeLineReader(bool is_terminal) {
  if (is_terminal && IsTerminal(stderr)) {
    if (auto editor = MakeLineEditor(HistoryPath())) return editor;
  }
  return MakePlainLines(STDIN_FILENO, is_terminal);
}

std::unique_ptr<LineReader> MakePlainLines(int file, bool has_prompt) {
  return std::make_unique<PlainLines>(file, has_prompt);
}

std::string HistoryPath() {
  std::filesystem::path folder = EnvironmentText("XDG_STATE_HOME");
  if (folder.empty()) {
    const std::string home = EnvironmentText("HOME");
    if (home.empty()) return "";
    folder = home + "/.local/state";
  }
  folder /= "attndb";
  std::error_code error;
  if (std::filesystem::create_directories(folder, error)) {
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  }
  return error ? "" : (folder / "chat_history").string();
}

}  // namespace attndb::cli
