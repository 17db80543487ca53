#include "simulate/workload.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/random.h"

namespace attndb::tier {
namespace {

constexpr double kSingleShare = 0.22;  // [AS] 2.3.
constexpr double kMeanTurns = 3.51;    // [AS] 4.2.
constexpr uint32_t kMaxTurns = 12;
// Sigma of the log of a conversation's tokens per turn.
constexpr double kConversationSigma = 0.65;
constexpr double kTurnSigma = 0.45;  // Sigma of the log of turns' tokens within a conversation.

// The chances of 2 to kMaxTurns turns, where each is `ratio` times the one before.
using TurnChances = std::array<double, kMaxTurns - 1>;
TurnChances Geometric(double ratio) {
  TurnChances chances;
  double chance = 1.0;
  double sum = 0.0;
  for (double& each : chances) {
    each = chance;
    sum += chance;
    chance *= ratio;
  }
  for (double& each : chances) each /= sum;
  return chances;
}

double MeanTurns(const TurnChances& chances) {
  double mean = 0.0;
  for (size_t i = 0; i < chances.size(); ++i) mean += chances[i] * static_cast<double>(i + 2);
  return mean;
}

// The chances whose mean, with single turns, is kMeanTurns.
TurnChances FittedChances() {
  const double wanted = (kMeanTurns - kSingleShare) / (1.0 - kSingleShare);
  double low = 0.0;
  double high = 1.0;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (MeanTurns(Geometric(middle)) < wanted ? low : high) = middle;
  }
  return Geometric(low);
}

double Exponential(Random* random, double mean) {
  return -std::log(1.0 - random->NextDouble()) * mean;
}

uint32_t DrawTurns(const TurnChances& chances, Random* random) {
  if (random->NextDouble() < kSingleShare) return 1;
  double left = random->NextDouble();
  uint32_t turns = 2;
  for (const double chance : chances) {
    if (left < chance || turns == kMaxTurns) break;
    left -= chance;
    ++turns;
  }
  return turns;
}

uint32_t Tokens(double tokens) {
  return static_cast<uint32_t>(std::clamp(std::round(tokens), 1.0, 1e9));
}

}  // namespace

Workload SyntheticWorkload(const SyntheticOptions& options) {
  const TurnChances chances = FittedChances();
  Random random(options.seed);
  Workload workload;
  workload.conversations.reserve(options.num_conversations);
  double start = 0.0;
  for (uint64_t i = 0; i < options.num_conversations; ++i) {
    start += Exponential(&random, 1.0 / options.conversations_per_second);
    const uint32_t num_turns = DrawTurns(chances, &random);
    workload.conversations.push_back({workload.turns.size(), num_turns});
    const double of_conversation =
        options.turn_tokens * std::exp(kConversationSigma * random.NextGaussian());
    for (uint32_t turn = 0; turn < num_turns; ++turn) {
      const double tokens = of_conversation * std::exp(kTurnSigma * random.NextGaussian());
      const double pause = turn == 0 ? 0.0 : Exponential(&random, options.think_seconds);
      workload.turns.push_back({.not_before = turn == 0 ? start : 0.0,
                                .pause = static_cast<float>(pause),
                                .new_tokens = Tokens(tokens * options.new_token_share),
                                .answer_tokens = Tokens(tokens * (1 - options.new_token_share))});
    }
  }
  return workload;
}

}  // namespace attndb::tier
