#include "server/routes/explain_stored.h"

#include <cmath>
#include <utility>
#include <vector>

#include "attndb/context_name.h"
#include "attndb/units.h"
#include "engines/llama/prompt_layout.h"
#include "server/routes/explain_request.h"

namespace attndb::server {
namespace {

Json Milliseconds(double seconds) {
  constexpr double kDigits = 1e6;
  return seconds > 0 ? Json(std::round(seconds * kDigits) / kDigits * 1e3) : Json();
}

// Looking at a context is not using it.
Result<std::vector<TokenId>> PromptOf(const Service& service, const Call& call,
                                      const ExplainTextRequest& request) {
  const std::string& tenant = call.rules.tenant;
  if (request.prompt_of.empty()) {
    const uint64_t most = service.engine->info().max_context;  // As of what is imported.
    const llama::TokenizeLimits limits = LimitsFor(service, call, most);
    ATTNDB_ASSIGN_OR_RETURN(
        llama::PromptText document,
        llama::DocumentText(*service.engine, request.raw, request.system, request.text, limits));
    const bool is_long = request.text.size() > limits.piece_bytes;
    if (!is_long || document.tokens.size() <= limits.max_tokens) return std::move(document.tokens);
    return Status::InvalidArgument("the text has " + CountedTokens(call, document.tokens.size()) +
                                   ", expected at most " + FormatCount(most));
  }
  if (const auto unstored = service.conversations->UnstoredText(tenant, request.prompt_of)) {
    return unstored->tokens;
  }
  ATTNDB_ASSIGN_OR_RETURN(const DB db, service.conversations->HandleOf(tenant));
  return db.Tokens(request.prompt_of);
}

}  // namespace

Json JsonOf(const ReusePrice& price) {
  return {{"way", NameOf(price.way)},
          {"tokens", price.num_tokens},
          {"bytes", price.num_bytes},
          {"read_ms", Milliseconds(price.read_seconds)},
          {"run_ms", Milliseconds(price.run_seconds)}};
}

Result<Json> ExplainContext(const Service& service, const Call& call, const Json& body) {
  ATTNDB_ASSIGN_OR_RETURN(const TextRequest request, ParseExplainContext(body));
  ATTNDB_ASSIGN_OR_RETURN(const DB db, service.conversations->HandleOf(call.rules.tenant));
  // One look at the name: another context may have it by the next.
  ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(request.context));
  SessionOptions how;
  how.context = IdName(info.id);
  ATTNDB_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, db.Tokens(how.context));
  tokens.push_back(0);  // The token that the engine would run.
  how.plan = request.plan.empty() ? service.options.plan : request.plan;
  ATTNDB_ASSIGN_OR_RETURN(const SessionStart start,
                          db.CreateSession(service.engine->spec(), tokens, how));
  const Explain explain = start.session.Explain();
  return Json{{"explain", ReadOwnJson(explain.ToJson())},
              {"reuse", JsonOf(service.conversations->PriceOf(start.session))},
              {"report", explain.Summary()},
              {"tables", explain.ToText()}};
}

Result<Json> ExplainText(const Service& service, const Call& call, const Json& body) {
  ATTNDB_ASSIGN_OR_RETURN(ExplainTextRequest request, ParseExplainText(body));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, PromptOf(service, call, request));
  SessionOptions how;
  how.context = std::move(request.context);
  ATTNDB_ASSIGN_OR_RETURN(const DB db, service.conversations->HandleOf(call.rules.tenant));
  ATTNDB_ASSIGN_OR_RETURN(const PrefixExplain explain,
                          db.ExplainPrefix(service.engine->spec(), tokens, how));
  return Json{{"prefix", ReadOwnJson(explain.ToJson())}, {"report", explain.ToText()}};
}

}  // namespace attndb::server
