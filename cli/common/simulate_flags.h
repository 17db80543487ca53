// The flags of `attndb simulate`. The command shows them in its help and reports mistakes in them.
// attndb-simulate, which the command starts, uses their values.
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

  SimulateOptions options_;  // Options that a flag sets directly.
  std::string memory_;       // Empty: not given.
  std::string disk_;         // Empty: not given.
  double disk_speed_ = 5;
  std::vector<std::string> policies_;
};

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_SIMULATE_FLAGS_H_
