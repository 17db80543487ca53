#include "tests/upgrade/held_contexts.h"

#include "testing/toy_model.h"

namespace attndb::test {
namespace {

std::vector<TokenId> Joined(std::vector<TokenId> tokens, const std::vector<TokenId>& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

}  // namespace

ModelSpec HeldSpec() {
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
  return {.layers = {capped, sliding}, .kv_dtype = DType::kFloat16, .fingerprint = "tests/upgrade"};
}

std::vector<HeldContext> HeldContexts() {
  const std::vector<TokenId> handbook = ToyModel::Tokens(260, 1);
  const std::vector<TokenId> shared(handbook.begin(), handbook.begin() + 200);
  return {{.name = "handbook", .tokens = handbook, .pinned = true},
          {.name = "branch",
           .tokens = Joined(shared, ToyModel::Tokens(20, 2)),
           .ttl = std::chrono::hours(7 * 24)},
          {.tenant = kOtherTenant, .name = "draft", .tokens = ToyModel::Tokens(12, 4)}};
}

DBOptions HeldOptions(std::chrono::microseconds since) {
  DBOptions options;
  options.measure_machine = false;
  options.host_memory_bytes = 64 << 20;
  options.clock = [now = kHeldMade + since] { return now.count(); };
  return options;
}

}  // namespace attndb::test
