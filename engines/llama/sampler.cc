#include "engines/llama/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <unordered_set>

namespace attndb::llama {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

Status CheckFraction(const char* name, float value) {
  if (value >= 0.0f && value <= 1.0f) return Status::Ok();
  return Status::InvalidArgument(std::string("sampler option ") + name + " is " +
                                 std::to_string(value) + ", expected 0 to 1");
}

Status CheckSampler(const SamplerOptions& options) {
  if (!(options.temperature >= 0.0f) || !std::isfinite(options.temperature)) {
    return Status::InvalidArgument("sampler option temperature is " +
                                   std::to_string(options.temperature) + ", expected 0 or more");
  }
  if (!(options.repeat_penalty > 0.0f) || !std::isfinite(options.repeat_penalty)) {
    return Status::InvalidArgument("sampler option repeat_penalty is " +
                                   std::to_string(options.repeat_penalty) +
                                   ", expected more than 0");
  }
  if (!std::isfinite(options.frequency_penalty) || !std::isfinite(options.presence_penalty)) {
    return Status::InvalidArgument("sampler options frequency_penalty and presence_penalty are " +
                                   std::to_string(options.frequency_penalty) + " and " +
                                   std::to_string(options.presence_penalty) + ", expected numbers");
  }
  if (options.top_k < 0) {
    return Status::InvalidArgument("sampler option top_k is " + std::to_string(options.top_k) +
                                   ", expected 0 or more");
  }
  if (options.repeat_last_n < 0) {
    return Status::InvalidArgument("sampler option repeat_last_n is " +
                                   std::to_string(options.repeat_last_n) + ", expected 0 or more");
  }
  ATTNDB_RETURN_IF_ERROR(CheckFraction("top_p", options.top_p));
  return CheckFraction("min_p", options.min_p);
}

void AddBias(std::span<const TokenBias> biases, uint32_t vocab_size, llama_sampler* chain) {
  if (biases.empty()) return;
  std::vector<llama_logit_bias> list;
  list.reserve(biases.size());
  for (const auto& [token, bias] : biases) list.push_back({token, bias});
  llama_sampler_chain_add(
      chain, llama_sampler_init_logit_bias(static_cast<int32_t>(vocab_size),
                                           static_cast<int32_t>(list.size()), list.data()));
}

}  // namespace

TokenId ArgMax(std::span<const float> logits) {
  // Two passes that vectorise: 49,152 logits take 8 us where one pass with an index takes 60.
  float largest = logits[0];
  for (const float logit : logits) largest = logit > largest ? logit : largest;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] == largest) return static_cast<TokenId>(i);
  }
  return 0;  // Only if all are NaN.
}

TokenId RunnerUp(std::span<const float> logits, TokenId best) {
  size_t second = best == 0 ? 1 : 0;
  for (size_t i = second + 1; i < logits.size(); ++i) {
    if (static_cast<TokenId>(i) != best && logits[i] > logits[second]) second = i;
  }
  return static_cast<TokenId>(second);
}

double GapOf(std::span<const float> logits, TokenId a, TokenId b) {
  return double{logits[static_cast<size_t>(a)]} - double{logits[static_cast<size_t>(b)]};
}

Status CheckLogitBias(std::span<const TokenBias> biases, uint32_t vocab_size) {
  std::unordered_set<TokenId> forbidden;
  for (const auto& [token, bias] : biases) {
    if (token < 0 || static_cast<uint32_t>(token) >= vocab_size) {
      return Status::InvalidArgument("logit_bias has token " + std::to_string(token) +
                                     ", the vocabulary has ids 0 to " +
                                     std::to_string(vocab_size - 1));
    }
    if (!std::isfinite(bias) && bias != kNever) {
      return Status::InvalidArgument("logit_bias of token " + std::to_string(token) + " is " +
                                     std::to_string(bias) + ", expected a number");
    }
    if (bias == kNever) forbidden.insert(token);
  }
  if (forbidden.size() < vocab_size) return Status::Ok();
  return Status::InvalidArgument("logit_bias forbids every token of the vocabulary");
}

