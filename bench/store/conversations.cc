#include "bench/store/conversations.h"

#include <algorithm>
#include <random>
#include <utility>

namespace attndb::bench {
namespace {

constexpr uint32_t kLayers = 30;
constexpr uint32_t kHeadDim = 64;
constexpr uint32_t kKvHeads = 3;
constexpr uint32_t kQHeads = 9;
constexpr uint64_t kRows = 4096;
constexpr uint64_t kTurnTokens = 16'384;

ModelSpec Spec() {
  LayerSpec layer;
  layer.num_q_heads = kQHeads;
  layer.num_kv_heads = kKvHeads;
  layer.head_dim = kHeadDim;
  layer.v_head_dim = kHeadDim;
  return ModelSpec::Uniform(kLayers, layer, DType::kFloat16, "stores_bench");
}

std::vector<float> Normal(size_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

}  // namespace

Conversations::Conversations(const DBOptions& options)
    : spec_(Spec()),
      folder_("attndb_stores"),
      rows_(Normal(kRows * kKvHeads * kHeadDim)),
      out_(size_t{kQHeads} * kHeadDim),
      db_(Checked(DB::Open(folder_.path(), options))) {}

Tokens Conversations::StoreContext(uint64_t num_tokens) {
  Conversation whole = Continue({}, 1, "full");
  while (whole.tokens.size() < num_tokens) {
    const uint64_t num_missing = num_tokens - whole.tokens.size();
    whole.tokens.resize(whole.tokens.size() + std::min(num_missing, kTurnTokens), 0);
    Append(&whole);
    const StoreOptions options{.name = std::to_string(whole.tokens.front()), .replace = true};
    Check(db_.Store(whole.session, whole.tokens, options).status());
  }
  return std::move(whole.tokens);
}

Conversation Conversations::Continue(const Tokens& context, uint64_t num_new,
                                     const std::string& plan) {
  Tokens tokens = context;
  tokens.push_back(next_mark_++);
  tokens.resize(context.size() + num_new, 0);
  SessionStart start = Checked(db_.CreateSession(spec_, tokens, {.plan = plan}));
  Expect(start.session.num_reused() == context.size(), "CreateSession: another prefix");
  Conversation conversation{std::move(start.session), std::move(tokens)};
  Append(&conversation);
  return conversation;
}

void Conversations::Append(Conversation* conversation) {
  Session& session = conversation->session;
  while (session.num_tokens() < conversation->tokens.size()) {
    const uint64_t first = session.num_tokens() % kRows;
    const uint64_t count =
        std::min(conversation->tokens.size() - session.num_tokens(), kRows - first);
    const auto rows =
        TensorView::Contiguous(rows_.data() + first * kKvHeads * kHeadDim, DType::kFloat32,
                               static_cast<int64_t>(count), kKvHeads, kHeadDim);
    for (LayerId layer = 0; layer < kLayers; ++layer) Check(session.Append(layer, rows, rows));
  }
}

void Conversations::Step(Conversation* conversation) {
  Session& session = conversation->session;
  const uint64_t row = session.num_tokens() % (kRows / 4);
  const float* const data = rows_.data() + row * kKvHeads * kHeadDim;
  const auto kv = TensorView::Contiguous(data, DType::kFloat32, 1, kKvHeads, kHeadDim);
  const auto q = TensorView::Contiguous(data, DType::kFloat32, 1, kQHeads, kHeadDim);
  const auto out =
      MutableTensorView::Contiguous(out_.data(), DType::kFloat32, 1, kQHeads, kHeadDim);
  for (LayerId layer = 0; layer < kLayers; ++layer) {
    Check(session.Append(layer, kv, kv));
    Check(session.Attend(layer, q, out));
  }
  conversation->tokens.push_back(0);
}

}  // namespace attndb::bench
