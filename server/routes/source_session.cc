#include "server/routes/source_session.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "attndb/units.h"
#include "engines/llama/prompt_layout.h"
#include "engines/llama/token_ranges.h"
#include "engines/llama/window.h"

namespace attndb::server {
namespace {

using llama::PromptLayout;

const std::string kUserRole = "user";

Result<llama::StoredContext> Open(const Service& service, const DB& db,
                                  const std::string& context) {
  return llama::OpenContext(*service.engine, db, context);
}

// The contexts in their order, which all have the layout of the first one: the question ends each
// of them in one way.
Result<std::vector<llama::StoredContext>> OpenAlike(const Service& service, const DB& db,
                                                    std::span<const std::string> contexts) {
  std::vector<llama::StoredContext> opened;
  for (const std::string& context : contexts) {
    ATTNDB_ASSIGN_OR_RETURN(llama::StoredContext stored, Open(service, db, context));
    if (stored.layout == PromptLayout::kDialogue) {
      return Status::InvalidArgument("context '" + context +
                                     "' is a dialogue, expected documents where there are several");
    }
    opened.push_back(std::move(stored));
    const PromptLayout common = opened.front().layout;
    if (opened.back().layout == common) continue;
    return Status::InvalidArgument("context '" + context + "' is stored as " +
                                   std::string(PromptLayoutName(opened.back().layout)) +
                                   ", expected " + std::string(PromptLayoutName(common)) +
                                   ", as '" + contexts.front() +
                                   "': a question ends both in one way");
  }
  return opened;
}

// The tokens that a session over several contexts holds: those that contexts share stand once.
std::vector<TokenId> TokensOver(const Session& session,
                                std::span<const llama::StoredContext> opened) {
  std::vector<TokenId> tokens;
  for (size_t i = 0; i < session.contexts().size(); ++i) {
    const SessionContext& own = session.contexts()[i];
    const auto begin = opened[i].tokens.begin() + static_cast<std::ptrdiff_t>(own.first_token);
    std::copy_n(begin, own.tokens.end - own.tokens.begin, std::back_inserter(tokens));
  }
  return tokens;
}

// The tokens behind a context, none of whose own may change. Those of a completion's prompt are
// given.
Result<std::vector<TokenId>> TokensBehind(const llama::LlamaEngine& engine,
                                          const llama::StoredContext& stored,
                                          const TextRequest& asked,
                                          const llama::TokenizeLimits& limits) {
  if (!asked.prompt_tokens.empty()) return asked.prompt_tokens;  // They are checked.
  ATTNDB_ASSIGN_OR_RETURN(const llama::PromptParts parts,
                          PartsBehind(engine, stored.layout, asked, stored.text.rendered_at));
  ATTNDB_ASSIGN_OR_RETURN(
      const llama::JoinedText joined,
      engine.Join(stored.tokens, parts, {.keeps_before = true, .limits = limits}));
  return std::vector<TokenId>(
      joined.tokens.begin() + static_cast<std::ptrdiff_t>(stored.tokens.size()),
      joined.tokens.end());
}

Result<SourceSession> OverSeveral(const Service& service, const DB& db, const TextRequest& asked,
                                  const std::string& plan, const llama::TokenizeLimits& limits) {
  const llama::LlamaEngine& engine = *service.engine;
  const std::vector<std::string>& contexts = asked.sources.contexts;
  ATTNDB_ASSIGN_OR_RETURN(const auto opened, OpenAlike(service, db, contexts));
  SessionOptions how;
  how.plan = plan;
  ATTNDB_ASSIGN_OR_RETURN(Session session, db.CreateSessionOver(engine.spec(), contexts, how));
  ATTNDB_ASSIGN_OR_RETURN(std::vector<TokenId> rest,
                          TokensBehind(engine, opened.back(), asked, limits));
  Prompt prompt;
  prompt.tokens = TokensOver(session, opened);
  return SourceSession{std::move(session), std::move(rest), std::move(prompt)};
}

// The K and V of tokens behind a cut are not those of the whole text.
Status CheckWhole(const DB& db, const std::string& context) {
  ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(context));
  if (info.num_dropped == 0) return Status::Ok();
  return Status::FailedPrecondition("'" + context + "' has lost " +
                                    Counted(info.num_dropped, "token") +
                                    ": 'tokens' takes contexts that have all of their tokens");
}

Result<SourceSession> OverSome(const Service& service, const DB& db, const TextRequest& asked,
                               const std::string& plan, const llama::TokenizeLimits& limits) {
  const llama::LlamaEngine& engine = *service.engine;
  ATTNDB_ASSIGN_OR_RETURN(const llama::StoredContext stored, Open(service, db, asked.context));
  ATTNDB_RETURN_IF_ERROR(CheckWhole(db, asked.context));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> behind,
                          TokensBehind(engine, stored, asked, limits));
  std::vector<TokenId> tokens = stored.tokens;
  tokens.insert(tokens.end(), behind.begin(), behind.end());
  SessionOptions how;
  how.context = asked.context;
  how.plan = plan;
  ATTNDB_ASSIGN_OR_RETURN(SessionStart start, db.CreateSession(engine.spec(), tokens, how));
  ATTNDB_RETURN_IF_ERROR(start.session.SetFilter(llama::WithFirstTokens(asked.sources.tokens))
                             .WithContext("'tokens'"));
  Prompt prompt;
  prompt.tokens.assign(tokens.begin(),
                       tokens.begin() + static_cast<std::ptrdiff_t>(start.session.num_tokens()));
  return SourceSession{std::move(start.session), std::move(start.rest), std::move(prompt)};
}

