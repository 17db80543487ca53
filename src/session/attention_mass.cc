#include "session/attention_mass.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "attention/listed_tokens.h"
#include "kernels/convert.h"
#include "kernels/layout.h"

namespace attndb::internal {
namespace {

double LogitOf(const LayerSpec& spec, double score) {
  const double scale =
      spec.scale != 0 ? double{spec.scale} : 1 / std::sqrt(static_cast<double>(spec.head_dim));
  const double logit = scale * score;
  const double cap = double{spec.soft_cap};
  return cap == 0 ? logit : cap * std::tanh(logit / cap);
}

// Adds the softmax over scores [begin, end) to `mass`.
void AddWeights(const LayerSpec& spec, const float* scores, TokenRange seen,
                std::vector<double>* mass) {
  double most = -INFINITY;
  for (uint64_t i = seen.begin; i < seen.end; ++i) {
    most = std::max(most, LogitOf(spec, double{scores[i]}));
  }
  if (!std::isfinite(most)) return;  // Keys or queries with NaN or Inf say nothing.
  double sum = 0;
  for (uint64_t i = seen.begin; i < seen.end; ++i) {
    sum += std::exp(LogitOf(spec, double{scores[i]}) - most);
  }
  for (uint64_t i = seen.begin; i < seen.end; ++i) {
    (*mass)[i] += std::exp(LogitOf(spec, double{scores[i]}) - most) / sum;
  }
}

}  // namespace

Status AttentionMass::Add(const HeadKeys& keys, const storage::QueryRows& queries,
                          std::span<const uint64_t> seen_before) {
  const size_t num_rows = std::min<size_t>(kMaxRows, queries.num_rows());
  if (num_rows == 0 || mass_.empty()) return Status::Ok();
  const size_t first = queries.num_rows() - num_rows;  // The newest ones.
  const size_t padded = kernels::RowElements(keys.spec->head_dim);
  q_.resize(num_rows * padded);
  turned_.resize(q_.size());
  scores_.resize(num_rows * mass_.size());
  kernels::ConvertRows(keys.dtype, queries.q + first * padded * DTypeBytes(keys.dtype), padded,
                       DType::kFloat32, q_.data(), padded, num_rows, padded, padded);
  storage::RowLease lease;
  lease.Reset(keys.rows);
  for (size_t run = 0; run < keys.runs.size(); ++run) {
    const uint32_t turn = keys.turn_of_run[run];
    const float* q = q_.data();
    if (turn != 0) {
      keys.turns[turn - 1].Rows(q_.data(), num_rows, padded, turned_.data());
      q = turned_.data();
    }
    const TokenRange tokens = keys.runs[run].tokens;
    attention::HeadRun plain = keys.runs[run];
    plain.q_shift = 0;
    ATTNDB_RETURN_IF_ERROR(attention::ScoreRange(plain, tokens, {q, padded, num_rows},
                                                 {scores_.data() + tokens.begin, mass_.size()},
                                                 &lease));
  }
  for (size_t row = 0; row < num_rows; ++row) {
    const uint64_t end = std::min<uint64_t>(seen_before[first + row], mass_.size());
    const uint64_t window = keys.spec->sliding_window;
    const uint64_t begin = window == 0 || end < window ? 0 : end - window;
    AddWeights(*keys.spec, scores_.data() + row * mass_.size(), {begin, end}, &mass_);
    ++num_queries_;
  }
  return Status::Ok();
}

std::vector<TokenRange> HeaviestBlocks(std::span<const double> mass, TokenRange among,
                                       uint64_t num_tokens, uint64_t block_tokens) {
  struct Block {
    TokenRange tokens;
    double mass = 0;
  };
  std::vector<Block> blocks;
  for (uint64_t begin = among.begin; begin < among.end; begin += block_tokens) {
    const TokenRange tokens = {begin, std::min(among.end, begin + block_tokens)};
    const auto of_block = mass.subspan(tokens.begin, tokens.end - tokens.begin);
    blocks.push_back({tokens, std::accumulate(of_block.begin(), of_block.end(), 0.0)});
  }
  std::ranges::stable_sort(blocks, std::greater(), &Block::mass);
  blocks.resize(std::min<uint64_t>(blocks.size(), num_tokens / block_tokens));
  std::ranges::sort(blocks, {}, [](const Block& block) { return block.tokens.begin; });
  std::vector<TokenRange> ranges;
  for (const Block& block : blocks) {
    if (!ranges.empty() && ranges.back().end == block.tokens.begin) {
      ranges.back().end = block.tokens.end;
    } else {
      ranges.push_back(block.tokens);
    }
  }
  return ranges;
}

}  // namespace attndb::internal
