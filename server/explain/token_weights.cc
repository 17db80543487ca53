#include "server/explain/token_weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "attndb/units.h"

namespace attndb::server {
namespace {

constexpr uint64_t kTokensRead = 1024;  // Keys in memory at a time.

using Logits = std::vector<std::vector<float>>;  // By q head, then by token.

float LogitOf(const LayerSpec& spec, const float* q, const float* k) {
  const float scale =
      spec.scale != 0 ? spec.scale : 1.0f / std::sqrt(static_cast<float>(spec.head_dim));
  const float logit = scale * std::inner_product(q, q + spec.head_dim, k, 0.0f);
  return spec.soft_cap == 0 ? logit : spec.soft_cap * std::tanh(logit / spec.soft_cap);
}

// Logits of the tokens from `begin` on.
Result<Logits> LogitsOf(LayerId layer, std::span<const float> q, uint64_t begin,
                        const Session& session) {
  const LayerSpec& spec = session.spec().layers[layer];
  const uint64_t num_tokens = session.num_tokens();
  Logits logits(spec.num_q_heads);
  std::vector<float> keys(kTokensRead * spec.num_kv_heads * spec.head_dim);
  for (; begin < num_tokens; begin += kTokensRead) {
    const TokenRange range = {begin, std::min(begin + kTokensRead, num_tokens)};
    const auto num_read = range.end - range.begin;
    const auto view =
        MutableTensorView::Contiguous(keys.data(), DType::kFloat32, static_cast<int64_t>(num_read),
                                      spec.num_kv_heads, spec.head_dim);
    ATTNDB_RETURN_IF_ERROR(session.ReadKv(layer, range, view, MutableTensorView()));
    for (uint32_t head = 0; head < spec.num_q_heads; ++head) {
      const float* const row = &q[size_t{head} * spec.head_dim];
      const float* const first = &keys[size_t{head / spec.group_size()} * spec.head_dim];
      for (uint64_t i = 0; i < num_read; ++i) {
        const float logit = LogitOf(spec, row, first + i * spec.num_kv_heads * spec.head_dim);
        if (!std::isfinite(logit)) {
          return Status::Unsupported("layer " + std::to_string(layer) + " head " +
                                     std::to_string(head) + ": a query or a key has NaN or Inf");
        }
        logits[head].push_back(logit);
      }
    }
  }
  return logits;
}

// The heaviest of the tokens from `begin` on. `other_logits`: in the denominator alone.
HeadWeights HeaviestOf(const std::vector<float>& logits, std::span<const float> other_logits,
                       uint64_t begin, size_t num_listed) {
  float max = *std::max_element(logits.begin(), logits.end());
  for (const float logit : other_logits) max = std::max(max, logit);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - max);
  for (const float logit : other_logits) sum += std::exp(logit - max);
  std::vector<uint32_t> all(logits.size());
  std::iota(all.begin(), all.end(), 0u);
  std::vector<uint32_t> order(std::min(num_listed, all.size()));
  std::partial_sort_copy(all.begin(), all.end(), order.begin(), order.end(),
                         [&logits](uint32_t a, uint32_t b) {
                           return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
                         });
  HeadWeights head;
  for (const uint32_t i : order) {
    head.tokens.push_back(static_cast<uint32_t>(begin) + i);
    head.weights.push_back(static_cast<float>(std::exp(logits[i] - max) / sum));
  }
  return head;
}

// Notes what the session's plan selects, if it searches.
Status AddCritical(LayerId layer, std::span<const float> q, Session* session,
                   std::vector<HeadWeights>* heads) {
  const LayerSpec& spec = session->spec().layers[layer];
  const Result<std::vector<CriticalTokens>> found = session->Search(
      layer, TensorView::Contiguous(q.data(), DType::kFloat32, 1, spec.num_q_heads, spec.head_dim));
  if (!found.ok()) {
    const bool searches = found.status().code() != StatusCode::kFailedPrecondition;
    return searches ? found.status() : Status::Ok();
  }
  for (size_t i = 0; i < heads->size(); ++i) {
    HeadWeights& head = (*heads)[i];
    std::vector<uint32_t> critical = (*found)[i].tokens;
    std::sort(critical.begin(), critical.end());
    head.num_critical = critical.size();
    for (const uint32_t token : head.tokens) {
      if (std::binary_search(critical.begin(), critical.end(), token)) {
        head.critical.push_back(token);
      }
    }
  }
  return Status::Ok();
}

}  // namespace

Result<std::vector<HeadWeights>> WeighTokens(LayerId layer, std::span<const float> q,
                                             size_t num_listed, Session* session) {
  if (session->num_dropped() > 0) {
    return Status::Unsupported(
        "the weights of a conversation are not told once tokens have left it: " +
        Counted(session->num_dropped(), "token"));
  }
  const LayerSpec& spec = session->spec().layers[layer];
  const uint64_t num_tokens = session->num_tokens();
  const uint64_t window = spec.sliding_window;
  const uint64_t begin = window > 0 && window < num_tokens ? num_tokens - window : 0;
  ATTNDB_ASSIGN_OR_RETURN(const Logits logits, LogitsOf(layer, q, begin, *session));
  std::vector<HeadWeights> heads;
  for (uint32_t head = 0; head < spec.num_q_heads; ++head) {
    const auto other = std::span(spec.denominator_logits)
                           .subspan(spec.denominator_logits.empty() ? 0 : head,
                                    spec.denominator_logits.empty() ? 0 : 1);
    heads.push_back(HeaviestOf(logits[head], other, begin, num_listed));
  }
  ATTNDB_RETURN_IF_ERROR(AddCritical(layer, q, session, &heads));
  return heads;
}

}  // namespace attndb::server
