#include "cli/common/engine_report.h"

#include <filesystem>

#include "cli/common/temp_dir.h"
#include "engines/llama/chat/chat_renderer.h"
#include "engines/llama/chat_template.h"
#include "engines/llama/model_file.h"
#include "engines/llama/model_places.h"
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

// Models that --model takes by a name.
void AddModels(EngineReport* report) {
  const auto add = [report](const std::string& name, const std::string& path) {
    std::error_code ignored;
    report->models.push_back(
        {name, path, std::filesystem::file_size(path, ignored), llama::TemplateOfFile(path)});
  };
  const Result<std::string> known = llama::ResolveModel("smollm2");
  if (known.ok()) add("smollm2", *known);
  for (const llama::NamedModel& model : llama::FindModels(llama::ModelPlaces::FromEnvironment())) {
    std::error_code ignored;
    if (known.ok() && std::filesystem::equivalent(*known, model.path, ignored)) continue;
    add(model.name, model.path);
  }
  if (report->models.empty()) report->problems.push_back(known.status().message());
}

}  // namespace

EngineReport FindEngine() {
  EngineReport report;
  report.name = "llama.cpp";
  report.system = "linked";
  TryForward(&report);
  report.chat_program = llama::FindChatProgram();
  AddModels(&report);
  return report;
}

}  // namespace attndb::cli
