#include <string>

#include "cli/client/server_commands.h"
#include "cli/commands/commands.h"
#include "cli/common/engine_flags.h"
#include "engines/llama/stored_text.h"

namespace attndb::cli {
namespace {

class CatCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add({"context", "CONTEXT", "Name, or #id", /*required=*/true}, &context_);
    flags->Add({"--special", "", "Control tokens, too, those of the chat template"}, &special_);
    model_.AddTo(flags);
  }

  Result<ExitCode> Run(Environment* env) override {
    if (!env->server().empty()) return CatThroughServer(env, context_, special_);
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForReading());
    ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(context_));
    ATTNDB_ASSIGN_OR_RETURN(const llama::LlamaEngine engine, model_.OpenFor(env, info));
    ATTNDB_ASSIGN_OR_RETURN(const llama::StoredText stored,
                            llama::TextOf(engine, db, context_, special_));
    env->PrintJson(
        {{"context", context_}, {"num_tokens", stored.num_tokens}, {"text", stored.text}});
    env->Print(stored.text);
    return ExitCode::kOk;
  }

 private:
  std::string context_;
  bool special_ = false;
  ModelFlags model_;
};

}  // namespace

std::unique_ptr<Command> MakeCat() { return std::make_unique<CatCommand>(); }

}  // namespace attndb::cli
