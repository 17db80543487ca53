#include "server/routes/explain_stored.h"

#include <cmath>
#include <utility>
#include <vector>

#include "engines/llama/prompt_layout.h"
#include "server/routes/explain_request.h"

namespace attndb::server {
namespace {

Json Milliseconds(double seconds) {
  constexpr double kDigits = 1e6;
  return seconds > 0 ? Json(std::round(seconds * kDigits) / kDigits * 1e3) : Json();
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
  ATTNDB_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, db.Tokens(request.context));
  tokens.push_back(0);  // The token that the engine would run.
  SessionOptions how;
  how.context = request.context;
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
  SessionOptions how;
  how.context = std::move(request.context);
  ATTNDB_ASSIGN_OR_RETURN(const DB db, service.conversations->HandleOf(call.rules.tenant));
  ATTNDB_ASSIGN_OR_RETURN(
      const std::vector<TokenId> tokens,
      llama::DocumentTokens(*service.engine, request.raw, request.system, request.text));
  ATTNDB_ASSIGN_OR_RETURN(const PrefixExplain explain,
                          db.ExplainPrefix(service.engine->spec(), tokens, how));
  return Json{{"prefix", ReadOwnJson(explain.ToJson())}, {"report", explain.ToText()}};
}

}  // namespace attndb::server
