#include "index/planes/rotary_bias.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <string_view>

#include "common/check.h"
#include "kernels/layout.h"

namespace attndb::index {
namespace {

using kernels::kWeightBlock;

constexpr size_t kMaxPairs = kernels::kMaxRowElements / 2;
constexpr size_t kNumPolynomials = 8;
constexpr size_t kMaxFunctions = 2 * kMaxPairs + kNumPolynomials;
constexpr size_t kRowsAtATime = 4;
constexpr double kMiddle = (kRotaryTile - 1) / 2.0;
// Interpolation with 8 Chebyshev nodes is off by 2 J_8(x) for a sinusoid of x radians on either
// side: 5e-6 at 1.5.
constexpr double kSlowRadians = 1.5;

// The factor by which positions are divided; 0 if the scaling is another one.
double LinearFactor(std::string_view scaling) {
  constexpr std::string_view kLinear = "linear:factor=";
  if (scaling.empty()) return 1.0;
  if (!scaling.starts_with(kLinear)) return 0.0;
  const std::string number(scaling.substr(kLinear.size()));
  char* end = nullptr;
  const double factor = std::strtod(number.c_str(), &end);
  return *end == '\0' && factor >= 1.0 && std::isfinite(factor) ? factor : 0.0;
}

// T_m at the point of column i.
double Polynomial(size_t m, double i) {
  const double t = std::clamp((i - kMiddle) / kMiddle, -1.0, 1.0);
  return std::cos(static_cast<double>(m) * std::acos(t));
}

// The coefficient of polynomial m in f, of a column.
template <typename F>
double Interpolate(const F& f, size_t m) {
  constexpr auto kNodes = static_cast<double>(kNumPolynomials);
  double sum = 0;
  for (size_t node = 0; node < kNumPolynomials; ++node) {
    const double theta = std::numbers::pi * (static_cast<double>(node) + 0.5) / kNodes;
    sum += f(kMiddle * (1.0 + std::cos(theta))) * std::cos(static_cast<double>(m) * theta);
  }
  return sum * (m == 0 ? 1.0 : 2.0) / kNodes;
}

// A table of value(function, column), zeros behind the last column.
template <typename F>
std::vector<float> MakeTable(size_t num_functions, size_t num_columns, const F& value) {
  constexpr size_t kMultiple = kernels::kCombineColumns;
  std::vector<float> table((num_columns + kMultiple - 1) / kMultiple * kMultiple * num_functions);
  for (size_t f = 0; f < num_functions; ++f) {
    for (size_t i = 0; i < num_columns; ++i) {
      table[kernels::FunctionTable::Offset(num_functions, f, i)] = static_cast<float>(value(f, i));
    }
  }
  return table;
}

// Sines and cosines of `count` angles below 2^32, off by at most 10^-9. In float64, by operations
// that compilers vectorize, which takes a tenth of the time of std::cos and std::sin.
void SinCos(const double* angles, size_t count, double* sin, double* cos) {
  constexpr double kRound = 0x1.8p52;    // Leaves no bits for a fraction.
  constexpr double kTurnHigh = 6.28125;  // Few bits, so that its multiples are exact.
  constexpr double kTurnLow = 2 * std::numbers::pi - kTurnHigh;
  for (size_t i = 0; i < count; ++i) {
    const double turns = (angles[i] * (0.5 / std::numbers::pi) + kRound) - kRound;
    const double x = 0.5 * ((angles[i] - turns * kTurnHigh) - turns * kTurnLow);
    const double y = x * x;  // Taylor series of half the angle, at most pi / 2.
    double s = -1.0 / 1307674368000.0;
    s = s * y + 1.0 / 6227020800.0;
    s = s * y - 1.0 / 39916800.0;
    s = s * y + 1.0 / 362880.0;
    s = s * y - 1.0 / 5040.0;
    s = s * y + 1.0 / 120.0;
    s = s * y - 1.0 / 6.0;
    s = (s * y + 1.0) * x;
    double c = -1.0 / 87178291200.0;
    c = c * y + 1.0 / 479001600.0;
    c = c * y - 1.0 / 3628800.0;
    c = c * y + 1.0 / 40320.0;
    c = c * y - 1.0 / 720.0;
    c = c * y + 1.0 / 24.0;
    c = c * y - 0.5;
    c = c * y + 1.0;
    sin[i] = 2 * s * c;
    cos[i] = 1 - 2 * s * s;
  }
}

}  // namespace

std::vector<double> RotaryFrequencies(const Rope& rope, uint32_t head_dim) {
  const double factor = LinearFactor(rope.scaling);
  const uint32_t dims = rope.DimsOf(head_dim);
  if (rope.layout == RopeLayout::kNone || factor == 0.0 || !(rope.base >= 1.0)) return {};
  std::vector<double> frequencies(dims / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = std::pow(rope.base, -2.0 * static_cast<double>(i) / dims) / factor;
  }
  return frequencies;
}

RotaryTurns::RotaryTurns(std::span<const double> frequencies)
    : frequencies_(frequencies.begin(), frequencies.end()) {
  for (size_t i = 0; i < kWeightBlock; ++i) {
    for (const double frequency : frequencies_) {
      cos_.push_back(static_cast<float>(std::cos(frequency * static_cast<double>(i))));
      sin_.push_back(static_cast<float>(std::sin(frequency * static_cast<double>(i))));
    }
  }
}

std::vector<double> RotaryTurns::Turn(const std::vector<double>& pairs, int64_t position) const {
  const size_t n = frequencies_.size();
  double angles[kMaxPairs], sin[kMaxPairs], cos[kMaxPairs];
  for (size_t j = 0; j < n; ++j) angles[j] = frequencies_[j] * static_cast<double>(position);
  SinCos(angles, n, sin, cos);
  std::vector<double> turned(2 * n);
  for (size_t j = 0; j < n; ++j) {
    turned[j] = pairs[j] * cos[j] - pairs[n + j] * sin[j];
    turned[n + j] = pairs[j] * sin[j] + pairs[n + j] * cos[j];
  }
  return turned;
}

void RotaryTurns::Subtract(const float* bias, int64_t first_position, size_t num_rows, float* rows,
                           size_t stride) const {
  ATTNDB_DCHECK(num_rows <= kWeightBlock);
  const size_t n = frequencies_.size();
  const std::vector<double> turned = Turn({bias, bias + 2 * n}, first_position);
  const std::vector<float> start(turned.begin(), turned.end());
  for (size_t i = 0; i < num_rows; ++i) {
    const float* const cos = cos_.data() + i * n;
    const float* const sin = sin_.data() + i * n;
    float* const row = rows + i * stride;
    for (size_t j = 0; j < n; ++j) row[j] -= start[j] * cos[j] - start[n + j] * sin[j];
    for (size_t j = 0; j < n; ++j) row[n + j] -= start[j] * sin[j] + start[n + j] * cos[j];
  }
}

void RotaryTurns::SumTurnedBack(const float* rows, size_t stride, size_t num_rows,
                                int64_t first_position, double* sums) const {
  ATTNDB_DCHECK(num_rows <= kWeightBlock);
  const size_t n = frequencies_.size();
  std::vector<double> block(2 * n);
  for (size_t i = 0; i < num_rows; ++i) {
    const float* const cos = cos_.data() + i * n;
    const float* const sin = sin_.data() + i * n;
    const float* const row = rows + i * stride;
    for (size_t j = 0; j < n; ++j) {
      block[j] += double{row[j] * cos[j] + row[n + j] * sin[j]};
      block[n + j] += double{row[n + j] * cos[j] - row[j] * sin[j]};
    }
  }
  const std::vector<double> turned = Turn(block, -first_position);
  for (size_t d = 0; d < 2 * n; ++d) sums[d] += turned[d];
}

RotaryBias::RotaryBias(const float* bias, std::span<const double> frequencies)
    : num_pairs_(frequencies.size()) {
  ATTNDB_CHECK(num_pairs_ <= kMaxPairs);
  for (size_t j = 0; j < num_pairs_; ++j) {
    if (bias[j] != 0 || bias[num_pairs_ + j] != 0) pairs_.push_back({j, frequencies[j]});
  }
  const auto first_slow = std::stable_partition(pairs_.begin(), pairs_.end(), [](const Pair& pair) {
    return pair.frequency * kMiddle > kSlowRadians;
  });
  num_fast_ = static_cast<size_t>(first_slow - pairs_.begin());
  for (const size_t second : {size_t{0}, num_pairs_}) {
    for (const Pair& pair : pairs_) bias_.push_back(bias[second + pair.channel]);
  }
  for (const Pair& pair : pairs_) {
    step_cos_.push_back(std::cos(pair.frequency * double{kRotaryTile}));
    step_sin_.push_back(std::sin(pair.frequency * double{kRotaryTile}));
  }
  const size_t num_slow = pairs_.size() - num_fast_;
  table_ = MakeTable(num_functions(), kRotaryTile, [this](size_t f, size_t i) {
    const auto column = static_cast<double>(i);
    if (f < num_fast_) return std::cos(pairs_[f].frequency * column);
    if (f < 2 * num_fast_) return std::sin(pairs_[f - num_fast_].frequency * column);
    return Polynomial(f - 2 * num_fast_, column);
  });
  slow_ = MakeTable(2 * num_slow, kNumPolynomials, [&](size_t f, size_t m) {
    const double frequency = first_slow[static_cast<ptrdiff_t>(f % num_slow)].frequency;
    if (f < num_slow) return Interpolate([=](double i) { return std::cos(frequency * i); }, m);
    return Interpolate([=](double i) { return std::sin(frequency * i); }, m);
  });
}

size_t RotaryBias::num_functions() const { return 2 * num_fast_ + kNumPolynomials; }

// q.R(p) b = sum over pairs of cos(p w) (q1 b1 + q2 b2) + sin(p w) (q2 b1 - q1 b2).
void RotaryBias::Prepare(const float* q, float* terms) const {
  const size_t n = pairs_.size();
  for (size_t k = 0; k < n; ++k) {
    const float q1 = q[pairs_[k].channel], q2 = q[num_pairs_ + pairs_[k].channel];
    terms[k] = q1 * bias_[k] + q2 * bias_[n + k];
    terms[n + k] = q2 * bias_[k] - q1 * bias_[n + k];
  }
}

void RotaryBias::FindFactors(std::span<const float* const> terms, const float* cos,
                             const float* sin, float* factors) const {
  const size_t n = pairs_.size();
  const size_t num_slow = n - num_fast_;
  float slow[kRowsAtATime * 2 * kMaxPairs];
  for (size_t r = 0; r < terms.size(); ++r) {
    const float* const of_cos = terms[r];
    const float* const of_sin = terms[r] + n;
    float* const fast = factors + r * kMaxFunctions;
    float* const rest = slow + r * 2 * kMaxPairs;
    for (size_t k = 0; k < num_fast_; ++k) {
      fast[k] = of_cos[k] * cos[k] + of_sin[k] * sin[k];
      fast[num_fast_ + k] = of_sin[k] * cos[k] - of_cos[k] * sin[k];
    }
    for (size_t k = num_fast_; k < n; ++k) {
      rest[k - num_fast_] = of_cos[k] * cos[k] + of_sin[k] * sin[k];
      rest[num_slow + k - num_fast_] = of_sin[k] * cos[k] - of_cos[k] * sin[k];
    }
    std::fill_n(fast + 2 * num_fast_, kNumPolynomials, 0.0f);
  }
  kernels::AddCombinations({slow_.data(), kernels::kCombineColumns, 2 * num_slow}, slow,
                           2 * kMaxPairs, terms.size(), kNumPolynomials, factors + 2 * num_fast_,
                           kMaxFunctions);
}

void RotaryBias::AddScores(int64_t first_position, size_t num_keys,
                           std::span<const float* const> terms, float* scores,
                           size_t scores_stride) const {
  const size_t n = pairs_.size();
  double angles[kMaxPairs], exact_cos[kMaxPairs], exact_sin[kMaxPairs];
  float cos[kMaxPairs], sin[kMaxPairs];
  float factors[kRowsAtATime * kMaxFunctions];
  for (size_t k = 0; k < n; ++k) {
    angles[k] = pairs_[k].frequency * static_cast<double>(first_position);
  }
  SinCos(angles, n, exact_sin, exact_cos);
  for (size_t begin = 0; begin < num_keys; begin += kRotaryTile) {
    const size_t count = std::min(kRotaryTile, num_keys - begin);
    std::copy_n(exact_cos, n, cos);
    std::copy_n(exact_sin, n, sin);
    for (size_t r = 0; r < terms.size(); r += kRowsAtATime) {
      const size_t num_rows = std::min(kRowsAtATime, terms.size() - r);
      FindFactors(terms.subspan(r, num_rows), cos, sin, factors);
      kernels::AddCombinations({table_.data(), kRotaryTile, num_functions()}, factors,
                               kMaxFunctions, num_rows, count, scores + r * scores_stride + begin,
                               scores_stride);
    }
    // In float64, a million tiles are off by 1e-10 of a radian.
    for (size_t k = 0; k < n; ++k) {
      const double before = exact_cos[k];
      exact_cos[k] = before * step_cos_[k] - exact_sin[k] * step_sin_[k];
      exact_sin[k] = before * step_sin_[k] + exact_sin[k] * step_cos_[k];
    }
  }
}

}  // namespace attndb::index
