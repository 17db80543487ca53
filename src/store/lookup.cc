#include "store/lookup.h"

#include <algorithm>

#include "attndb/units.h"
#include "store/catalog/model_identity.h"
#include "store/catalog/prefix_index.h"
#include "store/catalog/ttl.h"
#include "store/prefix_reasons.h"
#include "store/spec_difference.h"

namespace attndb::store {
namespace {

// Why a context can't serve a spec although its name was given.
Status OtherModel(const ContextRecord& context, const ModelSpec& found, const ModelSpec& expected) {
  return Status::OtherModel("context '" + context.Label() +
                            "' is of another model: " + SpecDifference(found, expected));
}

}  // namespace

Result<PrefixMatch> Lookup::FindPrefix(const Tenant& tenant, const ModelSpec& spec,
                                       std::span<const TokenId> tokens,
                                       const SessionOptions& options) const {
  if (!options.reuse) return PrefixMatch();
  parts_.damage->Quarantine();
  if (options.context.empty()) {
    if (tokens.empty() || tenant.id == TenantId::kNone) return PrefixMatch();
    ATTNDB_ASSIGN_OR_RETURN(
        std::optional<PrefixMatch> match,
        parts_.catalog->prefixes()->Longest(
            {tenant.id, &spec, options.first_position, tokens, options.truncated}));
    return match ? *std::move(match) : PrefixMatch();
  }
  ATTNDB_ASSIGN_OR_RETURN(const ContextRecord context,
                          NamedContext(tenant, spec, options.context, options.first_position));
  ATTNDB_ASSIGN_OR_RETURN(PrefixMatch match,
                          parts_.catalog->contexts()->CommonPrefix(context.id, tokens));
  if (!options.truncated && !match.cuts.empty()) {
    match.num_tokens = match.cuts.front().at - 1;
    match.cuts.clear();
  }
  return match.num_tokens == 0 ? PrefixMatch() : match;
}

Result<ContextRecord> Lookup::NamedContext(const Tenant& tenant, const ModelSpec& spec,
                                           const std::string& name, int64_t first_position) const {
  ATTNDB_ASSIGN_OR_RETURN(const ContextRecord context,
                          parts_.catalog->contexts()->Find(tenant.id, name));
  if (IsExpired(context)) {
    return Status::NotFound("context '" + context.Label() + "' has expired");
  }
  ATTNDB_ASSIGN_OR_RETURN(ModelSpec found, parts_.catalog->owners()->GetModel(context.model));
  ATTNDB_ASSIGN_OR_RETURN(const bool same_model,
                          parts_.catalog->owners()->SameModel(context.tenant, context.model, spec));
  if (!same_model) {
    ATTNDB_ASSIGN_OR_RETURN(ModelSpec expected, DecodeModel(EncodeModel(spec).bytes));
    expected.source = spec.source;
    ATTNDB_ASSIGN_OR_RETURN(found.source,
                            parts_.catalog->owners()->SourceOf(context.tenant, context.model));
    return OtherModel(context, found, expected);
  }
  if (context.first_position != first_position) {
    return Status::FailedPrecondition("context '" + context.Label() + "' begins at position " +
                                      std::to_string(context.first_position) + ", expected " +
                                      std::to_string(first_position));
  }
  if (context.damaged) {
    return Status::Corruption("context '" + context.Label() +
                              "' is damaged (see describe); import its text again under this name");
  }
  return context;
}

bool Lookup::IsExpired(const ContextRecord& context) const {
  return store::IsExpired(context.pinned, context.ttl_seconds, context.last_access_us,
                          parts_.catalog->ExpiryNow());
}

Result<Chain> Lookup::OpenChain(const ContextRecord& context, std::span<const TokenId> tokens) {
  Chain chain;
  ATTNDB_ASSIGN_OR_RETURN(chain.entries, parts_.uses->OpenContext(context.id, tokens.size()));
  for (const storage::ChainEntry& entry : chain.entries) {
    const auto id = static_cast<SegmentId>(entry.segment->id());
    Result<std::vector<TokenId>> stored = entry.segment->ReadTokens(entry.num_tokens_used);
    if (!stored.ok()) {
      return parts_.damage->QuarantineIfDamaged(id, std::move(stored).status());
    }
    if (!std::ranges::equal(*stored, tokens.subspan(chain.tokens.size(), stored->size()))) {
      return Status::Corruption(storage::Describe({.segment_id = entry.segment->id()}) +
                                " holds other tokens than the catalog says");
    }
    chain.tokens.insert(chain.tokens.end(), stored->begin(), stored->end());
  }
  if (chain.tokens.size() != tokens.size()) {
    return Status::Corruption("context '" + context.Label() + "': its segments hold " +
                              Counted(chain.tokens.size(), "token") + ", expected " +
                              FormatCount(tokens.size()));
  }
  return chain;
}

Result<Prefix> Lookup::OpenMatch(TenantId tenant, const PrefixMatch& match,
                                 std::span<const TokenId> tokens) {
  Prefix prefix;
  if (match.context == ContextId::kNone) return prefix;
  ATTNDB_ASSIGN_OR_RETURN(const ContextRecord record,
                          parts_.catalog->contexts()->Get(tenant, match.context));
  prefix.context = record.id;
  prefix.number = record.number;
  prefix.cuts = match.cuts;
  ATTNDB_ASSIGN_OR_RETURN(prefix.chain, OpenChain(record, tokens.first(match.num_tokens)));
  prefix.is_whole = match.num_tokens + 1 >= record.num_tokens;
  return prefix;
}

Result<Prefix> Lookup::OpenPrefix(const std::string& tenant, const ModelSpec& spec,
                                  std::span<const TokenId> tokens, const SessionOptions& options) {
  ATTNDB_ASSIGN_OR_RETURN(Prefix prefix, PeekPrefix(tenant, spec, tokens, options));
  // The first tokens of a chat template are no use of the context that happens to have them.
  const bool is_used = prefix.is_whole || prefix.chain.tokens.size() >= kBlockTokens;
  if (is_used) parts_.catalog->contexts()->Touch(prefix.context);
  return prefix;
}

Result<Prefix> Lookup::PeekPrefix(const std::string& tenant, const ModelSpec& spec,
                                  std::span<const TokenId> tokens, const SessionOptions& options) {
  ATTNDB_ASSIGN_OR_RETURN(const Tenant owner, parts_.catalog->owners()->FindTenant(tenant));
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    ATTNDB_ASSIGN_OR_RETURN(const PrefixMatch match, FindPrefix(owner, spec, tokens, options));
    Result<Prefix> prefix = OpenMatch(owner.id, match, tokens);
    if (prefix.ok()) return prefix;
    // The found segments are damaged (and quarantined now), or were dropped between lookup and
    // opening: look for another prefix. A named context has no substitute. But a reader may have
    // seen it while the writer's process merged it, and a second look finds it whole.
    const StatusCode code = prefix.status().code();
    if (code != StatusCode::kCorruption && code != StatusCode::kNotFound) return prefix;
    const bool is_named = !options.context.empty();
    if (is_named && (!parts_.settings->options.read_only || attempt + 1 == kMaxAttempts))
      return prefix;
  }
  return Prefix();
}

