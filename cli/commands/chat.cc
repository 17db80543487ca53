#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/common/answer.h"
#include "cli/common/context_text.h"
#include "cli/common/engine_flags.h"
#include "cli/common/interrupt.h"
#include "cli/common/overflow_flags.h"
#include "cli/common/plan_flag.h"
#include "cli/common/progress.h"
#include "cli/common/prompt_layout.h"
#include "cli/common/text_input.h"

namespace attndb::cli {
namespace {

using llama::LlamaEngine;

// A dialogue on top of a stored context. After each turn the store has all of it under its name.
class Dialogue {
 public:
  struct Options {
    std::string name;
    std::string plan;
    llama::GenerateOptions generate;
    OverflowFlags overflow;
    StoreOptions store;  // What the name's context has: its time to live, its pin.
  };

  // `tokens` are those of context `base`, which the dialogue goes on from.
  Dialogue(Environment* env, const DB* db, LlamaEngine* engine, Options options)
      : env_(env), db_(db), engine_(engine), options_(std::move(options)) {
    options_.store.name = options_.name;
    options_.store.replace = true;
  }

  Status Start(const std::string& base) {
    base_ = base;
    ATTNDB_ASSIGN_OR_RETURN(tokens_, db_->Tokens(base));
    ATTNDB_ASSIGN_OR_RETURN(layout_, LayoutOf(*engine_, tokens_));
    ATTNDB_ASSIGN_OR_RETURN(options_.generate.prefill.window,
                            options_.overflow.WindowOf(*engine_, tokens_));
    return Status();
  }

  PromptLayout layout() const { return layout_; }

  // One question, its answer, and both stored. Errors: kCancelled: nothing of the turn is kept.
  Result<Answer> Turn(const std::string& question) {
    ATTNDB_ASSIGN_OR_RETURN(const auto turn, QuestionTokens(*engine_, layout_, question));
    std::vector<TokenId> rest = turn;
    const double start_seconds = MonotonicSeconds();
    if (!session_) {
      std::vector<TokenId> prompt = tokens_;
      prompt.insert(prompt.end(), turn.begin(), turn.end());
      SessionOptions how;
      how.context = base_;
      how.plan = options_.plan;
      ATTNDB_ASSIGN_OR_RETURN(SessionStart start, db_->CreateSession(engine_->spec(), prompt, how));
      session_.emplace(std::move(start.session));
      rest = std::move(start.rest);
    }
    const double lookup_ms = (MonotonicSeconds() - start_seconds) * 1e3;
    const llama::WindowOptions& window = options_.generate.prefill.window;
    ATTNDB_RETURN_IF_ERROR(options_.overflow.CheckFits(env_, window, *session_, rest.size(),
                                                       options_.generate.max_tokens));
    const size_t num_cuts = session_->cuts().size();
    ATTNDB_ASSIGN_OR_RETURN(
        Answer answer, Generate(env_, engine_, &*session_, rest, options_.generate, lookup_ms));
    ATTNDB_RETURN_IF_ERROR(Keep(turn, answer.generation));
    NoteDropped(env_, window, *session_, num_cuts, &answer.stats);
    return answer;
  }

 private:
  Status Keep(const std::vector<TokenId>& turn, const llama::Generation& generation) {
    if (generation.num_in_session < generation.tokens.size()) {
      ATTNDB_RETURN_IF_ERROR(
          engine_->Decode(*session_, generation.tokens.back(), options_.generate.prefill.window));
    }
    tokens_.insert(tokens_.end(), turn.begin(), turn.end());
    tokens_.insert(tokens_.end(), generation.tokens.begin(), generation.tokens.end());
    if (layout_ == PromptLayout::kDocument) layout_ = PromptLayout::kDialogue;
    return db_->Store(*session_, tokens_, options_.store).status();
  }

  Environment* const env_;
  const DB* const db_;
  LlamaEngine* const engine_;
  Options options_;
  std::string base_;
  std::vector<TokenId> tokens_;  // All that the store has of the dialogue.
  PromptLayout layout_ = PromptLayout::kRaw;
  std::optional<Session> session_;
};

class ChatCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add({"-c,--context", "CONTEXT", "Name, or #id, of the context to talk about"},
               &context_);
    flags->Add(
        {"-n,--name", "NAME",
         "Name that the dialogue is stored under (default: CONTEXT.chat); if it is there, it "
         "goes on"},
        &name_);
    plan_.AddTo(flags);
    model_.AddTo(flags);
    sampler_.AddTo(flags);
    overflow_.AddTo(flags);
  }

