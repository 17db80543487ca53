// Text that a user hands over: a file, "-" for stdin, or an argument.
//
// Trust:   hostile: sizes are checked before a file is read, and the result is UTF-8 without a byte
//          0.
// Errors:  kNotFound; kInvalidArgument (a directory, more than kMaxTextBytes, no text: its kind,
//          and a helpful command; stdin is closed); kIoError; kCancelled after a signal.
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_TEXT_INPUT_H_
#define ATTNDB_CLI_COMMON_TEXT_INPUT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "attndb/result.h"

namespace attndb::cli {

// No tokenizer gets through more in a useful time, and a device file has no end.
inline constexpr uint64_t kMaxTextBytes = uint64_t{1} << 30;

// The whole of `path`, or of stdin if it is "-". `reader`: the command that a text is piped to
// where the file has to be converted first, as "attndb import - --name a"; empty: none is told.
Result<std::string> ReadText(const std::string& path, const std::string& reader = "");

// Why a file that begins with these bytes is no text: "it is a PNG image"; empty: it may be one.
// `is_whole`: they are all that it has.
std::string ReasonForNoText(std::string_view begin, bool is_whole);

// The error of a read from a stdin that is closed, as by <&- in a shell.
Status ClosedStdin();

// Returns `question`, or, if none was given, the text on stdin without line breaks at its end.
// Errors: kInvalidArgument (it is empty; stdin is a terminal).
Result<std::string> QuestionOrStdin(const std::string& question, bool is_given);

// Errors: kInvalidArgument, with `name`, the description of `text`, and the position of the first
//         byte that is not UTF-8.
Status CheckUtf8(std::string_view text, const std::string& name);

// Whether the file at `path` begins like a safetensors file (text_kind.h). False if it is
// unreadable.
bool IsSafetensorsFile(const std::string& path);

// The name of a document's context if none was given: the file's name without folder and last
// extension; '_' replaces characters that names can't have. Empty for "-".
std::string NameFromPath(const std::string& path);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_TEXT_INPUT_H_
