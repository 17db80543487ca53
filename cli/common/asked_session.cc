#include "cli/common/asked_session.h"

#include <utility>

#include "cli/common/trained_length.h"
#include "engines/llama/prompt_layout.h"
#include "engines/llama/window.h"

namespace attndb::cli {
namespace {

using llama::LlamaEngine;
using llama::PromptLayout;
using llama::PromptText;
using llama::StoredContext;

Result<AskedSession> OverOne(Environment* env, const LlamaEngine& engine, const DB& db,
                             const std::string& context, const Asked& asked) {
  ATTNDB_ASSIGN_OR_RETURN(const StoredContext stored, asked.is_whole
                                                          ? OpenWholeContext(engine, db, context)
                                                          : OpenContext(engine, db, context));
  ATTNDB_ASSIGN_OR_RETURN(PromptText prompt, QuestionBehind(engine, stored, asked.question,
                                                            /*keeps_before=*/asked.is_whole,
                                                            TextLimits(env, engine.info())));
  ATTNDB_ASSIGN_OR_RETURN(const auto window,
                          asked.overflow.WindowOf(engine, prompt.text, prompt.tokens));
  const SessionOptions how = {.context = context, .plan = asked.plan};
  Result<SessionStart> start =
      asked.is_whole ? db.CreateSession(engine.spec(), prompt.tokens, how)
                     : llama::CreateSessionIn(window, db, engine.spec(), prompt.tokens, how);
  if (!start.ok()) return start.status();
  return AskedSession{std::move(start->session), std::move(start->rest), std::move(prompt.tokens),
                      window};
}

// The last of the contexts. All have its layout, because the question ends the text that each has
// begun.
Result<StoredContext> LastOfAlike(const LlamaEngine& engine, const DB& db,
                                  const std::vector<std::string>& contexts) {
  PromptLayout common = PromptLayout::kRaw;
  StoredContext stored;
  for (const std::string& context : contexts) {
    ATTNDB_ASSIGN_OR_RETURN(stored, OpenContext(engine, db, context));
    const PromptLayout layout = stored.layout;
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
  return stored;
}

Result<AskedSession> OverSeveral(Environment* env, const LlamaEngine& engine, const DB& db,
                                 const std::vector<std::string>& contexts, const Asked& asked) {
  ATTNDB_ASSIGN_OR_RETURN(Session session,
                          db.CreateSessionOver(engine.spec(), contexts, {.plan = asked.plan}));
  ATTNDB_ASSIGN_OR_RETURN(const StoredContext last, LastOfAlike(engine, db, contexts));
  // The session holds all of them, so that none of their tokens may change.
  ATTNDB_ASSIGN_OR_RETURN(const PromptText prompt,
                          QuestionBehind(engine, last, asked.question, /*keeps_before=*/true,
                                         TextLimits(env, engine.info())));
  ATTNDB_ASSIGN_OR_RETURN(const auto window, asked.overflow.WindowOf(engine, {}, {}));
  const auto begin = prompt.tokens.begin() + static_cast<std::ptrdiff_t>(last.tokens.size());
  return AskedSession{std::move(session), {begin, prompt.tokens.end()}, {}, window};
}

}  // namespace

Result<AskedSession> StartAsking(Environment* env, const LlamaEngine& engine, const DB& db,
                                 const std::vector<std::string>& contexts, const Asked& asked) {
  if (contexts.size() == 1) return OverOne(env, engine, db, contexts.front(), asked);
  return OverSeveral(env, engine, db, contexts, asked);
}

}  // namespace attndb::cli
