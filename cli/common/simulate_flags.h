// The flags of `attndb simulate`: the command has them for its help and its mistakes, and
// attndb-simulate, which it starts, for their values.
//
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_SIMULATE_FLAGS_H_
#define ATTNDB_CLI_COMMON_SIMULATE_FLAGS_H_

#include <string>
#include <vector>

#include "attndb/result.h"
#include "attndb/tiers.h"
#include "cli/flags.h"

namespace attndb::cli {

class SimulateFlags {
 public:
  void AddTo(Flags* flags);
  // Errors: kInvalidArgument, naming the flag.
  Result<SimulateOptions> ToOptions() const;

 private:
  void AddModel(Flags* flags);
  void AddConversations(Flags* flags);

  SimulateOptions options_;  // Those that a flag sets as they are.
  std::string memory_;       // Empty: not given.
  std::string disk_;         // Empty: not given.
  double disk_speed_ = 5;
  std::vector<std::string> policies_;
};

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_SIMULATE_FLAGS_H_
