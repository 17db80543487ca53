#include "cli/common/line_reader.h"

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "cli/common/progress.h"
#include "cli/common/text_input.h"
#include "cli/environment.h"

namespace attndb::cli {
namespace {

class PlainLines : public LineReader {
 public:
  explicit PlainLines(bool is_terminal) : is_terminal_(is_terminal) {}

  Result<std::string> Next() override {
    if (is_terminal_) std::fputs("> ", stderr);
    return ReadLine(stdin);
  }

 private:
  const bool is_terminal_;
};

}  // namespace

std::unique_ptr<LineReader> MakeLineReader(bool is_terminal) {
  if (is_terminal && IsTerminal(stderr)) {
    if (auto editor = MakeLineEditor(HistoryPath())) return editor;
  }
  return std::make_unique<PlainLines>(is_terminal);
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
