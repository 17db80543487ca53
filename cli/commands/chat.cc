#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attndb/context_name.h"
#include "attndb/context_title.h"
#include "cli/client/server_commands.h"
#include "cli/commands/commands.h"
#include "cli/common/answer.h"
#include "cli/common/context_text.h"
#include "cli/common/contexts.h"
#include "cli/common/engine_flags.h"
#include "cli/common/evicted.h"
#include "cli/common/interrupt.h"
#include "cli/common/overflow_flags.h"
#include "cli/common/plan_flag.h"
#include "cli/common/talk.h"
#include "cli/common/trained_length.h"
#include "cli/common/units.h"
#include "engines/llama/prompt_layout.h"
#include "engines/llama/window.h"

namespace attndb::cli {
namespace {

using llama::LlamaEngine;
using llama::PromptLayout;

// A dialogue on top of a stored context. After each turn the store has all of it under its name.
class Dialogue {
 public:
  struct Options {
    std::string name;
    std::string plan;
    llama::GenerateOptions generate;
    OverflowFlags overflow;
    // The dialogue keeps the time to live, the pin, the title and the note of the name's context.
    StoreOptions store;
  };

  Dialogue(Environment* env, const DB* db, LlamaEngine* engine, Options options)
      : env_(env), db_(db), engine_(engine), options_(std::move(options)) {
    options_.store.name = options_.name;
    options_.store.replace = true;
  }

  Status Start(const std::string& base) {
    base_ = base;
    ATTNDB_ASSIGN_OR_RETURN(said_, OpenContext(*engine_, *db_, base));
    ATTNDB_ASSIGN_OR_RETURN(options_.generate.prefill.window,
                            options_.overflow.WindowOf(*engine_, said_.text, said_.tokens));
    return Status();
  }

  PromptLayout layout() const { return said_.layout; }
  const std::string& name() const { return options_.name; }
  const std::string& plan() const { return options_.plan; }

  // The subject of the dialogue, in one line.
  std::string About() const {
    return "'" + base_ + "', " + Counted(said_.tokens.size(), "token") +
           " with what was said; turns are "
           "stored as '" +
           options_.name + "'";
  }

  // Whether the dialogue begins with the text of this context.
  Result<bool> BeginsWith(const std::string& context) const {
    ATTNDB_ASSIGN_OR_RETURN(const llama::StoredContext first, OpenContext(*engine_, *db_, context));
    return BeginsWithText(*engine_, said_.tokens, first.tokens);
  }

  // Errors: kInvalidArgument: the plan is as it was.
  Status SetPlan(const std::string& plan) {
    if (session_) {
      ATTNDB_RETURN_IF_ERROR(session_->SetPlan(plan));
    } else {
      SessionOptions how;
      how.context = base_;
      how.plan = plan;
      ATTNDB_RETURN_IF_ERROR(db_->CreateSession(engine_->spec(), said_.tokens, how).status());
    }
    options_.plan = plan;
    return Status();
  }

  // One question, its answer, and both stored. Errors: kCancelled: nothing of the turn is kept.
  Result<Answer> Turn(const std::string& question) {
    ATTNDB_RETURN_IF_ERROR(CheckQuestion(env_, *engine_, question));
    ATTNDB_ASSIGN_OR_RETURN(const llama::PromptText prompt,
                            QuestionBehind(*engine_, said_, question, /*keeps_before=*/false,
                                           TextLimits(env_, engine_->info())));
    const double start_seconds = MonotonicSeconds();
    if (!session_) {
      SessionOptions how;
      how.context = base_;
      how.plan = options_.plan;
      ATTNDB_ASSIGN_OR_RETURN(SessionStart start,
                              llama::CreateSessionIn(options_.generate.prefill.window, *db_,
                                                     engine_->spec(), prompt.tokens, how));
      session_.emplace(std::move(start.session));
    }
    // The last tokens may be others where the text goes on; a turn that failed left fewer.
    if (session_->num_tokens() > prompt.num_kept) {
      ATTNDB_RETURN_IF_ERROR(llama::CropTo(prompt.num_kept, &*session_));
    }
    const auto rest = std::span(prompt.tokens).subspan(session_->num_tokens());
    const double lookup_ms = (MonotonicSeconds() - start_seconds) * 1e3;
    const llama::WindowOptions& window = options_.generate.prefill.window;
    ATTNDB_RETURN_IF_ERROR(options_.overflow.CheckFits(env_, window, *session_, rest.size(),
                                                       options_.generate.max_tokens));
    const size_t num_cuts = session_->cuts().size();
    ATTNDB_ASSIGN_OR_RETURN(
        Answer answer, Generate(env_, engine_, &*session_, rest, options_.generate, lookup_ms));
    ATTNDB_RETURN_IF_ERROR(Keep(question, prompt, answer.generation));
    NoteDropped(env_, window, *session_, num_cuts, &answer.stats);
    return answer;
  }

