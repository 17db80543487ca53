// What is wrong with a command line, in the words of the project. Hides what the parser says.
//
// Threads: stateless.
#ifndef ATTNDB_CLI_USAGE_TEXT_H_
#define ATTNDB_CLI_USAGE_TEXT_H_

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace attndb::cli {

// `args`: the command line, without the program. As: "unknown command 'lst'; did you mean 'ls'?",
// "--kv-dtype: expected f16, bf16 or f32, found 'q8_0'", "CONTEXT is missing".
std::string UsageText(const CLI::App& app, const CLI::ParseError& error,
                      const std::vector<std::string>& args);

// The program's name and the commands that were found: "attndb ls".
std::string CommandText(const CLI::App& app);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_USAGE_TEXT_H_
