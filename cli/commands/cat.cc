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
    if (engine.spec().fingerprint != info.fingerprint) {
      const ModelSource made_by = {.name = info.model_name, .path = info.model_path};
      return Status::OtherModel("context '" + context_ + "' is of another model: made by " +
                                made_by.ToString() + ", asked by " +
                                engine.spec().source.ToString());
    }
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, db.Tokens(context_));
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
