// Lines from a user or a pipe: the questions of a chat.
//
// A terminal's lines can be edited and are remembered, if the build has libedit and the terminal
// supports it. All other input is read as it comes.
//
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_LINE_READER_H_
#define ATTNDB_CLI_COMMON_LINE_READER_H_

#include <memory>
#include <string>

#include "attndb/result.h"

namespace attndb::cli {

class LineReader {
 public:
  LineReader() = default;
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;
  virtual ~LineReader() = default;

  // A line of UTF-8 without its end.
  // Errors: kNotFound at the end of input; kCancelled after a signal; kInvalidArgument.
  virtual Result<std::string> Next() = 0;
};

// Lines of stdin. A terminal's are asked for by a prompt on stderr; `is_terminal`: stdin is one.
std::unique_ptr<LineReader> MakeLineReader(bool is_terminal);

// Lines of an open file as they come; `has_prompt`: each is asked for on stderr.
std::unique_ptr<LineReader> MakePlainLines(int file, bool has_prompt);

// Lines of the terminal with editing, and with earlier lines from `history`, a file that is created
// for this user only; empty: none are kept. Null if lines can't be edited.
std::unique_ptr<LineReader> MakeLineEditor(const std::string& history);

// $XDG_STATE_HOME/attndb/chat_history, else ~/.local/state/attndb/chat_history, in a folder that is
// made; empty where there is neither.
std::string HistoryPath();

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_LINE_READER_H_
