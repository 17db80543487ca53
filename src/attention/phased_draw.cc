#include "attention/phased_draw.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "attention/call_util.h"
#include "attention/threshold_sample.h"
#include "attention/word_noise.h"
#include "common/clock.h"
#include "common/infinity.h"
#include "common/log_sum.h"
#include "kernels/select.h"
#include "kernels/weight_words.h"
#include "kernels/weights.h"

namespace attndb::attention {

using kernels::DrawnTokens;
using kernels::StateRows;

namespace {

// Keys are drawn for this share of a head's trade and of its variance. Codes misjudge weights, so
// that more keys must be drawn than values. On SmolLM2's heads every trade from 0.15 to 2 takes the
// same bytes within a tenth.
constexpr double kKeyTrade = 0.35;
constexpr double kKeyShare = 0.35;
// The draw of values may add this share of the head's variance, even where the keys used it all up.
constexpr double kLeastValueShare = 0.25;

// Thresholds need not be exact: they are found from at most kMostCounted weights, in blocks.
constexpr uint64_t kBlock = 64;
constexpr uint64_t kMostCounted = 1024;

// A head draws again this often before it reads all tokens. It then aims lower than necessary.
constexpr uint32_t kMostRounds = 3;
constexpr double kLower = 0.7;

// A head with a smaller deviation leaves too little to chance to learn from.
constexpr double kLeastSpread = 1e-6;

constexpr int kUnit = kernels::kWordOfOne;
constexpr auto kWordsOfNat = static_cast<float>(kernels::kWordsOfNat);

// The words that stand for a logarithm of a ratio of weights. Ratios beyond the range of float32
// count as its ends.
constexpr double kMostNats = 80;
int WordsOf(double log) {
  return static_cast<int>(std::clamp(log, -kMostNats, kMostNats) * double{kWordsOfNat});
}

// Estimates the variance of a sum over a sample: each drawn token, which stands for weights[i],
// adds its square times the probability that it had been left out.
double SumOfVariances(const float* weights, const float* left_out, size_t count) {
  constexpr size_t kLanes = 16;
  float sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j)
      sums[j] += weights[i + j] * weights[i + j] * left_out[i + j];
  }
  for (; i < count; ++i) sums[0] += weights[i] * weights[i] * left_out[i];
  double sum = 0;
  for (const float lane : sums) sum += double{lane};
  return sum;
}

// exp(logit - *most) of each, where *most is the largest; returns their sum.
double ExpSum(const float* logits, size_t count, float* weights, float* most) {
  *most = count == 0 ? -kInfinity : kernels::MaxScore(logits, count);
  kernels::ExpWeights(logits, count, {1.0f}, *most, weights);
  return double{kernels::SumAtMost(weights, count, kInfinity)};
}

double LogSum(const float* logits, size_t count, float* scratch) {
  float most = 0;
  const double sum = ExpSum(logits, count, scratch, &most);
  return count == 0 ? -kInfinity : double{most} + std::log(sum);
}

}  // namespace

PhasedScratch PhasedScratch::Take(uint32_t group, uint64_t num_tokens, uint64_t num_fixed,
                                  size_t v_padded, Arena* arena) {
  PhasedScratch scratch;
  scratch.heads = arena->Take<PhasedHead>(group);
  scratch.by_codes = arena->Take<WeightHistogram>(group);
  scratch.by_keys = arena->Take<WeightHistogram>(1);
  scratch.bases = arena->Take<uint16_t>(group);
  scratch.key_words = arena->Take<int>(group);
  scratch.thresholds = arena->Take<float>(group);
  scratch.margins = arena->Take<uint16_t>(num_tokens);
  scratch.chances = arena->Take<float>(num_tokens);
  scratch.left_out = arena->Take<float>(num_tokens);
  scratch.drawn.tokens = arena->Take<uint32_t>(num_tokens);
  scratch.drawn.noise = arena->Take<float>(num_tokens);
  scratch.drawn.scores = arena->Take<float>(group * num_tokens);
  scratch.drawn.stride = num_tokens;
  scratch.drawn.chances = scratch.chances;
  scratch.fixed = TakeDrawn(group, num_fixed, arena);
  scratch.lists.certain = TakeDrawn(group, num_tokens, arena);
  scratch.lists.even = TakeDrawnHalf(group, num_tokens, arena);
  scratch.lists.odd = TakeDrawnHalf(group, num_tokens, arena);
  scratch.weights = arena->Take<float>(num_tokens);
  scratch.half_states = TakeStates(2 * group, v_padded, arena);
  return scratch;
}

