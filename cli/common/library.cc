#include "cli/common/library.h"

#include <algorithm>
#include <optional>

#include "attndb/context_name.h"
#include "cli/common/interrupt.h"
#include "cli/common/temp_dir.h"
#include "engines/llama/find_heads.h"
#include "engines/llama/find_question.h"
#include "engines/llama/found_passages.h"

namespace attndb::cli {

using llama::LlamaEngine;
using llama::RankedHead;

Result<std::vector<FindHead>> FindingHeads(Environment* env, LlamaEngine* engine) {
  std::optional<TempDir> dir;
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<RankedHead> ranked,
                          llama::FindHeads(
                              engine,
                              [&]() -> Result<DB> {
                                env->Note(
                                    "finding out which heads of the model look things up; they "
                                    "are kept");
                                ATTNDB_ASSIGN_OR_RETURN(TempDir made, TempDir::Create(""));
                                dir.emplace(std::move(made));
                                DBOptions options = Environment::Brief();
                                options.query_sample = 0;
                                return DB::Open(dir->path() + "/store", options);
                              },
                              [] { return !Interrupted(); }));
  std::vector<FindHead> heads;
  for (const RankedHead& head : ranked) heads.push_back(head.head);
  return heads;
}

Result<LlamaEngine> OpenModelFor(Environment* env, const ModelFlags& model, const DB& db,
                                 std::span<const std::string> contexts) {
  if (!contexts.empty()) {
    ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(contexts.front()));
    return model.OpenFor(env, info);
  }
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ContextInfo> stored, db.List());
  if (!stored.empty()) return model.OpenLike(env, stored.front());
  return EmptyStore(env);
}

Status EmptyStore(Environment* env) {
  return env->WithAdvice(Status::NotFound("the store has no contexts"),
                         "'attndb import FILE' makes one");
}

void NoteSkipped(Environment* env, const FindResult& found) {
  for (const SkippedContext& skipped : found.skipped) {
    env->Note("skipped '" + skipped.context + "': " + skipped.reason);
  }
}

Status NothingToLookThrough(Environment* env) {
  return env->WithAdvice(Status::NotFound("no context of this model can be looked through"),
                         "--model names another; 'attndb ls' shows what there is");
}

Result<std::vector<std::string>> BestContexts(Environment* env, LlamaEngine* engine, const DB& db,
                                              std::string_view question,
                                              const std::vector<std::string>& among,
                                              uint32_t count) {
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<FindHead> heads, FindingHeads(env, engine));
  ATTNDB_ASSIGN_OR_RETURN(
      const llama::FindQuestion asked,
      llama::FindQuestion::Run(engine, db, question, heads, [] { return !Interrupted(); }));
  FindOptions options;
  options.limit = 10'000;  // Passages: far more than contexts are asked for.
  options.contexts = among;
  ATTNDB_ASSIGN_OR_RETURN(const FindResult found, db.Find(engine->spec(), asked.query(), options));
  NoteSkipped(env, found);
  std::vector<std::string> contexts = llama::ContextsOf(found.passages, count);
  if (contexts.empty()) return NothingToLookThrough(env);
  std::string names;
  for (const std::string& context : contexts) {
    const auto passage = std::ranges::find_if(
        found.passages, [&](const Passage& each) { return context == IdName(each.context_id); });
    names += (names.empty() ? "" : ", ") + passage->context;
  }
  env->Note("found in " + names + ", best first");
  return contexts;
}

}  // namespace attndb::cli
