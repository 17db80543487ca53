// The flags of `attndb serve`. The command shows them in its help and reports mistakes in them.
// attndb-server, which the command starts, uses their values.
//
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_SERVE_FLAGS_H_
#define ATTNDB_CLI_COMMON_SERVE_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cli/common/engine_flags.h"
#include "cli/flags.h"
#include "server/server.h"

namespace attndb::cli {

struct ServeFlags {
  void AddTo(Flags* flags);

  server::ServerOptions options;  // Options that a flag sets directly.
  uint32_t port = 8080;
  uint32_t num_sessions = 16;
  uint32_t ttl_minutes = 0;  // 0 = never.
  uint32_t drain_seconds = 30;
  bool fixed_plan = false;
  std::string api_key;  // Empty also where it is not given.
  std::string edits = "exact";
  std::string log;             // Empty: not given.
  std::string memory;          // Empty: not given.
  std::string quota;           // Empty: not given.
  std::string chat_variables;  // A JSON object. Empty: not given.
  std::vector<std::string> prompt_files;
  ModelFlags model;

 private:
  void AddListener(Flags* flags);
  void AddRequests(Flags* flags);
  void AddLimits(Flags* flags);
};

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_SERVE_FLAGS_H_
