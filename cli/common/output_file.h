// A file that a command writes under a name of the user's choice, and advice if it can't be
// written.
//
// Threads: one at a time, as Environment.
#ifndef ATTNDB_CLI_COMMON_OUTPUT_FILE_H_
#define ATTNDB_CLI_COMMON_OUTPUT_FILE_H_

#include <string>

#include "attndb/status.h"
#include "cli/environment.h"

namespace attndb::cli {

// Errors: kInvalidArgument, naming `flag`: `path` is empty, a folder, or below a file.
Status CheckOutputFile(const std::string& path, const std::string& flag);

// `status`, of a call that was to write a file that must not be there yet, with its advice.
Status WithFileAdvice(Environment* env, Status status);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_OUTPUT_FILE_H_
