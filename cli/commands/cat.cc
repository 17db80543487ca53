#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/common/engine_flags.h"

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
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForReading());
    ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(context_));
    ATTNDB_ASSIGN_OR_RETURN(const llama::LlamaEngine engine, model_.OpenFor(env, info));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, db.Tokens(context_));
    if (engine.spec().fingerprint != info.fingerprint) {
      // The store refuses it by name, and says whose it is.
      SessionOptions named;
      named.context = context_;
      ATTNDB_RETURN_IF_ERROR(db.CreateSession(engine.spec(), tokens, named).status());
    }
    ATTNDB_ASSIGN_OR_RETURN(const std::string text, engine.Detokenize(tokens, special_));
    env->PrintJson({{"context", context_}, {"num_tokens", tokens.size()}, {"text", text}});
    env->Print(text);
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
