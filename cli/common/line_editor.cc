// MakeLineEditor, by libedit.
#include <fcntl.h>
#include <histedit.h>
#include <locale.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cwchar>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "cli/common/interrupt.h"
#include "cli/common/line_reader.h"
#include "cli/common/text_input.h"
#include "cli/environment.h"

namespace attndb::cli {
namespace {

constexpr int kHistoryLines = 1000;

struct EditorCloser {
  void operator()(EditLine* editor) const { el_end(editor); }
};
struct HistoryCloser {
  void operator()(History* history) const { history_end(history); }
};
using UniqueEditor = std::unique_ptr<EditLine, EditorCloser>;
using UniqueHistory = std::unique_ptr<History, HistoryCloser>;

// While it lives, characters are UTF-8 for this thread, whatever the user's locale says: so are all
// texts of attndb.
class Utf8Scope {
 public:
  Utf8Scope() : utf8_(newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {
    if (utf8_ != nullptr) before_ = uselocale(utf8_);
  }
  Utf8Scope(const Utf8Scope&) = delete;
  Utf8Scope& operator=(const Utf8Scope&) = delete;
  ~Utf8Scope() {
    if (utf8_ == nullptr) return;
    uselocale(before_);
    freelocale(utf8_);
  }

 private:
  const locale_t utf8_;
  locale_t before_ = nullptr;
};

char* Prompt(EditLine* /*editor*/) {
  static char prompt[] = "> ";  // libedit takes no constant, and changes nothing.
  return prompt;
}

// Reads one character of the terminal. Unlike libedit's own, it ends the input when a signal has
// come. Returns how many were read: 1, or 0 at the end.
int ReadCharacter(EditLine* /*editor*/, wchar_t* character) {
  std::mbstate_t state = {};
  while (true) {
    char byte = 0;
    if (!WaitToRead(STDIN_FILENO)) return 0;
    const ssize_t num_bytes = read(STDIN_FILENO, &byte, 1);
    if (num_bytes < 0 && errno == EINTR) continue;
    if (num_bytes <= 0) return 0;
    const size_t length = std::mbrtowc(character, &byte, 1, &state);
    if (length == static_cast<size_t>(-2)) continue;  // More bytes belong to it.
    if (length == static_cast<size_t>(-1)) *character = L'\uFFFD';
    return 1;
  }
}

// Creates an empty file that only this user may read, unless the file exists: libedit writes to
// existing files.
bool MakePrivateFile(const std::string& path) {
  const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, S_IRUSR | S_IWUSR);
  return file >= 0 && close(file) == 0;
}

class LineEditor : public LineReader {
 public:
  LineEditor(UniqueEditor editor, UniqueHistory lines, std::string path)
      : path_(std::move(path)), history_(std::move(lines)), editor_(std::move(editor)) {
    HistEvent event = {};
    history(history_.get(), &event, H_SETSIZE, kHistoryLines);
    history(history_.get(), &event, H_SETUNIQUE, 1);
    if (!path_.empty()) history(history_.get(), &event, H_LOAD, path_.c_str());
    el_set(editor_.get(), EL_EDITOR, "emacs");
    el_set(editor_.get(), EL_PROMPT, Prompt);
    el_set(editor_.get(), EL_HIST, history, history_.get());
    el_wset(editor_.get(), EL_GETCFN, ReadCharacter);
    el_source(editor_.get(), nullptr);  // The user's own settings: editrc(5).
  }

  Result<std::string> Next() override {
    const Utf8Scope utf8;
    // Comes before the prompt, because a user who sees the prompt may type, and earlier keys are
    // not edited.
    el_set(editor_.get(), EL_PREP_TERM, 1);
    int num_bytes = 0;
    const char* const text = el_gets(editor_.get(), &num_bytes);
    if (Interrupted()) return Status::Cancelled("interrupted");
    if (text == nullptr || num_bytes <= 0) return Status::NotFound("end of input");
    std::string line(text);
    while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
    ATTNDB_RETURN_IF_ERROR(CheckUtf8(line, "the line"));
    Keep(line);
    return line;
  }

 private:
  // A history that can't be written is no reason to end a chat.
  void Keep(const std::string& line) {
    if (line.find_first_not_of(" \t") == std::string::npos) return;
    HistEvent event = {};
    history(history_.get(), &event, H_ENTER, line.c_str());
    if (!path_.empty()) history(history_.get(), &event, H_SAVE, path_.c_str());
  }

  const std::string path_;
  const UniqueHistory history_;  // The editor reads it.
  const UniqueEditor editor_;
};

}  // namespace

std::unique_ptr<LineReader> MakeLineEditor(const std::string& history) {
  const std::string terminal = EnvironmentText("TERM");
  if (terminal.empty() || terminal == "dumb") return nullptr;
  const Utf8Scope utf8;
  UniqueEditor editor(el_init("attndb", stdin, stderr, stderr));
  UniqueHistory lines(history_init());
  if (editor == nullptr || lines == nullptr) return nullptr;
  const bool is_kept = !history.empty() && MakePrivateFile(history);
  return std::make_unique<LineEditor>(std::move(editor), std::move(lines), is_kept ? history : "");
}

}  // namespace attndb::cli