 private:
  Status Keep(const std::string& question, const llama::PromptText& prompt,
              const llama::Generation& generation) {
    if (generation.num_in_session < generation.tokens.size()) {
      ATTNDB_RETURN_IF_ERROR(
          engine_->Decode(*session_, generation.tokens.back(), options_.generate.prefill.window));
    }
    const uint64_t num_asked = prompt.tokens.size();
    said_.tokens = prompt.tokens;
    said_.tokens.insert(said_.tokens.end(), generation.tokens.begin(), generation.tokens.end());
    said_.text = prompt.text;
    llama::AddReply({num_asked, said_.tokens.size()}, &said_.text);
    if (said_.layout == PromptLayout::kDocument) said_.layout = PromptLayout::kDialogue;
    options_.store.text_layout = said_.text;
    if (options_.store.title.empty()) options_.store.title = TitleOfText(question);
    ATTNDB_RETURN_IF_ERROR(db_->Store(*session_, said_.tokens, options_.store).status());
    return NoteEvicted(env_, *db_, &num_evicted_).status();
  }

  Environment* const env_;
  const DB* const db_;
  LlamaEngine* const engine_;
  Options options_;
  std::string base_;
  llama::StoredContext said_;  // All that the store has of the dialogue.
  std::optional<Session> session_;
  uint64_t num_evicted_ = 0;
};

// A model of this process answers.
class LocalTalker final : public Talker {
 public:
  // Settings for all contexts of the dialogue.
  struct Settings {
    ModelFlags model;
    SamplerFlags sampler;
    OverflowFlags overflow;
    std::string plan;
  };

  // `db` is not owned and outlives this. Begin comes first.
  LocalTalker(Environment* env, const DB* db, Settings settings)
      : env_(env), db_(db), settings_(std::move(settings)), plan_(settings_.plan) {}

  // Goes on with the dialogue `name` if it is there, else begins it with `context`.
  Status Begin(const std::string& context, const std::string& name) {
    ATTNDB_ASSIGN_OR_RETURN(const std::optional<ContextInfo> earlier, IfThere(db_->Describe(name)));
    const Result<ContextInfo> subject = db_->Describe(context.empty() ? name : context);
    if (earlier && subject.status().code() == StatusCode::kNotFound) {
      return env_->WithAdvice(subject.status(), GoneContextAdvice(name));
    }
    ATTNDB_RETURN_IF_ERROR(subject.status());
    const ContextInfo base = earlier.value_or(*subject);
    ATTNDB_ASSIGN_OR_RETURN(std::unique_ptr<LlamaEngine> engine, EngineFor(base));
    LlamaEngine* const used = engine == nullptr ? engine_.get() : engine.get();
    Dialogue::Options options;
    options.name = name;
    options.plan = plan_;
    options.generate = settings_.sampler.ToOptions();
    options.overflow = settings_.overflow;
    if (earlier) {
      options.store.pin = earlier->pinned;
      options.store.title = earlier->title;
      ATTNDB_ASSIGN_OR_RETURN(options.store.note, db_->Note(IdName(earlier->id)));
      if (earlier->ttl_seconds) options.store.ttl = std::chrono::seconds(*earlier->ttl_seconds);
    }
    auto dialogue = std::make_unique<Dialogue>(env_, db_, used, std::move(options));
    ATTNDB_RETURN_IF_ERROR(dialogue->Start(NameOf(base)));
    if (earlier) ATTNDB_RETURN_IF_ERROR(CheckIsChat(context, name, dialogue->layout()));
    if (earlier) {
      ATTNDB_ASSIGN_OR_RETURN(const bool begins_so, dialogue->BeginsWith(IdName(subject->id)));
      env_->Note(GoesOnText(name, context, begins_so));
    }
    dialogue_ = std::move(dialogue);  // It refers to the engine that goes.
    if (engine != nullptr) engine_ = std::move(engine);
    base_ = base;
    return Status();
  }

