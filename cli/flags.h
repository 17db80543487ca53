// The flags and arguments of a command, as declared in the command's file. Hides the parser
// (CLI11): parser.cc has the functions.
//
// Threads: one thread at a time.
// Errors:  none here; parsing the command line finds a user's mistakes.
#ifndef ATTNDB_CLI_FLAGS_H_
#define ATTNDB_CLI_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "attndb/dtype.h"

namespace CLI {
class App;
}

namespace attndb::cli {

// One line of the help.
struct FlagText {
  const char* names;  // "-c,--context"; without dashes: an argument.
  const char* value;  // The placeholder of its value: "CONTEXT"; "" for a flag without a value.
  const char* help;
  bool required = false;
};

class Flags {
 public:
  // `app` is not owned and outlives this.
  explicit Flags(CLI::App* app) : app_(app) {}

  // The flags added from here on stand under this title in the help.
  void Group(const std::string& title) { group_ = title; }

  // Binds variables, which must outlive the parse. A flag that is not given leaves its variable
  // unchanged.
  void Add(const FlagText& text, bool* flag);
  void Add(const FlagText& text, std::string* value);
  // All values of an argument; for a flag, one value per occurrence.
  void Add(const FlagText& text, std::vector<std::string>* values);
  void Add(const FlagText& text, DType* dtype);  // f16, bf16 or f32.
  // Numbers in [low, high].
  template <typename Number>
  void Add(const FlagText& text, Number* number, Number low, Number high);

  // A command of this command; one of them must be given. *chosen is set if it is this one.
  Flags Subcommand(const std::string& name, const std::string& summary, bool* chosen);

  // Accepts a command line whatever it holds.
  void AcceptAnything();

 private:
  CLI::App* const app_;
  std::string group_ = "Options";
};

extern template void Flags::Add(const FlagText&, int32_t*, int32_t, int32_t);
extern template void Flags::Add(const FlagText&, uint32_t*, uint32_t, uint32_t);
extern template void Flags::Add(const FlagText&, uint64_t*, uint64_t, uint64_t);
extern template void Flags::Add(const FlagText&, float*, float, float);
extern template void Flags::Add(const FlagText&, double*, double, double);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_FLAGS_H_
