// attndb: the command line of the store. docs/cli.md documents commands, flags and exit codes.
#include "cli/common/contexts.h"
#include "cli/common/guesses.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  constexpr attndb::cli::MovedCommand kMoved[] = {
      {"bench", "benchmarks are a program of their own, attndb-bench, which 'make bench' builds"}};
  return attndb::cli::RunProgram(
      {.name = "attndb",
       .about = "attndb keeps what a language model has read, and answers from it at once.",
       .examples = "  attndb import handbook.txt\n"
                   "  attndb ask --context handbook \"How long is the warranty?\"\n"
                   "  attndb ls\n",
       .commands = attndb::cli::AllCommands(),
       .moved = kMoved,
       .guesses = attndb::cli::Guesses(),
       .guess = attndb::cli::GuessContext},
      argc, argv);
}
