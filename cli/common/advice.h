// Advice on a failure, for the user: the second half of "attndb: <failure>; <advice>".
//
// One table has all advice, by the kind of failure. A kind is a status code, words that its message
// always has, and the place of the failure. A failure without a kind gets no advice: its message
// alone is better than unfitting advice. docs/cli.md shows the table.
//
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_ADVICE_H_
#define ATTNDB_CLI_COMMON_ADVICE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "attndb/status.h"

namespace attndb::cli {

// The place of a command's failure.
struct FailureScene {
  std::string command;          // "verify"; empty if none was found.
  std::string store_path;       // The command's store; empty with a server.
  bool through_server = false;  // Whether the command asked a server.
};

enum class AdvicePlace : uint8_t {
  kAnywhere,
  kServer,     // The command asked a server.
  kStorePath,  // The message names a file of the store, or its folder.
  kVerify,     // The command is verify.
};

struct AdviceEntry {
  const char* kind;  // The failure, for people: "a port that is taken".
  StatusCode code;
  const char* words;  // The message has them; "" for any message.
  AdvicePlace place;
  const char* advice;  // Empty where the message says all.
};

// The first entry that fits counts.
std::span<const AdviceEntry> AdviceTable();

// A clause; empty where only the message can help.
std::string_view AdviceFor(const Status& status, const FailureScene& scene);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_ADVICE_H_