// No token can leave such a session: all of them have to fit.
Status CheckFits(const Service& service, const TextRequest& asked, const SourceSession& own) {
  const uint64_t window = WindowTokens(service);
  const uint64_t num_prompt = llama::TokensOfWindow(own.session) + own.rest.size();
  if (window == 0 || num_prompt + asked.max_tokens.value_or(1) <= window) return Status::Ok();
  return Status::InvalidArgument("the prompt has " + Counted(num_prompt, "token") +
                                 ", and with its answer does not fit the window of " +
                                 Counted(window, "token") + ": no token leaves it here");
}

}  // namespace

Result<llama::PromptParts> PartsBehind(const llama::LlamaEngine& engine, PromptLayout layout,
                                       const TextRequest& asked, int64_t now) {
  if (asked.messages.empty()) return llama::PromptParts{{"", asked.prompt}};
  const std::span<const llama::ChatMessage> messages = asked.messages;
  if (messages.front().role != kUserRole) {
    return Status::InvalidArgument("messages[0] is of the " + messages.front().role +
                                   ", expected a question of the user: contexts have their own "
                                   "beginning");
  }
  if (asked.chat.continues_last) {
    return Status::InvalidArgument("'continue_final_message' does not go with several contexts");
  }
  if (!asked.chat.tools.empty()) {
    return Status::InvalidArgument("'tools' stand in front of contexts, which are stored without");
  }
  if (layout == PromptLayout::kRaw) {
    if (messages.size() == 1) return llama::PromptParts{{"", messages.front().content}};
    return Status::InvalidArgument("a bare text takes one message, not " +
                                   std::to_string(messages.size()));
  }
  if (layout == PromptLayout::kDialogue) {
    if (messages.size() == 1) return engine.NextTurnParts(messages.front().content, now);
    return Status::InvalidArgument("a dialogue of which some tokens are asked takes one message");
  }
  ATTNDB_ASSIGN_OR_RETURN(llama::PromptParts parts,
                          engine.QuestionParts(messages.front().content, now));
  if (messages.size() == 1) return parts;
  // Behind the first question, as in any conversation.
  parts.resize(1);
  ATTNDB_ASSIGN_OR_RETURN(const llama::PromptParts others,
                          engine.ConversationParts(messages, 1, now));
  parts.insert(parts.end(), others.begin(), others.end());
  return parts;
}

Result<SourceSession> OpenSourceSession(const Service& service, const std::string& tenant,
                                        const TextRequest& asked, const std::string& plan,
                                        const llama::TokenizeLimits& limits) {
  ATTNDB_ASSIGN_OR_RETURN(const DB db, service.conversations->HandleOf(tenant));
  if (!asked.prompt_tokens.empty()) {
    ATTNDB_RETURN_IF_ERROR(service.prompts->OfTokens(tenant, "", asked.prompt_tokens).status());
  }
  const bool has_several = !asked.sources.contexts.empty();
  ATTNDB_ASSIGN_OR_RETURN(SourceSession own, has_several
                                                 ? OverSeveral(service, db, asked, plan, limits)
                                                 : OverSome(service, db, asked, plan, limits));
  ATTNDB_RETURN_IF_ERROR(CheckFits(service, asked, own));
  if (!asked.messages.empty() && service.engine->KnowsChatTemplate()) {
    // The messages alone: replies are read alike behind a context.
    ATTNDB_ASSIGN_OR_RETURN(llama::RenderedPrompt rendered,
                            service.engine->Render(asked.messages, asked.chat));
    own.prompt.form = std::move(rendered.form);
  }
  own.prompt.tokens.insert(own.prompt.tokens.end(), own.rest.begin(), own.rest.end());
  own.prompt.num_last = own.rest.size();
  return own;
}

}  // namespace attndb::server
