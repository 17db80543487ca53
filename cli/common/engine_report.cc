#include "cli/common/engine_report.h"

#include <filesystem>

#include "engines/llama/model_file.h"

namespace attndb::cli {

EngineReport FindEngine() {
  EngineReport report;
  report.name = "llama.cpp";
  report.system = "linked";
  for (const char* const name : {"smollm2"}) {
    const Result<std::string> path = llama::ResolveModel(name);
    if (!path.ok()) {
      report.problems.push_back(path.status().message());
      continue;
    }
    std::error_code ignored;
    report.models.push_back({name, *path, std::filesystem::file_size(*path, ignored)});
  }
  return report;
}

}  // namespace attndb::cli