PhasedDraw::PhasedDraw(const PhasedCall& call, PhasedScratch* scratch, CallCost* cost)
    : call_(call),
      scratch_(*scratch),
      cost_(cost),
      v_padded_(kernels::RowElements(call.spec->v_head_dim)) {
  std::fill_n(scratch_.heads, group(),
              PhasedHead{.reference = -kInfinity,
                         .trade = call.budget.trade,
                         .max_spread = call.budget.max_spread});
  scratch_.fixed.count = 0;
}

// Appends all of some tokens, which are certain.
Status PhasedDraw::ScoreFixed(TokenRange tokens) {
  DrawnTokens& fixed = scratch_.fixed;
  for (const HeadRun& run : call_.runs) {
    const TokenRange of_run = Intersect(tokens, run.tokens);
    if (of_run.begin >= of_run.end) continue;
    const size_t count = of_run.end - of_run.begin;
    ATTNDB_RETURN_IF_ERROR(
        ScoreRange(run, of_run, call_.q, {fixed.logits + fixed.count, fixed.stride}, call_.rows));
    for (size_t i = 0; i < count; ++i) {
      fixed.tokens[fixed.count + i] = static_cast<uint32_t>(of_run.begin + i);
    }
    for (uint32_t g = 0; g < group(); ++g) {
      float* const logits = fixed.logits + g * fixed.stride + fixed.count;
      kernels::ToLogits(logits, count, logit(), logits);
    }
    cost_->bytes_touched += count * run.k_bytes();
    fixed.count += count;
  }
  return Status::Ok();
}

// The log of the weight of a head's sinks, window and denominator.
double PhasedDraw::FixedMass(uint32_t g) const {
  const DrawnTokens& fixed = scratch_.fixed;
  const double log = LogSum(fixed.logits + g * fixed.stride, fixed.count, scratch_.weights);
  if (call_.denominator_logits == nullptr) return log;
  return AddLogs(log, double{call_.denominator_logits[g]});
}

// Estimates the mass of all tokens that a head sees: sinks and window exactly, the middle by codes.
void PhasedDraw::FindMasses() {
  for (uint32_t g = 0; g < group(); ++g) {
    PhasedHead& head = scratch_.heads[g];
    head.log_fixed = head.log_mass = FixedMass(g);
    for (const WeighedTokens& piece : call_.weights) {
      const double of_piece = std::log(double{piece.sums[g]}) + double{piece.references[g]};
      head.log_mass = AddLogs(head.log_mass, of_piece);
      head.reference = std::max(head.reference, piece.references[g]);
    }
    head.mass_word = kUnit + WordsOf(head.log_mass - double{head.reference});
  }
}

// Counts the weights of some blocks of the middle, of every head, all by the head's reference.
void PhasedDraw::CountWeights() {
  size_t num_tokens = 0;
  size_t num_blocks = 0;
  for (const WeighedTokens& piece : call_.weights) {
    const uint64_t count = piece.tokens.end - piece.tokens.begin;
    num_tokens += count;
    num_blocks += (count + kBlock - 1) / kBlock;
  }
  for (uint32_t g = 0; g < group(); ++g)
    scratch_.by_codes[g].Reset(scratch_.heads[g].mass_word + 1);
  const size_t stride = (num_blocks * kBlock + kMostCounted - 1) / kMostCounted;
  size_t block = 0;
  size_t num_counted = 0;
  for (const WeighedTokens& piece : call_.weights) {
    const uint64_t count = piece.tokens.end - piece.tokens.begin;
    for (size_t first = 0; first < count; first += kBlock, ++block) {
      // Not always the same one of a stride, in case weights repeat.
      if (block % stride != block / stride % stride) continue;
      const size_t in_block = std::min<size_t>(kBlock, count - first);
      for (uint32_t g = 0; g < group(); ++g) {
        const float below = scratch_.heads[g].reference - piece.references[g];
        const int less = static_cast<int>(std::min(below * kWordsOfNat, 65535.0f));
        const uint16_t* const words = piece.words + g * call_.words_stride + first;
        for (size_t i = 0; i < in_block; ++i) scratch_.by_codes[g].Add(words[i] - less);
      }
      num_counted += in_block;
    }
  }
  share_ =
      num_counted == 0 ? 1.0 : static_cast<double>(num_tokens) / static_cast<double>(num_counted);
}

void PhasedDraw::ChooseKeys() {
  for (uint32_t g = 0; g < group(); ++g) {
    const PhasedHead& head = scratch_.heads[g];
    const DrawGoal goal = {0, kKeyTrade * head.trade / (call_.effort * call_.effort),
                           kKeyShare * head.max_spread * head.max_spread};
    scratch_.key_words[g] = scratch_.by_codes[g].FindThreshold(goal, share_, head.mass_word);
  }
}

