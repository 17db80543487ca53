// Database: sessions that begin with stored tokens.
#include <algorithm>

#include "api/database.h"
#include "session/view_check.h"

namespace attndb::internal {
namespace {

// Stored cuts were checked when they were made, but an equal model may describe its RoPE in other
// words.
Status TakeCuts(std::vector<Cut> cuts, SessionSeed* seed) {
  if (cuts.empty()) return Status::Ok();
  ATTNDB_ASSIGN_OR_RETURN(seed->turns, TurnTables::Of(seed->spec));
  seed->cuts = std::move(cuts);
  return Status::Ok();
}

}  // namespace

Status CheckPrompt(std::span<const TokenId> tokens) {
  if (tokens.empty())
    return Status::InvalidArgument("the prompt is empty; expected 1 or more tokens");
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0) {
      return Status::InvalidArgument("token " + std::to_string(i) + " of the prompt has id " +
                                     std::to_string(tokens[i]) + ", expected 0 or more");
    }
  }
  return Status::Ok();
}

Result<SessionSeed> Database::SeedOf(const std::string& tenant, const ModelSpec& spec,
                                     const SessionOptions& options) {
  ATTNDB_RETURN_IF_ERROR(spec.Validate());
  ATTNDB_RETURN_IF_ERROR(CheckFirstPosition(options.first_position));
  SessionSeed seed;
  seed.host = shared_from_this();
  seed.tenant = tenant;
  seed.spec = Resolve(spec);
  seed.shape = std::make_shared<const storage::KvShape>(store::ShapeOf(spec));
  seed.chain.first_position = options.first_position;
  ATTNDB_ASSIGN_OR_RETURN(
      seed.plan,
      planner::Plan::Parse(options.plan.empty() ? options_.plan : options.plan, plans()));
  ATTNDB_RETURN_IF_ERROR(seed.plan.CheckLayers(spec.num_layers()));
  return seed;
}

Result<std::unique_ptr<SessionImpl>> Database::OpenSession(const std::string& tenant,
                                                           const ModelSpec& spec,
                                                           std::span<const TokenId> tokens,
                                                           uint64_t max_reuse,
                                                           const SessionOptions& options) {
  ATTNDB_RETURN_IF_ERROR(CheckPrompt(tokens));
  ATTNDB_ASSIGN_OR_RETURN(SessionSeed seed, SeedOf(tenant, spec, options));
  store::CountsOfTenant* const counts = store_->counts()->Of(tenant);
  counts->num_lookups.Add(1);
  counts->num_prompt_tokens.Add(tokens.size());
  const std::span<const TokenId> reusable = tokens.first(std::min(tokens.size(), max_reuse));
  ATTNDB_ASSIGN_OR_RETURN(store::Prefix prefix,
                          store_->lookup()->OpenPrefix(tenant, seed.spec, reusable, options));
  counts->num_reused_tokens.Add(prefix.chain.tokens.size());
  // A session's own chain is kept in any case. Holding the context would also keep the rest of it,
  // so only a session that reuses the whole context holds it.
  seed.chain.held = {prefix.context, prefix.number, std::move(prefix.chain.entries),
                     prefix.is_whole ? store_->uses()->Hold(prefix.context) : nullptr};
  seed.chain.tokens = std::move(prefix.chain.tokens);
  ATTNDB_RETURN_IF_ERROR(TakeCuts(std::move(prefix.cuts), &seed));
  return std::make_unique<SessionImpl>(std::move(seed));
}

Result<std::unique_ptr<SessionImpl>> Database::OpenWhole(const std::string& tenant,
                                                         std::string_view context) {
  ATTNDB_ASSIGN_OR_RETURN(const store::StoredText text, store_->lookup()->TextOf(tenant, context));
  SessionOptions options;
  options.context = store::NumberLabel(text.record.number);
  options.first_position = text.record.first_position;
  return OpenSession(tenant, text.spec, text.tokens, text.tokens.size(), options);
}

Result<PrefixExplain> Database::ExplainPrefix(const std::string& tenant, const ModelSpec& spec,
                                              std::span<const TokenId> tokens,
                                              const SessionOptions& options) const {
  ATTNDB_RETURN_IF_ERROR(spec.Validate());
  ATTNDB_RETURN_IF_ERROR(CheckPrompt(tokens));
  ATTNDB_RETURN_IF_ERROR(CheckFirstPosition(options.first_position));
  return store_->lookup()->ExplainPrefix(tenant, Resolve(spec), tokens, options);
}

}  // namespace attndb::internal
