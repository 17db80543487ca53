// The commands that need a model, in a build without llama.cpp: they say so.
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/common/document_import.h"
#include "cli/common/engine_report.h"

namespace attndb::cli {
namespace {

constexpr const char* kHowToGetOne =
    "in attndb's sources, run scripts/setup.sh (or name an installed llama.cpp in "
    "CMAKE_PREFIX_PATH), then `pip install .` or CMake with -DATTNDB_BUILD_LLAMA=ON";

Status NoEngine(Environment* env) {
  return env->WithAdvice(Status::Unsupported("this build has no engine to run a model with"),
                         kHowToGetOne);
}

class NoEngineCommand : public Command {
 public:
  void AddFlags(Flags* flags) override { flags->AcceptAnything(); }
  Result<ExitCode> Run(Environment* env) override { return NoEngine(env); }
};

class NoDocumentImport : public DocumentImport {
 public:
  void AddFlags(Flags* flags) override { flags->AcceptAnything(); }
  Result<ExitCode> Run(Environment* env, const std::string&, ImportTarget*) override {
    return NoEngine(env);
  }
};

}  // namespace

std::unique_ptr<DocumentImport> MakeDocumentImport() {
  return std::make_unique<NoDocumentImport>();
}
std::unique_ptr<Command> MakeAsk() { return std::make_unique<NoEngineCommand>(); }
std::unique_ptr<Command> MakeChat() { return std::make_unique<NoEngineCommand>(); }
std::unique_ptr<Command> MakeCapture() { return std::make_unique<NoEngineCommand>(); }
std::unique_ptr<Command> MakeExplain() { return std::make_unique<NoEngineCommand>(); }

EngineReport FindEngine() {
  EngineReport report;
  report.name = "none";
  report.system = "built without llama.cpp";
  report.problems = {std::string("no model can be run: ") + kHowToGetOne};
  return report;
}

}  // namespace attndb::cli
