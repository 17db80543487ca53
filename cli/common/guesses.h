// Words that people try because other programs have them: of ollama, llama.cpp, vLLM, git, docker
// and SQL. None of them is close to the word that is meant.
//
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_GUESSES_H_
#define ATTNDB_CLI_COMMON_GUESSES_H_

#include <span>

namespace attndb::cli {

struct Guess {
  const char* word;   // A command, or an option with its dashes.
  const char* meant;  // The same here. An option counts for the commands that have it.
};

// The guesses of attndb's commands and options. A word may stand more than once: the first entry
// that its command has counts.
std::span<const Guess> Guesses();

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_GUESSES_H_
