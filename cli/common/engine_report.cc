#include "cli/common/engine_report.h"

#include <filesystem>

#include "cli/common/temp_dir.h"
#include "engines/llama/model_file.h"
#include "engines/llama/self_check.h"

namespace attndb::cli {

namespace {

void TryForward(EngineReport* report) {
  const Result<TempDir> folder = TempDir::Create("");
  if (!folder.ok()) {
    report->problems.push_back("no forward of a tiny model: " + folder.status().message());
    return;
  }
  const llama::SelfCheck check = llama::RunSelfCheck(folder->path());
  report->instruction_sets = check.instruction_sets;
  report->forward = {check.ok, check.signal, check.problem, check.advice, check.seconds};
  if (!check.ok) report->problems.push_back(check.problem + "; " + check.advice);
}

}  // namespace

EngineReport FindEngine() {
  EngineReport report;
  report.name = "llama.cpp";
  report.system = "linked";
  TryForward(&report);
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
