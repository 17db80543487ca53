// What there is to run models with: the engine that this build has, and the models that it finds.
//
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_ENGINE_REPORT_H_
#define ATTNDB_CLI_COMMON_ENGINE_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace attndb::cli {

struct FoundModel {
  std::string name;  // What --model takes.
  std::string path;
  uint64_t file_bytes = 0;
};

struct EngineReport {
  std::string name;    // "llama.cpp", or "none".
  std::string system;  // What it says about itself.
  std::vector<FoundModel> models;
  std::vector<std::string> problems;
};

EngineReport FindEngine();

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_ENGINE_REPORT_H_
