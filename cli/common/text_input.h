// Text that a user hands over: a file, "-" for stdin, or an argument.
//
// Errors:  kNotFound; kInvalidArgument (a directory, more than kMaxTextBytes); kIoError.
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_TEXT_INPUT_H_
#define ATTNDB_CLI_COMMON_TEXT_INPUT_H_

#include <cstdint>
#include <cstdio>
#include <string>

#include "attndb/result.h"

namespace attndb::cli {

// No tokenizer gets through more in a useful time, and a device file has no end.
inline constexpr uint64_t kMaxTextBytes = uint64_t{1} << 30;

// The whole of `path`, or of stdin if it is "-".
Result<std::string> ReadText(const std::string& path);

// `question`, or if that is empty what is on stdin, without line breaks at its end.
// Errors: kInvalidArgument (neither; stdin is a terminal).
Result<std::string> QuestionOrStdin(const std::string& question);

// One line of `stream` without its end; kNotFound at the end of input, kCancelled after a signal.
Result<std::string> ReadLine(std::FILE* stream);

// A context's name for a document that came without one: the file's name without folder and last
// extension, with '_' for what names may not hold. Empty for "-".
std::string NameFromPath(const std::string& path);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_TEXT_INPUT_H_