void PhasedDraw::DrawKeys() {
  const WordNoise noise(call_.seed);
  kernels::KeptTokens& drawn = scratch_.drawn;
  drawn.count = 0;
  for (const WeighedTokens& piece : call_.weights) {
    for (uint32_t g = 0; g < group(); ++g) {
      const float below = scratch_.heads[g].reference - piece.references[g];
      const float base = static_cast<float>(scratch_.key_words[g] - int{WordNoise::kCertain}) +
                         below * kWordsOfNat;
      scratch_.bases[g] = static_cast<uint16_t>(std::clamp(base, 0.0f, 65535.0f));
    }
    for (uint64_t token = piece.tokens.begin; token < piece.tokens.end;) {
      const uint64_t next = (token / WordNoise::kStretch + 1) * WordNoise::kStretch;
      const uint64_t end = std::min(next, piece.tokens.end);
      const kernels::WordDraw draw = {piece.words + (token - piece.tokens.begin),
                                      call_.words_stride, scratch_.bases, group(),
                                      noise.From(token)};
      drawn.count +=
          kernels::DrawByWords(draw, end - token, static_cast<uint32_t>(token),
                               drawn.tokens + drawn.count, scratch_.margins + drawn.count);
      token = end;
    }
  }
}

// Computes the logits of the drawn tokens, their weights over their probabilities, and the noise of
// the second phase.
Status PhasedDraw::ScoreKeys() {
  const kernels::KeptTokens& drawn = scratch_.drawn;
  ATTNDB_RETURN_IF_ERROR(ReadScores(call_.runs, {drawn.tokens, drawn.count}, call_.q,
                                    {drawn.scores, drawn.stride}, call_.rows, cost_));
  const WordNoise::Chances& chances = WordNoise::ChancesOfMargins();
  const DrawNoise noise(~call_.seed);
  const float* from = nullptr;
  uint64_t stretch = ~uint64_t{0};
  for (size_t i = 0; i < drawn.count; ++i) {
    const uint32_t token = drawn.tokens[i];
    if (token / DrawNoise::kStretch != stretch) {
      stretch = token / DrawNoise::kStretch;
      from = noise.From(stretch * DrawNoise::kStretch);
    }
    drawn.noise[i] = from[token % DrawNoise::kStretch];
    const uint16_t margin = std::min(scratch_.margins[i], WordNoise::kCertain);
    scratch_.chances[i] = chances.logs[margin];
    scratch_.left_out[i] = chances.left_out[margin];
  }
  for (uint32_t g = 0; g < group(); ++g) {
    float* const logits = drawn.scores + g * drawn.stride;
    kernels::ToLogits(logits, drawn.count, logit(), logits);
    for (size_t i = 0; i < drawn.count; ++i) logits[i] -= scratch_.chances[i];
  }
  return Status::Ok();
}

// The draw of values may have the variance that the draw of keys has left of a head's.
void PhasedDraw::ChooseValues() {
  const kernels::KeptTokens& drawn = scratch_.drawn;
  float* const weights = scratch_.weights;
  for (uint32_t g = 0; g < group(); ++g) {
    PhasedHead& head = scratch_.heads[g];
    float most = 0;
    const double sum = ExpSum(drawn.scores + g * drawn.stride, drawn.count, weights, &most);
    head.log_mass =
        drawn.count == 0 ? head.log_fixed : AddLogs(head.log_fixed, double{most} + std::log(sum));
    // Both are of weights over the largest one, which are the bits of a bfloat16 once cut.
    double of_keys = SumOfVariances(weights, scratch_.left_out, drawn.count);
    scratch_.by_keys->Reset(kUnit + 1);
    const size_t stride = drawn.count / kMostCounted + 1;
    size_t num_counted = 0;
    for (size_t i = g % stride; i < drawn.count; i += stride, ++num_counted) {
      scratch_.by_keys->Add(static_cast<int>(std::bit_cast<uint32_t>(weights[i]) >> 16));
    }
    const double share =
        static_cast<double>(drawn.count) / static_cast<double>(std::max<size_t>(1, num_counted));
    const double lower = std::min(head.log_mass - double{most}, kMostNats);
    of_keys *= std::exp(-2 * lower);
    const double max_variance = head.max_spread * head.max_spread;
    const DrawGoal goal = {of_keys, head.trade,
                           std::max(max_variance, of_keys + kLeastValueShare * max_variance)};
    const int unit = kUnit + WordsOf(lower);
    double predicted = 0;
    const int words = scratch_.by_keys->FindThreshold(goal, share, unit, &predicted);
    scratch_.thresholds[g] =
        static_cast<float>(head.log_mass) + static_cast<float>(words - unit) / kWordsOfNat;
    head.predicted = std::sqrt(predicted);
  }
}

void PhasedDraw::DrawValues() {
  kernels::DrawnLists& lists = scratch_.lists;
  lists.certain.count = lists.even.count = lists.odd.count = 0;
  kernels::PartDrawn({{1.0f}, scratch_.thresholds}, scratch_.drawn, 0, scratch_.drawn.count,
                     group(), kInfinity, &lists);
}

