// The means to run models: the engine of this build, and the models that it finds.
//
// Threads: one thread at a time, and only while the process has no other thread: it forks.
#ifndef ATTNDB_CLI_COMMON_ENGINE_REPORT_H_
#define ATTNDB_CLI_COMMON_ENGINE_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace attndb::cli {

struct FoundModel {
  std::string name;  // The value for --model.
  std::string path;
  uint64_t file_bytes = 0;
  // Whether its chat template can be applied: "known", "unknown", "none", or "" if the file
  // can't be read.
  std::string chat_template;
};

// A forward of a tiny model on the engine, in a process of its own.
struct ForwardReport {
  bool ok = false;
  std::string signal;   // "SIGILL" if the signal killed it, else "".
  std::string problem;  // The observed problem; "" if ok.
  std::string advice;   // Advice for the user; "" if ok.
  double seconds = 0;
};

struct EngineReport {
  std::string name;                           // "llama.cpp", or "none".
  std::string system;                         // The engine's description of itself.
  std::vector<std::string> instruction_sets;  // Instruction sets that llama.cpp was compiled for.
  std::optional<ForwardReport> forward;       // Empty without an engine.
  std::string chat_program;  // The program that the engine starts for chat templates; empty: none.
  std::vector<FoundModel> models;
  std::vector<std::string> problems;
};

EngineReport FindEngine();

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_ENGINE_REPORT_H_
