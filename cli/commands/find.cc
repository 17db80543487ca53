#include <cstdint>
#include <string>
#include <vector>

#include "cli/client/server_commands.h"
#include "cli/commands/commands.h"
#include "cli/common/engine_flags.h"
#include "cli/common/found_text.h"
#include "cli/common/library.h"
#include "cli/common/progress.h"
#include "cli/common/text_input.h"
#include "engines/llama/find_question.h"
#include "engines/llama/found_passages.h"

namespace attndb::cli {
namespace {

using llama::LlamaEngine;

class FindCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add({"question", "TEXT", "What is looked for (default: stdin)"}, &question_);
    flags->Add({"-c,--context", "CONTEXT", "Look through this one only; may be repeated"},
               &options_.contexts);
    flags->Add({"-n,--limit", "N", "Passages to show (default: 10)"}, &options_.limit, 1U, 10'000U);
    flags->Add({"--passage-tokens", "N", "Tokens of a passage, an even number (default: 64)"},
               &options_.passage_tokens, 2U, FindOptions::kMaxPassageTokens);
    model_.AddTo(flags);
  }

  Result<ExitCode> Run(Environment* env) override {
    ATTNDB_ASSIGN_OR_RETURN(const std::string question,
                            QuestionOrStdin(question_, env->IsGiven("question")));
    if (!env->server().empty()) return FindThroughServer(env, question, options_);
    // Reading only: looking for something in a context is not using it.
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForReading());
    ATTNDB_ASSIGN_OR_RETURN(LlamaEngine engine, OpenModelFor(env, model_, db, options_.contexts));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<FindHead> heads, FindingHeads(env, &engine));

    FindTimes times;
    const double start_seconds = MonotonicSeconds();
    ATTNDB_ASSIGN_OR_RETURN(const llama::FindQuestion asked,
                            llama::FindQuestion::Run(&engine, db, question, heads));
    times.question_ms = (MonotonicSeconds() - start_seconds) * 1e3;
    ATTNDB_ASSIGN_OR_RETURN(FindResult found, db.Find(engine.spec(), asked.query(), options_));
    times.find_ms = (MonotonicSeconds() - start_seconds) * 1e3 - times.question_ms;
    NoteSkipped(env, found);
    if (found.num_contexts == 0) return NothingToLookThrough(env);
    llama::DropPassagesWithoutScore(&found);
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                            llama::PassageTexts(engine, db, found));
    env->PrintJson(ToJson(found, texts, times));
    PrintFound(env, found, texts, times);
    return ExitCode::kOk;
  }

 private:
  std::string question_;
  FindOptions options_;
  ModelFlags model_;
};

}  // namespace

std::unique_ptr<Command> MakeFind() { return std::make_unique<FindCommand>(); }

}  // namespace attndb::cli
