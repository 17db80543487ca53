#include <string>
#include <vector>

#include "attndb/context_name.h"
#include "cli/client/server_commands.h"
#include "cli/commands/commands.h"
#include "cli/common/context_text.h"
#include "cli/common/engine_flags.h"
#include "cli/common/interrupt.h"
#include "cli/common/plan_flag.h"
#include "cli/common/text_input.h"
#include "cli/common/trained_length.h"
#include "engines/llama/prompt_layout.h"

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
    flags->Add({"--verbose", "", "What each layer and each head does, as tables"}, &verbose_);
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
    if (!env->server().empty()) return AskServer(env, has_prompt);
    ATTNDB_ASSIGN_OR_RETURN(const std::string text, TextOfPrompt());
    // Reading only: looking at a context is not using it.
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForReading());
    return has_prompt ? ExplainPrompt(env, db, text) : ExplainPlan(env, db);
  }

 private:
  Result<ExitCode> AskServer(Environment* env, bool has_prompt) const {
    ServerExplain asked = {.context = context_, .plan = plan_.text(), .system = system_};
    asked.raw = raw_;
    asked.verbose = verbose_;
    if (has_prompt) {
      ATTNDB_ASSIGN_OR_RETURN(asked.text, TextOfPrompt());
    }
    return ExplainThroughServer(env, asked);
  }

  Result<std::string> TextOfPrompt() const {
    const InterruptScope interrupt;
    return file_.empty() ? prompt_ : ReadText(file_);
  }

  // A signal ends the tokenization; all later work is fast.
  Result<std::vector<TokenId>> TokensOf(Environment* env, const LlamaEngine& engine,
                                        const std::string& text) const {
    const InterruptScope interrupt;
    ATTNDB_ASSIGN_OR_RETURN(llama::PromptText prompt, DocumentText(engine, raw_, system_, text,
                                                                   TextLimits(env, engine.info())));
    return std::move(prompt.tokens);
  }

  Result<ExitCode> ExplainPlan(Environment* env, const DB& db) const {
    ATTNDB_ASSIGN_OR_RETURN(const LlamaEngine engine, OpenEngine(env, db));
    // One look at the name: the store's writer may give it to another context.
    ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(context_));
    SessionOptions how;
    how.context = IdName(info.id);
    ATTNDB_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, db.Tokens(how.context));
    tokens.push_back(0);  // The token that the engine would run.
    how.plan = plan_.text();
    const Result<SessionStart> start = db.CreateSession(engine.spec(), tokens, how);
    if (!start.ok()) return start.status();
    const Explain explain = start->session.Explain();
    if (env->json()) env->PrintJson(ReadOwnJson(explain.ToJson()));
    env->Print(verbose_ ? explain.ToText() : explain.Summary());
    return ExitCode::kOk;
  }

  Result<LlamaEngine> OpenEngine(Environment* env, const DB& db) const {
    if (context_.empty()) return model_.Open(env, DType::kFloat16);
    ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(context_));
    return model_.OpenFor(env, info);
  }

  Result<ExitCode> ExplainPrompt(Environment* env, const DB& db, const std::string& text) const {
    ATTNDB_ASSIGN_OR_RETURN(const LlamaEngine engine, OpenEngine(env, db));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, TokensOf(env, engine, text));
    // The rest was not counted. Nothing of such a length can be stored.
    if (tokens.size() > MostCounted(engine.info())) {
      return CheckTrainedLength(env, engine.info(), engine.options().rope_scaling, "the prompt",
                                tokens.size());
    }
    SessionOptions how;
    how.context = context_;
    ATTNDB_ASSIGN_OR_RETURN(const PrefixExplain explain,
                            db.ExplainPrefix(engine.spec(), tokens, how));
    if (env->json()) env->PrintJson(ReadOwnJson(explain.ToJson()));
    env->Print(explain.ToText());
    return ExitCode::kOk;
  }

  std::string context_;
  PlanFlag plan_;
  std::string prompt_;
  std::string file_;
  std::string system_;
  bool raw_ = false;
  bool verbose_ = false;
  ModelFlags model_;
};

}  // namespace

std::unique_ptr<Command> MakeExplain() { return std::make_unique<ExplainCommand>(); }

}  // namespace attndb::cli
