#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/common/context_text.h"
#include "cli/common/engine_flags.h"
#include "cli/common/plan_flag.h"
#include "cli/common/prompt_layout.h"
#include "cli/common/text_input.h"

namespace attndb::cli {
namespace {

using llama::LlamaEngine;

class ExplainCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add({"context", "CONTEXT",
                "Name, or #id. Alone: how it would be attended to. With a prompt: whether the "
                "prompt would reuse it"},
               &context_);
    plan_.AddTo(flags);
    flags->Add({"--prompt", "TEXT", "Explain what of this text is stored"}, &prompt_);
    flags->Add({"--file", "FILE", "Explain what of this file (or -, stdin) is stored"}, &file_);
    flags->Add({"--system", "TEXT", "System message that the document was imported with"},
               &system_);
    flags->Add({"--raw", "", "The prompt is text alone, without the model's chat template"}, &raw_);
    model_.AddTo(flags);
  }

  Result<ExitCode> Run(Environment* env) override {
    const bool has_prompt = !prompt_.empty() || !file_.empty();
    if (!has_prompt && context_.empty()) {
      return Status::InvalidArgument("nothing to explain: name a CONTEXT, --prompt or --file");
    }
    if (!prompt_.empty() && !file_.empty()) {
      return Status::InvalidArgument("--prompt and --file exclude each other");
    }
    // Reading only: looking at a context is not using it.
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForReading());
    return has_prompt ? ExplainPrompt(env, db) : ExplainPlan(env, db);
  }

 private:
  Result<ExitCode> ExplainPlan(Environment* env, const DB& db) const {
    ATTNDB_ASSIGN_OR_RETURN(const LlamaEngine engine, OpenEngine(env, db));
    ATTNDB_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, db.Tokens(context_));
    tokens.push_back(0);  // The token that the engine would run.
    SessionOptions how;
    how.context = context_;
    how.plan = plan_.text();
    const Result<SessionStart> start = db.CreateSession(engine.spec(), tokens, how);
    if (!start.ok()) return WithModelAdvice(env, start.status());
    const Explain explain = start->session.Explain();
    if (env->json()) env->PrintJson(Json::parse(explain.ToJson()));
    env->Print(explain.ToText());
    return ExitCode::kOk;
  }

  Result<LlamaEngine> OpenEngine(Environment* env, const DB& db) const {
    if (context_.empty()) return model_.Open(env, DType::kFloat16);
    ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(context_));
    return model_.OpenFor(env, info);
  }

  Result<ExitCode> ExplainPrompt(Environment* env, const DB& db) const {
    std::string text = prompt_;
    if (!file_.empty()) {
      ATTNDB_ASSIGN_OR_RETURN(text, ReadText(file_));
    }
    ATTNDB_ASSIGN_OR_RETURN(const LlamaEngine engine, OpenEngine(env, db));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                            DocumentTokens(engine, raw_, system_, text));
    SessionOptions how;
    how.context = context_;
    ATTNDB_ASSIGN_OR_RETURN(const PrefixExplain explain,
                            db.ExplainPrefix(engine.spec(), tokens, how));
    if (env->json()) env->PrintJson(Json::parse(explain.ToJson()));
    env->Print(explain.ToText());
    return ExitCode::kOk;
  }

  std::string context_;
  PlanFlag plan_;
  std::string prompt_;
  std::string file_;
  std::string system_;
  bool raw_ = false;
  ModelFlags model_;
};

}  // namespace

std::unique_ptr<Command> MakeExplain() { return std::make_unique<ExplainCommand>(); }

}  // namespace attndb::cli
