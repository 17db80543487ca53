// The commands that need a model, in a build without llama.cpp: they say so.
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/common/context_capture.h"
#include "cli/common/document_import.h"
#include "cli/common/engine_report.h"
#include "engines/llama/source_tree.h"

namespace attndb::cli {
namespace {

// By this program's installation: with sources, or without.
std::string HowToGetOne() {
  return llama::HowToBuildLlama(llama::HasSources(llama::ProjectFolders()));
}

Status NoEngine(Environment* env) {
  return env->WithAdvice(Status::Unsupported("this build has no engine to run a model with"),
                         HowToGetOne());
}

class NoEngineCommand : public Command {
 public:
  void AddFlags(Flags* flags) override { flags->AcceptAnything(); }
  Result<ExitCode> Run(Environment* env) override { return NoEngine(env); }
};

class NoDocumentImport : public DocumentImport {
 public:
  void AddFlags(Flags* flags) override { flags->AcceptAnything(); }
  Result<ExitCode> Run(Environment* env, const std::vector<std::string>&,
                       const ImportTarget&) override {
    return NoEngine(env);
  }
};

class NoContextCapture : public ContextCapture {
 public:
  void AddFlags(Flags* flags) override { flags->AcceptAnything(); }
  Status Run(Environment* env, const std::string&, uint64_t, const std::string&) override {
    return NoEngine(env);
  }
};

}  // namespace

std::unique_ptr<ContextCapture> MakeContextCapture() {
  return std::make_unique<NoContextCapture>();
}
std::unique_ptr<DocumentImport> MakeDocumentImport() {
  return std::make_unique<NoDocumentImport>();
}
std::unique_ptr<Command> MakeAppend() { return std::make_unique<NoEngineCommand>(); }
std::unique_ptr<Command> MakeCat() { return std::make_unique<NoEngineCommand>(); }
std::unique_ptr<Command> MakeAsk() { return std::make_unique<NoEngineCommand>(); }
std::unique_ptr<Command> MakeChat() { return std::make_unique<NoEngineCommand>(); }
std::unique_ptr<Command> MakeFind() { return std::make_unique<NoEngineCommand>(); }
std::unique_ptr<Command> MakeCapture() { return std::make_unique<NoEngineCommand>(); }
std::unique_ptr<Command> MakeServe() { return std::make_unique<NoEngineCommand>(); }
std::unique_ptr<Command> MakeExplain() { return std::make_unique<NoEngineCommand>(); }

EngineReport FindEngine() {
  EngineReport report;
  report.name = "none";
  report.system = "built without llama.cpp";
  report.problems = {"no model can be run: " + HowToGetOne()};
  return report;
}

}  // namespace attndb::cli