SampleRead PhasedDraw::read() const {
  return {.runs = call_.runs,
          .num_tokens = call_.visible.end,
          .q = {call_.q.q, call_.q.stride, group()},
          .logit = logit(),
          .v_padded = v_padded_,
          .light_by_codes = call_.plan->value_bits != 0,
          .rows = call_.rows,
          .cost = cost_};
}

Status PhasedDraw::AttendDrawn(const StateRows& states) {
  const kernels::DrawnLists& lists = scratch_.lists;
  ATTNDB_RETURN_IF_ERROR(
      AttendSample(read(), {&scratch_.fixed, &lists.certain}, lists, states, scratch_.half_states));
  FindErrors(states);
  MergeHalves(read(), scratch_.half_states, states);
  return Status::Ok();
}

// states: of certain tokens.
void PhasedDraw::FindErrors(const StateRows& states) {
  const kernels::DrawnLists& lists = scratch_.lists;
  if (lists.even.count + lists.odd.count == 0) {
    for (uint32_t g = 0; g < group(); ++g) {
      scratch_.heads[g].error = scratch_.heads[g].predicted;
      scratch_.heads[g].mass_left = 0;
    }
    return;
  }
  const double chance = std::sqrt(ShareOfChance(lists.even, lists.odd, scratch_.weights));
  for (uint32_t g = 0; g < group(); ++g) {
    const SplitError found =
        FindErrorOf(read(), g, states, scratch_.half_states, call_.denominator_logits);
    scratch_.heads[g].error = chance * found.error;
    scratch_.heads[g].mass_left = found.mass_left;
  }
}

// Decides for the open heads: draw again, with less variance, or read all tokens instead. Returns
// whether any head draws again. A head that is good enough stays so.
bool PhasedDraw::WantsMore() {
  const bool draws_most = static_cast<double>(scratch_.drawn.count) >=
                          kMostShareOfRows * static_cast<double>(num_middle());
  ++round_;
  bool wants_more = false;
  for (uint32_t g = 0; g < group(); ++g) {
    PhasedHead& head = scratch_.heads[g];
    if (!head.is_open) continue;
    head.is_open = !(head.error <= call_.budget.tolerated_error);
    if (!head.is_open) continue;
    const double lower = kLower * call_.budget.tolerated_error / head.error;
    head.max_spread = lower * std::min(head.max_spread, head.predicted);
    head.trade *= lower * lower * lower;
    head.reads_all = draws_most || round_ == kMostRounds;
    head.is_open = !head.reads_all;
    wants_more = wants_more || head.is_open;
  }
  return wants_more;
}

void PhasedDraw::Book() {
  const kernels::DrawnLists& lists = scratch_.lists;
  cost_->num_queries += group();
  cost_->num_redraws += round_ - 1;
  cost_->num_drawn_keys += scratch_.drawn.count;
  cost_->num_drawn_values += lists.certain.count + lists.even.count + lists.odd.count;
  for (uint32_t g = 0; g < group(); ++g) {
    const PhasedHead& head = scratch_.heads[g];
    cost_->num_selected += head.reads_all ? num_middle() : lists.certain.count;
    cost_->AddDraw(head.reads_all ? 0 : head.error, head.reads_all ? 0 : head.mass_left);
    cost_->num_fallbacks += static_cast<uint64_t>(head.reads_all);
    if (head.predicted > kLeastSpread) cost_->AddSpread(head.error / head.predicted);
  }
}

Status PhasedDraw::Attend(const StateRows& states) {
  const int64_t start_ns = SteadyNowNanos();
  ATTNDB_RETURN_IF_ERROR(ScoreFixed({call_.visible.begin, call_.middle.begin}));
  ATTNDB_RETURN_IF_ERROR(ScoreFixed({call_.middle.end, call_.visible.end}));
  FindMasses();
  CountWeights();
  cost_->select_ns += SteadyNowNanos() - start_ns;
  do {
    const int64_t round_ns = SteadyNowNanos();
    ChooseKeys();
    DrawKeys();
    ATTNDB_RETURN_IF_ERROR(ScoreKeys());
    ChooseValues();
    DrawValues();
    const int64_t drawn_ns = SteadyNowNanos();
    ATTNDB_RETURN_IF_ERROR(AttendDrawn(states));
    cost_->select_ns += drawn_ns - round_ns;
    cost_->attend_ns += SteadyNowNanos() - drawn_ns;
  } while (WantsMore());
  const int64_t all_ns = SteadyNowNanos();
  ATTNDB_RETURN_IF_ERROR(ReadAllMarked(read(), scratch_.heads, states));
  cost_->attend_ns += SteadyNowNanos() - all_ns;
  Book();
  return Status::Ok();
}

}  // namespace attndb::attention