  Result<ExitCode> Run(Environment* env) override {
    if (context_.empty() && name_.empty()) {
      return Status::InvalidArgument("nothing to talk about: name a --context, or a chat's --name");
    }
    ATTNDB_RETURN_IF_ERROR(overflow_.Check());
    const InterruptScope interrupt;
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForWriting(false, DBOptions()));
    const std::string name = name_.empty() ? DefaultName() : name_;
    ATTNDB_ASSIGN_OR_RETURN(const std::optional<ContextInfo> earlier, Find(db, name));
    if (!earlier && context_.empty()) return db.Describe(name).status();
    ATTNDB_ASSIGN_OR_RETURN(const ContextInfo base,
                            earlier ? Result<ContextInfo>(*earlier) : db.Describe(context_));
    ATTNDB_ASSIGN_OR_RETURN(LlamaEngine engine, model_.OpenFor(env, base));
    Dialogue::Options options;
    options.name = name;
    options.plan = plan_.text();
    options.generate = sampler_.ToOptions();
    options.overflow = overflow_;
    if (earlier) {
      options.store.pin = earlier->pinned;
      if (earlier->ttl_seconds) options.store.ttl = std::chrono::seconds(*earlier->ttl_seconds);
    }
    Dialogue dialogue(env, &db, &engine, std::move(options));
    ATTNDB_RETURN_IF_ERROR(dialogue.Start(NameOf(base)));
    if (earlier) ATTNDB_RETURN_IF_ERROR(CheckIsChat(env, name, dialogue.layout()));
    if (earlier) env->Note("goes on with '" + name + "'");
    return Talk(env, name, &dialogue);
  }

 private:
  // "manual" and "manual.chat" -> "manual.chat".
  std::string DefaultName() const {
    constexpr std::string_view kSuffix = ".chat";
    if (context_.ends_with(kSuffix)) return context_;
    return context_.substr(context_.starts_with('#') ? 1 : 0) + std::string(kSuffix);
  }

  // A turn replaces what the name stands for: never a document. Raw text can be either; then the
  // names decide.
  Status CheckIsChat(Environment* env, const std::string& name, PromptLayout layout) const {
    const bool raw_chat = layout == PromptLayout::kRaw && name != context_;
    if (layout == PromptLayout::kDialogue || raw_chat) return Status();
    return env->WithAdvice(
        Status::InvalidArgument("'" + name +
                                "' is a document, which a chat of that name would "
                                "replace"),
        "choose another --name");
  }

  static Result<std::optional<ContextInfo>> Find(const DB& db, const std::string& name) {
    Result<ContextInfo> found = db.Describe(name);
    if (found.ok()) return std::optional(*std::move(found));
    if (found.status().code() == StatusCode::kNotFound) return std::optional<ContextInfo>();
    return found.status();
  }

  static Result<ExitCode> Talk(Environment* env, const std::string& name, Dialogue* dialogue) {
    const bool interactive = IsTerminal(stdin) && !env->json();
    if (interactive) env->Note("Ask; Ctrl-D ends. Each turn is stored as '" + name + "'.");
    Json turns = Json::array();
    Status status;
    while (!Interrupted()) {
      if (interactive) std::fputs("> ", stderr);
      const Result<std::string> question = ReadLine(stdin);
      if (!question.ok()) {
        if (question.status().code() != StatusCode::kNotFound) status = question.status();
        break;
      }
      if (question->find_first_not_of(" \t") == std::string::npos) continue;
      const Result<Answer> answer = dialogue->Turn(*question);
      if (!answer.ok()) {
        status = WithModelAdvice(env, answer.status());
        break;
      }
      env->Note(ToText(answer->stats));
      Json turn = {{"question", *question}, {"answer", answer->generation.text}};
      turn.update(ToJson(answer->stats));
      turns.push_back(std::move(turn));
    }
    if (interactive) std::fputc('\n', stderr);
    if (!status.ok() && status.code() != StatusCode::kCancelled) return status;
    env->PrintJson({{"name", name}, {"turns", std::move(turns)}, {"interrupted", Interrupted()}});
    return Interrupted() ? ExitCode::kInterrupted : ExitCode::kOk;
  }

  std::string context_;
  std::string name_;
  PlanFlag plan_;
  ModelFlags model_;
  SamplerFlags sampler_;
  OverflowFlags overflow_;
};

}  // namespace

std::unique_ptr<Command> MakeChat() { return std::make_unique<ChatCommand>(); }

}  // namespace attndb::cli
