// The parser of a program's command line: its commands, their flags, and the user's input. Hides
// CLI11, which takes seconds to compile: only parser.cc includes it, and also implements Flags.
//
// Output:  Parse writes help and version to stdout.
// Errors:  a user's mistake is a ParsedLine.
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_PARSER_H_
#define ATTNDB_CLI_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/command_tree.h"
#include "cli/common/guesses.h"
#include "cli/flags.h"

namespace attndb::cli {

struct ParserTexts {
  std::string name;     // "attndb".
  std::string about;    // The first line of its help.
  std::string footer;   // The end of its help.
  std::string version;  // The line that --version prints.
  // Words of other programs. The array outlives the parser.
  std::span<const Guess> guesses = {};
};

struct ParsedLine {
  enum class Kind : uint8_t {
    kCommand,  // A command and its flags: they hold their values.
    kShown,    // The help or the version was asked for, and is printed.
    kWrong,
  };
  Kind kind = Kind::kWrong;
  size_t command_idx = 0;          // kCommand: counts the calls of AddCommand.
  std::vector<std::string> given;  // kCommand: flags and arguments on the line: "--name".
  std::string mistake;             // kWrong: "--kv-dtype: expected f16, bf16 or f32, found 'q8_0'".
  std::string where;               // kWrong: the command that was found: "attndb ls".
  std::string unknown;             // kWrong: the first word that is no command of it; or empty.
};

class Parser {
 public:
  explicit Parser(const ParserTexts& texts);
  ~Parser();
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;

  // Flags before the command. The parser must outlive the result.
  Flags MainFlags();
  // Adds a command, and returns its flags for filling. The parser must outlive them.
  Flags AddCommand(const std::string& name, const std::string& summary, const std::string& footer);

  // `args`: the command line, without the program. Once.
  ParsedLine Parse(const std::vector<std::string>& args);

  // All commands and flags.
  CommandTree Tree() const;

 private:
  const std::span<const Guess> guesses_;
  std::unique_ptr<CLI::App> app_;
  std::vector<CLI::App*> commands_;  // Owned by *app_.
};

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_PARSER_H_
