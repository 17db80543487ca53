#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/client/server_commands.h"
#include "cli/commands/commands.h"
#include "cli/common/answer.h"
#include "cli/common/asked_session.h"
#include "cli/common/check_text.h"
#include "cli/common/context_text.h"
#include "cli/common/engine_flags.h"
#include "cli/common/interrupt.h"
#include "cli/common/library.h"
#include "cli/common/overflow_flags.h"
#include "cli/common/plan_flag.h"
#include "cli/common/prefill_cost.h"
#include "cli/common/progress.h"
#include "cli/common/text_input.h"
#include "cli/common/thread_text.h"
#include "cli/common/trained_length.h"
#include "cli/common/units.h"
#include "engines/llama/token_ranges.h"

namespace attndb::cli {
namespace {

using llama::LlamaEngine;

// The generated tokens as the check wants them: with the end-of-generation token, if that is how it
// ended, so that an answer which is only cut short is found out too.
Result<std::vector<TokenId>> TokensToCheck(const LlamaEngine& engine,
                                           const llama::Generation& generation) {
  std::vector<TokenId> tokens = generation.tokens;
  if (generation.finish != llama::FinishReason::kEnd) return tokens;
  ATTNDB_ASSIGN_OR_RETURN(const std::span<const float> logits, engine.Logits());
  const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
  tokens.push_back(static_cast<TokenId>(best));
  return tokens;
}

class AskCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add({"question", "TEXT", "The question (default: stdin)"}, &question_);
    flags->Add(
        {"-c,--context", "CONTEXT",
         "Name, or #id, of the context to ask; repeated: of several, which are all attended to"},
        &contexts_);
    flags->Add({"--find", "N",
                "Ask the N contexts that 'attndb find' finds best, among those of --context if "
                "there are some"},
               &find_, 1U, uint32_t{DB::kMaxSessionContexts});
    plan_.AddTo(flags);
    flags->Add({"--tokens", "LIST",
                "Attend to these of its tokens alone, and to its first 4, as in 0-800,1200-1500: "
                "800 and 1500 are not among them (default: all)"},
               &tokens_);
    flags->Add({"--explain", "", "Show what was read of the context, and what it cost"}, &explain_);
    flags->Add({"--verbose", "", "With --explain: layer by layer, and head by head"}, &verbose_);
    flags->Add(
        {"--check", "", "Compare with plain llama.cpp, which reads the whole prompt once (slow)"},
        &check_);
    model_.AddTo(flags);
    sampler_.AddTo(flags);
    overflow_.AddTo(flags);
  }

