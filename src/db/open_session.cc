// Database: from a prompt to a session that reuses what is stored of it.
#include <algorithm>
#include <sstream>

#include "attndb/fingerprint.h"
#include "common/clock.h"
#include "common/quote.h"
#include "db/catalog/model_identity.h"
#include "db/catalog/ttl.h"
#include "db/database.h"
#include "session/view_check.h"

namespace attndb::internal {
namespace {

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

// "num_kv_heads 2, expected 4": the first field in which two layers differ; empty if in none.
std::string LayerDifference(const LayerSpec& found, const LayerSpec& expected) {
  std::ostringstream text;
  const auto compare = [&text](const char* name, const auto& a, const auto& b) {
    if (a != b && text.view().empty()) text << name << ' ' << a << ", expected " << b;
  };
  compare("num_q_heads", found.num_q_heads, expected.num_q_heads);
  compare("num_kv_heads", found.num_kv_heads, expected.num_kv_heads);
  compare("head_dim", found.head_dim, expected.head_dim);
  compare("v_head_dim", found.v_head_dim, expected.v_head_dim);
  compare("scale", found.scale, expected.scale);
  compare("soft_cap", found.soft_cap, expected.soft_cap);
  compare("sliding_window", found.sliding_window, expected.sliding_window);
  compare("RoPE layout", static_cast<int>(found.rope.layout),
          static_cast<int>(expected.rope.layout));
  compare("rope_dims", found.rope.rope_dims, expected.rope.rope_dims);
  compare("RoPE base", found.rope.base, expected.rope.base);
  compare("RoPE scaling", "'" + found.rope.scaling + "'", "'" + expected.rope.scaling + "'");
  const std::vector<float>& logits = found.denominator_logits;
  compare("number of denominator_logits", logits.size(), expected.denominator_logits.size());
  for (size_t head = 0; head < logits.size() && text.view().empty(); ++head) {
    const std::string name = "denominator_logits[" + std::to_string(head) + "]";
    compare(name.c_str(), logits[head], expected.denominator_logits[head]);
  }
  return text.str();
}

std::string SpecDifference(const ModelSpec& found, const ModelSpec& expected) {
  if (found.fingerprint != expected.fingerprint) {
    return "fingerprint " + Quoted(FingerprintText(found.fingerprint)) + ", expected " +
           Quoted(FingerprintText(expected.fingerprint));
  }
  if (found.kv_dtype != expected.kv_dtype) {
    return "kv_dtype " + std::string(DTypeName(found.kv_dtype)) + ", expected " +
           std::string(DTypeName(expected.kv_dtype));
  }
  if (found.num_layers() != expected.num_layers()) {
    return "num_layers " + std::to_string(found.num_layers()) + ", expected " +
           std::to_string(expected.num_layers());
  }
  for (LayerId layer = 0; layer < expected.num_layers(); ++layer) {
    const std::string what = LayerDifference(found.layers[layer], expected.layers[layer]);
    if (!what.empty()) return "layer " + std::to_string(layer) + ": " + what;
  }
  return "another field of the spec";
}

// Why a context can't serve a spec although its name was given.
Status OtherModel(const db::ContextRecord& context, const ModelSpec& found,
                  const ModelSpec& expected) {
  return Status::FailedPrecondition("context '" + context.Label() +
                                    "' is of another model: " + SpecDifference(found, expected));
}

}  // namespace

Result<Database::Match> Database::FindPrefix(const db::Tenant& tenant, const ModelSpec& spec,
                                             std::span<const TokenId> tokens,
                                             const SessionOptions& options) const {
  if (!options.reuse) return Match{};
  damage_reports_.Quarantine();
  if (options.context.empty()) {
    if (tokens.empty()) return Match{};
    if (tenant.id == db::TenantId::kNone) return Match{};
    ATTNDB_ASSIGN_OR_RETURN(
        const std::optional<db::PrefixMatch> match,
        catalog_->LongestPrefix({tenant.id, &spec, options.first_position, tokens}));
    return match ? Match{match->context, match->num_tokens} : Match{};
  }
  ATTNDB_ASSIGN_OR_RETURN(const db::ContextRecord context,
                          NamedContext(tenant, spec, options.context, options.first_position));
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t num_tokens, catalog_->CommonPrefix(context.id, tokens));
  return num_tokens == 0 ? Match{} : Match{context.id, num_tokens};
}

