#include "bench/store/many_contexts.h"

#include <chrono>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "attndb/context_name.h"
#include "bench/checked.h"
#include "bench/kernels/bench_util.h"

namespace attndb::bench {
namespace {

constexpr uint32_t kHeadDim = 16;

ModelSpec Spec() {
  LayerSpec layer;
  layer.num_q_heads = 1;
  layer.num_kv_heads = 1;
  layer.head_dim = kHeadDim;
  layer.v_head_dim = kHeadDim;
  return ModelSpec::Uniform(1, layer, DType::kFloat16, "contexts_bench");
}

}  // namespace

ManyContexts::ManyContexts(uint64_t num_contexts, uint64_t num_tenants)
    : num_contexts_(num_contexts),
      num_tenants_(num_tenants),
      spec_(Spec()),
      folder_("attndb_contexts") {
  rows_.resize(kPrefixTokens * kHeadDim);
  std::iota(rows_.begin(), rows_.end(), 0.0f);
  for (float& row : rows_) row /= static_cast<float>(rows_.size());
  OpenStore();
  std::vector<TokenId> prefix = TokensOf(0);
  prefix.resize(kPrefixTokens);
  for (uint64_t tenant = 0; tenant < num_tenants_; ++tenant) {
    const DB db = TenantOf(tenant);
    Session first = Extend(db, prefix);
    Check(db.Store(first, prefix, {.name = "prefix", .pin = true}).status());
  }
  while (num_made_ < num_contexts_) {
    const DB db = TenantOf(num_made_);
    const std::vector<TokenId> tokens = TokensOf(num_made_++);
    Session session = Extend(db, tokens);
    Check(db.Store(session, tokens).status());
  }
  youngest_ = num_made_ - 1 - (num_made_ - 1) % num_tenants_;
  Check(owner_->WaitForBackground());
}

void ManyContexts::OpenStore() {
  db_.reset();
  owner_.reset();
  DBOptions options;
  options.measure_machine = false;
  options.clock = [this] { return now_us_; };
  owner_ = std::make_unique<DB>(Checked(DB::Open(folder_.path(), options)));
  db_ = std::make_unique<DB>(TenantOf(0));
}

// The first is the store's owner.
DB ManyContexts::TenantOf(uint64_t number) const {
  const uint64_t tenant = number % num_tenants_;
  return Checked(owner_->ForTenant(tenant == 0 ? "default" : "t" + std::to_string(tenant)));
}

std::vector<TokenId> ManyContexts::TokensOf(uint64_t number) {
  std::vector<TokenId> tokens(kPrefixTokens + kOwnTokens);
  std::iota(tokens.begin(), tokens.end(), 0);
  tokens[kPrefixTokens] = static_cast<TokenId>(number);
  return tokens;
}

Session ManyContexts::Extend(const DB& db, const std::vector<TokenId>& tokens) {
  SessionStart start = Checked(db.CreateSession(spec_, tokens, {.plan = "full"}));
  // The last token of a prompt is always computed: what is reused ends before it.
  const uint64_t num_new = tokens.size() - start.session.num_reused();
  const auto rows = TensorView::Contiguous(rows_.data(), DType::kFloat32,
                                           static_cast<int64_t>(num_new), 1, kHeadDim);
  Check(start.session.Append(0, rows, rows));
  return std::move(start.session);
}

ContextId ManyContexts::StoreOneMore(const StoreOptions& options) {
  const std::vector<TokenId> tokens = TokensOf(num_made_++);
  Session session = Extend(*db_, tokens);
  return Checked(db_->Store(session, tokens, options));
}

void ManyContexts::FillQuota() { Check(db_->SetQuota(Checked(db_->Stats()).file_bytes)); }

double ManyContexts::List() {
  const double start = Seconds();
  const std::vector<ContextInfo> contexts = Checked(db_->List());
  const double seconds = Seconds() - start;
  const uint64_t own = (num_contexts_ + num_tenants_ - 1) / num_tenants_;
  Expect(contexts.size() == own + 1, "List: another number of contexts");
  return seconds;
}

double ManyContexts::CreateSession() {
  std::vector<TokenId> tokens = TokensOf(youngest_);
  tokens.push_back(0);
  const double start = Seconds();
  {
    const SessionStart created = Checked(db_->CreateSession(spec_, tokens));
    Expect(created.session.num_reused() == kPrefixTokens + kOwnTokens, "CreateSession: not reused");
  }
  return Seconds() - start;
}

double ManyContexts::Store() {
  youngest_ = num_made_++;
  const std::vector<TokenId> tokens = TokensOf(youngest_);
  Session session = Extend(*db_, tokens);
  const uint64_t num_evicted = Checked(db_->Stats()).num_evictions;
  const double start = Seconds();
  Check(db_->Store(session, tokens).status());
  const double seconds = Seconds() - start;
  Expect(Checked(db_->Stats()).num_evictions > num_evicted, "Store: nothing was evicted");
  return seconds;
}

double ManyContexts::Compact() {
  Check(db_->Compact());  // Notes that there is nothing to do for what was stored since the last.
  const uint64_t merged = Checked(db_->Stats()).bytes_merged;
  const double start = Seconds();
  Check(db_->Compact());
  const double seconds = Seconds() - start;
  Expect(Checked(db_->Stats()).bytes_merged == merged, "Compact: was not idle");
  return seconds;
}

double ManyContexts::Drop() {
  const ContextId id = StoreOneMore({});
  const double start = Seconds();
  Check(db_->Drop(IdName(id)));
  return Seconds() - start;
}

double ManyContexts::VerifyStart() {
  const double start = Seconds();
  double first = 0;
  const auto stop = [&](uint64_t, uint64_t) {
    first = Seconds();
    return false;
  };
  const Result<VerifyReport> report = db_->Verify({.progress = stop});
  Expect(report.status().code() == StatusCode::kCancelled, "Verify: was not cancelled");
  return first - start;
}

double ManyContexts::Expiry() {
  StoreOneMore({.ttl = std::chrono::seconds(60)});
  Check(db_->Compact());
  now_us_ += 120'000'000;
  const uint64_t before = Checked(db_->Stats()).num_contexts;
  const double start = Seconds();
  Check(db_->Compact());
  const double seconds = Seconds() - start;
  Expect(Checked(db_->Stats()).num_contexts + 1 == before, "Compact: nothing has expired");
  return seconds;
}

double ManyContexts::Stats() {
  const double start = Seconds();
  Check(db_->Stats().status());
  return Seconds() - start;
}

double ManyContexts::ExplainPrefix() {
  std::vector<TokenId> tokens = TokensOf(0);
  tokens[kPrefixTokens] = 1'000'000'000;
  const double start = Seconds();
  const PrefixExplain explain = Checked(db_->ExplainPrefix(spec_, tokens));
  const double seconds = Seconds() - start;
  Expect(explain.num_reused >= kPrefixTokens, "ExplainPrefix: not reused");
  return seconds;
}

double ManyContexts::Open() {
  db_.reset();
  owner_.reset();
  const double start = Seconds();
  OpenStore();
  return Seconds() - start;
}

}  // namespace attndb::bench
