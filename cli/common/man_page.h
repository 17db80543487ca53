// A program's manual page in roff's macros "man": man(7).
//
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_MAN_PAGE_H_
#define ATTNDB_CLI_COMMON_MAN_PAGE_H_

#include <string>
#include <utility>
#include <vector>

#include "cli/command_tree.h"

namespace attndb::cli {

// The parts of a page besides the commands: terms and their meanings.
struct ManPageFacts {
  std::string version;
  std::vector<std::pair<std::string, std::string>> exit_codes;
  std::vector<std::pair<std::string, std::string>> advice;  // By kind of failure.
  std::vector<std::pair<std::string, std::string>> variables;
};

std::string ManPage(const CommandTree& program, const ManPageFacts& facts);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_MAN_PAGE_H_