Result<db::ContextRecord> Database::NamedContext(const db::Tenant& tenant, const ModelSpec& spec,
                                                 const std::string& name,
                                                 int64_t first_position) const {
  ATTNDB_ASSIGN_OR_RETURN(const db::ContextRecord context, catalog_->FindContext(tenant.id, name));
  if (IsExpired(context)) {
    return Status::NotFound("context '" + context.Label() + "' has expired");
  }
  ATTNDB_ASSIGN_OR_RETURN(const ModelSpec found, catalog_->GetModel(context.model));
  ATTNDB_ASSIGN_OR_RETURN(const bool same_model, catalog_->SameModel(context.model, spec));
  if (!same_model) {
    ATTNDB_ASSIGN_OR_RETURN(const ModelSpec expected, db::DecodeModel(db::EncodeModel(spec).bytes));
    return OtherModel(context, found, expected);
  }
  if (context.first_position != first_position) {
    return Status::FailedPrecondition("context '" + context.Label() + "' begins at position " +
                                      std::to_string(context.first_position) + ", expected " +
                                      std::to_string(first_position));
  }
  if (context.damaged) {
    return Status::Corruption("context '" + context.Label() +
                              "' is damaged (see describe); drop it and import it again");
  }
  return context;
}

bool Database::IsExpired(const db::ContextRecord& context) const {
  const int64_t now_us = options_.clock ? options_.clock() : SystemNowMicros();
  return db::IsExpired(context.pinned, context.ttl_seconds, context.last_access_us, now_us);
}

Status Database::QuarantineIfDamaged(db::SegmentId segment, Status status) const {
  // A file that is missing while the catalog names it is damage, too.
  const bool damaged =
      status.code() == StatusCode::kCorruption || status.code() == StatusCode::kNotFound;
  if (!damaged || options_.read_only) return status;
  ATTNDB_RETURN_IF_ERROR(catalog_->Quarantine(segment, status.message()).status());
  return Status::Corruption(status.message());
}

Result<Database::Chain> Database::OpenChain(ContextId context, std::span<const TokenId> tokens) {
  // Held to the end, so that nobody removes a segment between its look-up and its opening.
  MutexLock lock(&use_mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<db::ChainLink> links, catalog_->Chain(context));
  Chain chain;
  for (const db::ChainLink& link : links) {
    if (chain.tokens.size() == tokens.size()) break;
    ATTNDB_ASSIGN_OR_RETURN(const db::SegmentRecord record, catalog_->GetSegment(link.segment));
    Result<std::shared_ptr<storage::Segment>> segment = registry_.Get(record);
    Result<std::vector<TokenId>> stored =
        segment.ok() ? (*segment)->ReadTokens() : Result<std::vector<TokenId>>(segment.status());
    if (!stored.ok()) {
      return QuarantineIfDamaged(link.segment, std::move(stored).status());
    }
    objects_.Learn(*segment, FactsOf(record));
    const uint64_t used =
        std::min<uint64_t>(link.num_tokens_used, tokens.size() - chain.tokens.size());
    if (!std::equal(stored->begin(), stored->begin() + static_cast<int64_t>(used),
                    tokens.begin() + static_cast<int64_t>(chain.tokens.size()))) {
      return Status::Corruption("segment " + std::to_string(link.segment) +
                                " holds other tokens than the catalog says");
    }
    chain.tokens.insert(chain.tokens.end(), stored->begin(),
                        stored->begin() + static_cast<int64_t>(used));
    chain.entries.push_back({*std::move(segment), used});
  }
  if (chain.tokens.size() != tokens.size()) {
    return Status::Corruption("context #" + std::to_string(static_cast<int64_t>(context)) +
                              ": its segments hold " + std::to_string(chain.tokens.size()) +
                              " tokens, expected " + std::to_string(tokens.size()));
  }
  return chain;
}

Result<std::unique_ptr<SessionImpl>> Database::OpenMatch(SessionSeed seed, const Match& match,
                                                         std::span<const TokenId> tokens) {
  if (match.context != ContextId::kNone) {
    ATTNDB_ASSIGN_OR_RETURN(Chain chain, OpenChain(match.context, tokens.first(match.num_tokens)));
    seed.context = match.context;
    seed.chain = std::move(chain.entries);
    seed.tokens = std::move(chain.tokens);
    catalog_->Touch(match.context);
  }
  num_reused_tokens_.fetch_add(seed.tokens.size(), std::memory_order_relaxed);
  return std::make_unique<SessionImpl>(std::move(seed));
}