  Result<ExitCode> Run(Environment* env) override {
    if (check_ && !sampler_.greedy()) {
      return Status::InvalidArgument("--check compares greedy answers: leave --temp out");
    }
    if (check_ && !tokens_.empty()) {
      return Status::InvalidArgument(
          "--check compares answers from all tokens: leave --tokens out");
    }
    ATTNDB_RETURN_IF_ERROR(CheckContexts());
    ATTNDB_RETURN_IF_ERROR(overflow_.Check());
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenRange> ranges, llama::ParseTokenRanges(tokens_));
    ATTNDB_ASSIGN_OR_RETURN(const std::string question,
                            QuestionOrStdin(question_, env->IsGiven("question")));
    if (!env->server().empty()) return AskServer(env, question);
    const InterruptScope interrupt;
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForUse());
    ATTNDB_ASSIGN_OR_RETURN(LlamaEngine engine, OpenModelFor(env, model_, db, contexts_));
    ATTNDB_RETURN_IF_ERROR(CheckQuestion(env, engine, question));
    std::vector<std::string> contexts = contexts_;
    if (find_ > 0) {
      ATTNDB_ASSIGN_OR_RETURN(contexts, BestContexts(env, &engine, db, question, contexts_, find_));
    }

    // Before the answer: names may go meanwhile.
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesOf(db, contexts));
    const double start_seconds = MonotonicSeconds();
    Result<AskedSession> start = StartAsking(env, engine, db, contexts,
                                             {question, plan_.text(), overflow_, !ranges.empty()});
    if (!start.ok()) return start.status();
    ATTNDB_RETURN_IF_ERROR(start->session.SetFilter(llama::WithFirstTokens(ranges)));
    const double lookup_ms = (MonotonicSeconds() - start_seconds) * 1e3;
    ATTNDB_ASSIGN_OR_RETURN(const Answer answer, AnswerIn(env, &engine, &*start, lookup_ms));
    const Explain explain = start->session.Explain();
    env->Note(ToText(answer.stats));
    if (explain_) {
      env->Note(verbose_ ? explain.ToText() : explain.Summary());
      env->Note(ToText(engine.threads()));
    }
    std::optional<AnswerCheck> check;
    if (check_ && !Interrupted()) {
      ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                              TokensToCheck(engine, answer.generation));
      ATTNDB_ASSIGN_OR_RETURN(check, CheckAnswer(env, engine, start->prompt, tokens));
      env->Note(CheckText(engine, *check, answer.stats, plan_.text()));
    }
    ReportJson(env, names, explain, answer, check, engine.threads());
    if (Interrupted()) return ExitCode::kInterrupted;
    return check && !WithinSpread(check->report) ? ExitCode::kCheckDiffers : ExitCode::kOk;
  }

 private:
  Result<ExitCode> AskServer(Environment* env, const std::string& question) const {
    ServerQuestion asked = {.contexts = contexts_,
                            .find = find_,
                            .question = question,
                            .plan = plan_.text(),
                            .fields = sampler_.ToRequest()};
    asked.fields["overflow"] = overflow_.what();
    if (!tokens_.empty()) asked.fields["tokens"] = tokens_;
    return AskThroughServer(env, asked);
  }

  Status CheckContexts() const {
    if (contexts_.empty() && find_ == 0) {
      return Status::InvalidArgument("no context to ask: give --context, or --find");
    }
    if (contexts_.size() < 2 && find_ == 0) return Status::Ok();
    if (!tokens_.empty()) {
      return Status::InvalidArgument("--tokens is of one context: give --context once, alone");
    }
    if (check_) {
      return Status::InvalidArgument(
          "--check runs the prompt of one context: give --context once, alone");
    }
    return Status::Ok();
  }

  // Announces the duration of the check before the user waits for it.
  static Status AnnounceCheck(Environment* env, LlamaEngine* engine,
                              const std::vector<TokenId>& prompt) {
    ATTNDB_ASSIGN_OR_RETURN(const PrefillCost cost, MeasurePrefill(engine, prompt));
    env->Note(CheckNotice(prompt.size(), cost));
    return Status::Ok();
  }

  Result<Answer> AnswerIn(Environment* env, LlamaEngine* engine, AskedSession* asked,
                          double lookup_ms) const {
    llama::GenerateOptions options = sampler_.ToOptions();
    options.prefill.window = asked->window;
    const llama::WindowOptions& window = asked->window;
    Session& session = asked->session;
    if (check_ && session.num_dropped() > 0) {
      return Status::InvalidArgument("--check runs the whole prompt, but " +
                                     FormatCount(session.num_dropped()) +
                                     " of the context's tokens have left it: leave --check out");
    }
    ATTNDB_RETURN_IF_ERROR(overflow_.CheckFits(env, window, session, asked->rest.size(),
                                               options.max_tokens, /*always=*/check_));
    if (check_) ATTNDB_RETURN_IF_ERROR(AnnounceCheck(env, engine, asked->prompt));
    const size_t num_cuts = session.cuts().size();
    ATTNDB_ASSIGN_OR_RETURN(Answer answer,
                            Generate(env, engine, &session, asked->rest, options, lookup_ms));
    NoteDropped(env, window, session, num_cuts, &answer.stats);
    return answer;
  }

  static Result<std::vector<std::string>> NamesOf(const DB& db,
                                                  const std::vector<std::string>& contexts) {
    std::vector<std::string> names;
    for (const std::string& context : contexts) {
      ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(context));
      names.push_back(NameOf(info));
    }
    return names;
  }

  void ReportJson(Environment* env, const std::vector<std::string>& names, const Explain& explain,
                  const Answer& answer, const std::optional<AnswerCheck>& check,
                  const llama::ThreadReport& threads) const {
    Json json = JsonObject({{"context", names.front()},
                            {"contexts", names},
                            {"answer", answer.generation.text},
                            {"finish", llama::FinishReasonName(answer.generation.finish)},
                            {"plan", explain.plan}});
    json.update(ToJson(answer.stats));
    if (explain_) {
      json["explain"] = ReadOwnJson(explain.ToJson());
      json["threads"] = ToJson(threads);
    }
    if (check) json["check"] = ToJson(*check, answer.stats);
    env->PrintJson(json);
  }

  std::string question_;
  std::vector<std::string> contexts_;
  uint32_t find_ = 0;
  PlanFlag plan_;
  std::string tokens_;
  bool explain_ = false;
  bool verbose_ = false;
  bool check_ = false;
  ModelFlags model_;
  SamplerFlags sampler_;
  OverflowFlags overflow_;
};

}  // namespace

std::unique_ptr<Command> MakeAsk() { return std::make_unique<AskCommand>(); }

}  // namespace attndb::cli