Result<WholeContext> Lookup::TryOpenNamed(const Tenant& tenant, const ModelSpec& spec,
                                          const std::string& name, int64_t first_position) {
  WholeContext context;
  ATTNDB_ASSIGN_OR_RETURN(context.record, NamedContext(tenant, spec, name, first_position));
  ATTNDB_ASSIGN_OR_RETURN(History history,
                          parts_.catalog->contexts()->HistoryOf(context.record.id));
  ATTNDB_ASSIGN_OR_RETURN(context.chain, OpenChain(context.record, history.tokens));
  context.cuts = std::move(history.cuts);
  parts_.catalog->contexts()->Touch(context.record.id);
  return context;
}

// A reader may have seen a context while the writer's process merged it, and finds it whole when it
// looks again.
Result<WholeContext> Lookup::OpenNamed(const std::string& tenant, const ModelSpec& spec,
                                       const std::string& name, int64_t first_position) {
  parts_.damage->Quarantine();
  ATTNDB_ASSIGN_OR_RETURN(const Tenant owner, parts_.catalog->owners()->FindTenant(tenant));
  for (int attempt = 1; parts_.settings->options.read_only && attempt < kMaxAttempts; ++attempt) {
    Result<WholeContext> context = TryOpenNamed(owner, spec, name, first_position);
    if (context.ok()) return context;
  }
  return TryOpenNamed(owner, spec, name, first_position);
}

Result<StoredText> Lookup::TextOf(const std::string& tenant, std::string_view context) const {
  StoredText text;
  ATTNDB_ASSIGN_OR_RETURN(text.record, parts_.catalog->contexts()->Find(tenant, context));
  ATTNDB_ASSIGN_OR_RETURN(text.spec, parts_.catalog->owners()->GetModel(text.record.model));
  ATTNDB_ASSIGN_OR_RETURN(History history, parts_.catalog->contexts()->HistoryOf(text.record.id));
  text.tokens = std::move(history.tokens);
  text.cuts = std::move(history.cuts);
  return text;
}

Result<PrefixExplain> Lookup::ExplainPrefix(const std::string& tenant, const ModelSpec& spec,
                                            std::span<const TokenId> tokens,
                                            const SessionOptions& options) const {
  ATTNDB_ASSIGN_OR_RETURN(const Tenant owner, parts_.catalog->owners()->FindTenant(tenant));
  ATTNDB_ASSIGN_OR_RETURN(const PrefixMatch match, FindPrefix(owner, spec, tokens, options));
  PrefixReport report;
  if (owner.id != TenantId::kNone) {
    ATTNDB_ASSIGN_OR_RETURN(
        report, parts_.catalog->prefixes()->Explain(
                    {owner.id, &spec, options.first_position, tokens, options.truncated}));
  }
  PrefixExplain explain;
  explain.num_prompt_tokens = tokens.size();
  explain.num_reused = std::min<uint64_t>(match.num_tokens, tokens.size() - 1);
  if (match.context != ContextId::kNone) {
    ATTNDB_ASSIGN_OR_RETURN(const ContextRecord record,
                            parts_.catalog->contexts()->Get(owner.id, match.context));
    explain.context = record.Label();
  }
  explain.reasons = PrefixReasons(report, tokens, options);
  return explain;
}

}  // namespace attndb::store