Result<TokenSampler> TokenSampler::Make(const SamplerOptions& options, uint32_t vocab_size) {
  ATTNDB_RETURN_IF_ERROR(CheckSampler(options));
  ATTNDB_RETURN_IF_ERROR(CheckLogitBias(options.logit_bias, vocab_size));
  TokenSampler sampler;
  const bool penalized = (options.repeat_penalty != 1.0f || options.frequency_penalty != 0.0f ||
                          options.presence_penalty != 0.0f) &&
                         options.repeat_last_n != 0;
  sampler.draws_ = options.temperature != 0.0f;
  if (!sampler.draws_ && !penalized && options.logit_bias.empty()) return sampler;
  sampler.chain_.reset(llama_sampler_chain_init(llama_sampler_chain_default_params()));
  llama_sampler* const chain = sampler.chain_.get();
  for (const auto& [token, bias] : options.logit_bias) {
    if (bias == kNever) sampler.forbidden_.push_back(token);
  }
  AddBias(options.logit_bias, vocab_size, chain);
  if (penalized) {
    llama_sampler_chain_add(
        chain, llama_sampler_init_penalties(static_cast<int32_t>(vocab_size), options.repeat_last_n,
                                            options.repeat_penalty, options.frequency_penalty,
                                            options.presence_penalty));
  }
  if (!sampler.draws_) {
    llama_sampler_chain_add(chain, llama_sampler_init_greedy());
    return sampler;
  }
  llama_sampler_chain_add(chain, llama_sampler_init_top_k(options.top_k));
  llama_sampler_chain_add(chain, llama_sampler_init_top_p(options.top_p, 1));
  llama_sampler_chain_add(chain, llama_sampler_init_min_p(options.min_p, 1));
  llama_sampler_chain_add(chain, llama_sampler_init_temp(options.temperature));
  // LLAMA_DEFAULT_SEED means "random" to llama.cpp; ours are all fixed.
  const uint32_t seed = options.seed == LLAMA_DEFAULT_SEED ? 0 : options.seed;
  llama_sampler_chain_add(chain, llama_sampler_init_dist(seed));
  return sampler;
}

TokenId TokenSampler::Sample(std::span<const float> logits) {
  if (chain_ == nullptr) return ArgMax(logits);
  candidates_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    candidates_[i] = {static_cast<llama_token>(i), logits[i], 0.0f};
  }
  llama_token_data_array array = {candidates_.data(), candidates_.size(), -1, false};
  llama_sampler_apply(chain_.get(), &array);
  left_ = {array.data, array.size};
  return array.selected < 0 ? ArgMax(logits) : array.data[array.selected].id;
}

std::optional<TokenId> TokenSampler::SampleOf(std::span<const float> logits,
                                              const std::function<bool(TokenId)>& is_allowed) {
  std::vector<float> masked(logits.size(), kNever);
  for (size_t i = 0; i < logits.size(); ++i) {
    if (is_allowed(static_cast<TokenId>(i))) masked[i] = logits[i];
  }
  for (const TokenId token : forbidden_) masked[static_cast<size_t>(token)] = kNever;
  // llama.cpp would draw from probabilities that are no numbers.
  const bool has_any = std::ranges::any_of(masked, [](float logit) { return logit > kNever; });
  if (!has_any) return std::nullopt;
  const TokenId token = Sample(masked);
  return masked[static_cast<size_t>(token)] > kNever ? token : ArgMax(masked);
}

TokenChances TokenSampler::Chances(TokenId chosen, size_t num_likeliest) const {
  TokenChances chances = {.chosen = 1, .likeliest = {{chosen, 1}}};
  if (draws_) {
    chances.likeliest.clear();
    for (const llama_token_data& candidate : left_) {
      if (candidate.id == chosen) chances.chosen = double{candidate.p};
      if (candidate.p > 0) chances.likeliest.push_back({candidate.id, double{candidate.p}});
    }
  }
  const size_t count = std::min(num_likeliest, chances.likeliest.size());
  const auto end = chances.likeliest.begin() + static_cast<ptrdiff_t>(count);
  std::partial_sort(chances.likeliest.begin(), end, chances.likeliest.end(),
                    [](const TokenChance& a, const TokenChance& b) {
                      return a.value != b.value ? a.value > b.value : a.token < b.token;
                    });
  chances.likeliest.erase(end, chances.likeliest.end());
  return chances;
}

void TokenSampler::Accept(TokenId token) {
  if (chain_ != nullptr) llama_sampler_accept(chain_.get(), token);
}

}  // namespace attndb::llama
