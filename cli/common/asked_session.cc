#include "cli/common/asked_session.h"

#include <utility>

#include "engines/llama/prompt_layout.h"
#include "engines/llama/window.h"

namespace attndb::cli {
namespace {

using llama::LlamaEngine;
using llama::PromptLayout;

Result<AskedSession> OverOne(const LlamaEngine& engine, const DB& db, const std::string& context,
                             const Asked& asked) {
  ATTNDB_ASSIGN_OR_RETURN(std::vector<TokenId> prompt, db.Tokens(context));
  ATTNDB_ASSIGN_OR_RETURN(const PromptLayout layout, LayoutOf(engine, prompt));
  ATTNDB_ASSIGN_OR_RETURN(const auto suffix, QuestionTokens(engine, layout, asked.question));
  prompt.insert(prompt.end(), suffix.begin(), suffix.end());
  ATTNDB_ASSIGN_OR_RETURN(const auto window, asked.overflow.WindowOf(engine, prompt));
  const SessionOptions how = {.context = context, .plan = asked.plan};
  Result<SessionStart> start = asked.is_whole
                                   ? db.CreateSession(engine.spec(), prompt, how)
                                   : llama::CreateSessionIn(window, db, engine.spec(), prompt, how);
  if (!start.ok()) return start.status();
  return AskedSession{std::move(start->session), std::move(start->rest), std::move(prompt), window};
}

// The layout of all of them: the question ends what each of them began.
Result<PromptLayout> CommonLayout(const LlamaEngine& engine, const DB& db,
                                  const std::vector<std::string>& contexts) {
  PromptLayout common = PromptLayout::kRaw;
  for (const std::string& context : contexts) {
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, db.Tokens(context));
    ATTNDB_ASSIGN_OR_RETURN(const PromptLayout layout, LayoutOf(engine, tokens));
    if (layout == PromptLayout::kDialogue) {
      return Status::InvalidArgument("context '" + context +
                                     "' is a dialogue, expected documents where there are several");
    }
    if (context == contexts.front()) common = layout;
    if (layout != common) {
      return Status::InvalidArgument("context '" + context + "' is stored as " +
                                     std::string(PromptLayoutName(layout)) + ", expected " +
                                     std::string(PromptLayoutName(common)) + ", as '" +
                                     contexts.front() + "': a question ends both in one way");
    }
  }
  return common;
}

Result<AskedSession> OverSeveral(const LlamaEngine& engine, const DB& db,
                                 const std::vector<std::string>& contexts, const Asked& asked) {
  ATTNDB_ASSIGN_OR_RETURN(Session session,
                          db.CreateSessionOver(engine.spec(), contexts, {.plan = asked.plan}));
  ATTNDB_ASSIGN_OR_RETURN(const PromptLayout layout, CommonLayout(engine, db, contexts));
  ATTNDB_ASSIGN_OR_RETURN(std::vector<TokenId> rest,
                          QuestionTokens(engine, layout, asked.question));
  ATTNDB_ASSIGN_OR_RETURN(const auto window, asked.overflow.WindowOf(engine, {}));
  return AskedSession{std::move(session), std::move(rest), {}, window};
}

}  // namespace

Result<AskedSession> StartAsking(const LlamaEngine& engine, const DB& db,
                                 const std::vector<std::string>& contexts, const Asked& asked) {
  if (contexts.size() == 1) return OverOne(engine, db, contexts.front(), asked);
  return OverSeveral(engine, db, contexts, asked);
}

}  // namespace attndb::cli