Result<SessionSeed> Database::SeedOf(const std::string& tenant, const ModelSpec& spec,
                                     const SessionOptions& options) {
  ATTNDB_RETURN_IF_ERROR(spec.Validate());
  ATTNDB_RETURN_IF_ERROR(CheckFirstPosition(options.first_position));
  SessionSeed seed;
  seed.host = shared_from_this();
  seed.tenant = tenant;
  seed.spec = Resolve(spec);
  seed.shape = std::make_shared<const storage::KvShape>(ShapeOf(spec));
  seed.first_position = options.first_position;
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
  num_lookups_.fetch_add(1, std::memory_order_relaxed);
  num_prompt_tokens_.fetch_add(tokens.size(), std::memory_order_relaxed);

  ATTNDB_ASSIGN_OR_RETURN(const db::Tenant owner, TenantOf(tenant));
  const std::span<const TokenId> reusable = tokens.first(std::min(tokens.size(), max_reuse));
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    ATTNDB_ASSIGN_OR_RETURN(const Match match, FindPrefix(owner, seed.spec, reusable, options));
    Result<std::unique_ptr<SessionImpl>> session = OpenMatch(seed, match, reusable);
    if (session.ok()) return session;
    // What was found is damaged (and quarantined now), or was dropped between lookup and opening:
    // what else is there? A named context has no substitute; but a reader may have seen it while
    // the writer's process merged it, and finds it whole when it looks again.
    const StatusCode code = session.status().code();
    if (code != StatusCode::kCorruption && code != StatusCode::kNotFound) return session;
    const bool is_named = !options.context.empty();
    if (is_named && (!options_.read_only || attempt + 1 == kMaxAttempts)) return session;
  }
  return OpenMatch(std::move(seed), Match{}, reusable);
}

Result<std::unique_ptr<SessionImpl>> Database::OpenWhole(const std::string& tenant,
                                                         std::string_view context) {
  ATTNDB_ASSIGN_OR_RETURN(const db::ContextRecord record, Find(tenant, context));
  ATTNDB_ASSIGN_OR_RETURN(const ModelSpec spec, catalog_->GetModel(record.model));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, catalog_->Tokens(record.id));
  SessionOptions options;
  options.context = db::IdLabel(record.id);
  options.first_position = record.first_position;
  return OpenSession(tenant, spec, tokens, tokens.size(), options);
}

Result<PrefixExplain> Database::ExplainPrefix(const std::string& tenant, const ModelSpec& spec,
                                              std::span<const TokenId> tokens,
                                              const SessionOptions& options) const {
  ATTNDB_RETURN_IF_ERROR(spec.Validate());
  ATTNDB_RETURN_IF_ERROR(CheckPrompt(tokens));
  ATTNDB_RETURN_IF_ERROR(CheckFirstPosition(options.first_position));
  ATTNDB_ASSIGN_OR_RETURN(const db::Tenant owner, TenantOf(tenant));
  const ModelSpec resolved = Resolve(spec);
  ATTNDB_ASSIGN_OR_RETURN(const Match match, FindPrefix(owner, resolved, tokens, options));
  db::PrefixReport report;
  if (owner.id != db::TenantId::kNone) {
    ATTNDB_ASSIGN_OR_RETURN(
        report, catalog_->ExplainPrefix({owner.id, &resolved, options.first_position, tokens}));
  }
  PrefixExplain explain;
  explain.num_prompt_tokens = tokens.size();
  explain.num_reused = std::min<uint64_t>(match.num_tokens, tokens.size() - 1);
  if (match.context != ContextId::kNone) {
    ATTNDB_ASSIGN_OR_RETURN(const db::ContextRecord record,
                            catalog_->GetContext(owner.id, match.context));
    explain.context = record.Label();
  }
  explain.reasons = ReasonsOf(report, tokens, options);
  return explain;
}

std::vector<std::string> Database::ReasonsOf(const db::PrefixReport& report,
                                             std::span<const TokenId> tokens,
                                             const SessionOptions& options) {
  using Reason = db::PrefixNearMiss::Reason;
  std::vector<std::string> reasons;
  if (!options.reuse) reasons.push_back("reuse is switched off");
  if (!report.best) {
    reasons.push_back("no context of this model begins with the prompt's first token");
  } else if (report.best->num_tokens == tokens.size()) {
    reasons.push_back("all of the prompt is stored; one token is left for the engine");
  } else if (report.next_token) {
    reasons.push_back("the longest match ends after " + std::to_string(report.best->num_tokens) +
                      " tokens: the context has token " + std::to_string(*report.next_token) +
                      " where the prompt has " + std::to_string(tokens[report.best->num_tokens]));
  } else {
    reasons.push_back("the longest match is a whole context of " +
                      std::to_string(report.best->num_tokens) + " tokens");
  }
  for (const db::PrefixNearMiss& miss : report.near_misses) {
    if (miss.num_contexts == 0) continue;
    std::string text = std::to_string(miss.num_contexts);
    switch (miss.reason) {
      case Reason::kOtherModel:
        text += " contexts are of another model, kv_dtype or RoPE setting";
        break;
      case Reason::kOtherPosition:
        text += " contexts begin at another position";
        break;
      case Reason::kDamaged:
        text += " contexts are damaged";
        break;
      case Reason::kExpired:
        text += " contexts have expired";
        break;
    }
    if (miss.best.num_tokens > 0) {
      text += "; the best agrees for " + std::to_string(miss.best.num_tokens) + " tokens";
    }
    reasons.push_back(std::move(text));
  }
  return reasons;
}

}  // namespace attndb::internal