  std::string name() const override { return dialogue_->name(); }
  std::string plan() const override { return plan_; }
  Result<std::string> About() override { return dialogue_->About(); }

  Result<Json> Answer(const std::string& question) override {
    const Result<attndb::cli::Answer> answer = dialogue_->Turn(question);
    if (!answer.ok()) return answer.status();
    env_->Note(ToText(answer->stats));
    Json turn = JsonObject({{"answer", answer->generation.text}});
    turn.update(ToJson(answer->stats));
    return turn;
  }

  Status SwitchTo(const std::string& context) override {
    return Begin(context, ChatNameOf(context));
  }

  Status SetPlan(const std::string& plan) override {
    ATTNDB_RETURN_IF_ERROR(dialogue_->SetPlan(plan));
    plan_ = plan;
    return Status();
  }

 private:
  // The engine that runs `context`; null: the one that is loaded does.
  Result<std::unique_ptr<LlamaEngine>> EngineFor(const ContextInfo& context) const {
    const bool is_loaded = engine_ != nullptr && context.fingerprint == base_.fingerprint &&
                           context.kv_dtype == base_.kv_dtype &&
                           context.unrotated_keys == base_.unrotated_keys &&
                           context.rope_scaling == base_.rope_scaling;
    if (is_loaded) return std::unique_ptr<LlamaEngine>();
    ATTNDB_ASSIGN_OR_RETURN(LlamaEngine engine, settings_.model.OpenFor(env_, context));
    return std::make_unique<LlamaEngine>(std::move(engine));
  }

  // A turn replaces the context with the name, which must never be a document. Raw text can be
  // either; then the names decide.
  Status CheckIsChat(const std::string& context, const std::string& name,
                     PromptLayout layout) const {
    const bool raw_chat = layout == PromptLayout::kRaw && name != context;
    if (layout == PromptLayout::kDialogue || raw_chat) return Status();
    return env_->WithAdvice(
        Status::InvalidArgument("'" + name +
                                "' is a document, which a chat of that name would "
                                "replace"),
        "choose another --name");
  }

  Environment* const env_;
  const DB* const db_;
  const Settings settings_;
  std::string plan_;
  ContextInfo base_;                     // The context that the engine was loaded for.
  std::unique_ptr<LlamaEngine> engine_;  // Outlives the dialogue.
  std::unique_ptr<Dialogue> dialogue_;
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
    settings_.model.AddTo(flags);
    settings_.sampler.AddTo(flags);
    settings_.overflow.AddTo(flags);
  }

  Result<ExitCode> Run(Environment* env) override {
    if (context_.empty() && name_.empty()) {
      return Status::InvalidArgument("nothing to talk about: name a --context, or a chat's --name");
    }
    ATTNDB_RETURN_IF_ERROR(settings_.overflow.Check());
    const std::string name = name_.empty() ? ChatNameOf(context_) : name_;
    if (!env->server().empty()) {
      ServerChat chat = {.context = context_, .name = name, .plan = plan_.text(), .fields = {}};
      chat.fields = settings_.sampler.ToRequest();
      chat.fields["overflow"] = settings_.overflow.what();
      return ChatThroughServer(env, chat);
    }
    const InterruptScope interrupt;
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForWriting(false, DBOptions()));
    settings_.plan = plan_.text();
    LocalTalker talker(env, &db, settings_);
    ATTNDB_RETURN_IF_ERROR(talker.Begin(context_, name));
    return Talk(env, &talker);
  }

 private:
  std::string context_;
  std::string name_;
  PlanFlag plan_;
  LocalTalker::Settings settings_;
};

}  // namespace

std::unique_ptr<Command> MakeChat() { return std::make_unique<ChatCommand>(); }

}  // namespace attndb::cli
