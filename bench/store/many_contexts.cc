#include "bench/store/many_contexts.h"

#include <numeric>
#include <span>
#include <utility>

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

ManyContexts::ManyContexts(uint64_t num_contexts)
    : num_contexts_(num_contexts), spec_(Spec()), folder_("attndb_contexts") {
  rows_.resize(kPrefixTokens * kHeadDim);
  std::iota(rows_.begin(), rows_.end(), 0.0f);
  for (float& row : rows_) row /= static_cast<float>(rows_.size());
  DBOptions options;
  options.measure_machine = false;
  db_ = std::make_unique<DB>(Checked(DB::Open(folder_.path(), options)));
  std::vector<TokenId> prefix = TokensOf(0);
  prefix.resize(kPrefixTokens);
  Session first = Extend(prefix);
  Check(db_->Store(first, prefix, {.name = "prefix", .pin = true}).status());
  while (num_made_ < num_contexts_) {
    const std::vector<TokenId> tokens = TokensOf(num_made_++);
    Session session = Extend(tokens);
    Check(db_->Store(session, tokens).status());
  }
  Check(db_->WaitForBackground());
}

std::vector<TokenId> ManyContexts::TokensOf(uint64_t number) {
  std::vector<TokenId> tokens(kPrefixTokens + kOwnTokens);
  std::iota(tokens.begin(), tokens.end(), 0);
  tokens[kPrefixTokens] = static_cast<TokenId>(number);
  return tokens;
}

Session ManyContexts::Extend(const std::vector<TokenId>& tokens) {
  SessionStart start = Checked(db_->CreateSession(spec_, tokens, {.plan = "full"}));
  // The last token of a prompt is always computed: what is reused ends before it.
  const uint64_t num_new = tokens.size() - start.session.num_reused();
  const auto rows = TensorView::Contiguous(rows_.data(), DType::kFloat32,
                                           static_cast<int64_t>(num_new), 1, kHeadDim);
  Check(start.session.Append(0, rows, rows));
  return std::move(start.session);
}

void ManyContexts::FillQuota() { Check(db_->SetQuota(Checked(db_->Stats()).file_bytes)); }

double ManyContexts::List() {
  const double start = Seconds();
  const std::vector<ContextInfo> contexts = Checked(db_->List());
  const double seconds = Seconds() - start;
  Expect(contexts.size() == num_contexts_ + 1, "List: another number of contexts");
  return seconds;
}

double ManyContexts::CreateSession() {
  // One of the youngest, which is not evicted yet.
  std::vector<TokenId> tokens = TokensOf(num_made_ - 1 - num_made_ % (num_contexts_ / 2));
  tokens.push_back(0);
  const double start = Seconds();
  {
    const SessionStart created = Checked(db_->CreateSession(spec_, tokens));
    Expect(created.session.num_reused() == kPrefixTokens + kOwnTokens, "CreateSession: not reused");
  }
  return Seconds() - start;
}

double ManyContexts::Store() {
  const std::vector<TokenId> tokens = TokensOf(num_made_++);
  Session session = Extend(tokens);
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

}  // namespace attndb::bench
