// Text that a user hands over: a file, "-" for stdin, or an argument.
//
// Trust:   hostile: sizes are checked before a file is read, and what is read is UTF-8 without a
//          byte 0.
// Errors:  kNotFound; kInvalidArgument (a directory, more than kMaxTextBytes, no text: what it is
//          instead, and the command that helps; stdin is closed); kIoError; kCancelled after a
//          signal.
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

// `question`, or if none was given what is on stdin, without line breaks at its end.
// Errors: kInvalidArgument (it is empty; stdin is a terminal).
Result<std::string> QuestionOrStdin(const std::string& question, bool is_given);

// Errors: kInvalidArgument: `name`, which is what `text` is called, and the byte where it is no
// UTF-8.
Status CheckUtf8(std::string_view text, const std::string& name);

// Whether the file at `path` begins as safetensors files do (text_kind.h). False for what can't be
// read.
bool IsSafetensorsFile(const std::string& path);

// A context's name for a document that came without one: the file's name without folder and last
// extension, with '_' for what names may not hold. Empty for "-".
std::string NameFromPath(const std::string& path);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_TEXT_INPUT_H_
