#include "tests/upgrade/held_contexts.h"

#include "testing/toy_model.h"

namespace attndb::test {
namespace {

std::vector<TokenId> Joined(std::vector<TokenId> tokens, const std::vector<TokenId>& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

std::vector<HeldContext> Contexts(uint64_t num_tokens) {
  const std::vector<TokenId> handbook = ToyModel::Tokens(num_tokens, 1);
  const std::vector<TokenId> shared(handbook.begin(), handbook.begin() + 200);
  return {{.name = "handbook", .tokens = handbook, .pinned = true},
          {.name = "branch",
           .tokens = Joined(shared, ToyModel::Tokens(20, 2)),
           .ttl = std::chrono::hours(7 * 24)},
          {.tenant = kOtherTenant, .name = "draft", .tokens = ToyModel::Tokens(12, 4)}};
}

}  // namespace

HeldStore PlainStore() {
  LayerSpec capped = {.num_q_heads = 2, .num_kv_heads = 1, .head_dim = 12, .v_head_dim = 8};
  capped.scale = 0.25f;
  capped.soft_cap = 30.0f;
  capped.rope = {.layout = RopeLayout::kInterleaved,
                 .rope_dims = 8,
                 .base = 500000.0,
                 .scaling = "linear:factor=4"};
  LayerSpec sliding = {.num_q_heads = 4, .num_kv_heads = 1, .head_dim = 16, .v_head_dim = 16};
  sliding.sliding_window = 32;
  sliding.rope.layout = RopeLayout::kHalf;
  return {.folder = "",
          .spec = {.layers = {capped, sliding},
                   .kv_dtype = DType::kFloat16,
                   .fingerprint = "tests/upgrade"},
          .contexts = Contexts(260),
          .plans = {"topk(k=8,sink=4,window=8,bits=4,remainder=mean)"}};
}

// Rows are as short as they get, and tokens as few as have indexes.
HeldStore DenominatorStore() {
  LayerSpec full = {.num_q_heads = 2, .num_kv_heads = 1, .head_dim = 8, .v_head_dim = 8};
  full.rope.layout = RopeLayout::kHalf;
  full.denominator_logits = {6.5f, -1.25f};
  LayerSpec sliding = full;
  sliding.sliding_window = 32;
  sliding.head_dim = sliding.v_head_dim = 4;
  sliding.denominator_logits = {0.0f, 3.5f};
  return {.folder = "/denominators",
          .spec = {.layers = {full, sliding},
                   .kv_dtype = DType::kFloat16,
                   .fingerprint = "tests/upgrade/denominators"},
          .contexts = Contexts(2050),
          .plans = {"topk(k=8,index=clustered)", "topk(k=8,index=graph)"}};
}

// Rows are short here, too.
HeldStore IndexStore() {
  HeldStore held = DenominatorStore();
  for (LayerSpec& layer : held.spec.layers) layer.denominator_logits.clear();
  held.folder = "/indexes";
  held.spec.fingerprint = "tests/upgrade/indexes";
  held.plans = {"topk(k=8,index=clustered)",       "topk(k=8,index=graph,graphs=head)",
                "topk(k=8,index=roargraph)",       "topk(k=8,index=roargraph,graphs=head)",
                "topk(k=8,index=pq,m=4,b=6)",      "topk(k=8,index=quest)",
                "topk(k=8,index=infllm)",          "topk(k=8,index=wave)",
                "topk(k=8,bits=4,remainder=mean)", "topk(k=8,static=prefill:8)"};
  return held;
}

DBOptions HeldOptions(std::chrono::microseconds since) {
  DBOptions options;
  options.measure_machine = false;
  options.host_memory_bytes = 64 << 20;
  options.clock = [now = kHeldMade + since] { return now.count(); };
  return options;
}

}  // namespace attndb::test
