// Exit codes: the number by which the process tells its caller how it ended.
// docs/cli.md lists the numbers: never renumber.
//
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_EXIT_CODE_H_
#define ATTNDB_CLI_COMMON_EXIT_CODE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "attndb/status.h"

namespace attndb::cli {

enum class ExitCode : uint8_t {
  kOk = 0,
  kError = 1,         // The operating system, or a bug of ours.
  kUsage = 2,         // The command line or a file it names is wrong.
  kNotFound = 3,      // No such store, context, model or file.
  kDamage = 4,        // A checksum or an identity does not match.
  kBusy = 5,          // Another process writes to the store.
  kResource = 6,      // Disk full, quota or memory limit reached.
  kCheckDiffers = 7,  // ask --check: plain llama.cpp says something else.
  kNameTaken = 8,
  kReadOnly = 9,       // The store can't be written to.
  kUnsupported = 10,   // A model, format or feature that this build can't honour.
  kOtherModel = 11,    // The context was made by another model.
  kNoText = 12,        // import of folders that hold files, and no text.
  kInterrupted = 130,  // SIGINT or SIGTERM; finished work is stored.
};

ExitCode ExitCodeOf(StatusCode code);

// The code that another program names, as StatusCodeName writes it.
std::optional<StatusCode> CodeNamed(std::string_view name);

struct ExitCodeText {
  ExitCode code;
  const char* brief;    // One or two words.
  const char* meaning;  // A clause.
};
// All of them, in order, for the help, the manual page and docs/cli.md.
std::span<const ExitCodeText> ExitCodeTexts();

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_EXIT_CODE_H_
