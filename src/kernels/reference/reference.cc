#include "kernels/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace attndb::kernels::reference {
namespace {

// The meaning of the formats, written independently of the kernels: sign, exponent, fraction.
double ValueOf(uint32_t bits, int exponent_bits, int fraction_bits) {
  const uint32_t fraction = bits & ((1u << fraction_bits) - 1);
  const uint32_t all_ones = (1u << exponent_bits) - 1;
  const uint32_t exponent = bits >> fraction_bits & all_ones;
  const bool negative = (bits >> (exponent_bits + fraction_bits) & 1) != 0;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  double value = 0;
  if (exponent == all_ones) {
    value = fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                          : std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, 1 - bias - fraction_bits);
  } else {
    value = std::ldexp(fraction + (1u << fraction_bits),
                       static_cast<int>(exponent) - bias - fraction_bits);
  }
  return negative ? -value : value;
}

}  // namespace

double At(const RowsView& rows, size_t row, size_t i) {
  const size_t at = row * rows.stride + i;
  if (rows.dtype == DType::kFloat32) return static_cast<const float*>(rows.data)[at];
  const uint16_t bits = static_cast<const uint16_t*>(rows.data)[at];
  return rows.dtype == DType::kFloat16 ? ValueOf(bits, 5, 10) : ValueOf(bits, 8, 7);
}

Dot DotRow(const RowsView& k, size_t row, const float* q) {
  Dot dot;
  for (size_t i = 0; i < k.num_elements; ++i) {
    const double product = static_cast<double>(q[i]) * At(k, row, i);
    dot.score += product;
    dot.magnitude += std::abs(product);
  }
  return dot;
}

double LogitOf(double score, const LogitSpec& logit) {
  const double scaled = score * static_cast<double>(logit.scale);
  const double cap = static_cast<double>(logit.soft_cap);
  return cap == 0 ? scaled : cap * std::tanh(scaled / cap);
}

Attention Attend(const RowsView& k, const RowsView& v, std::span<const uint32_t> tokens,
                 const float* q, const LogitSpec& logit) {
  Attention result = {std::vector<double>(v.num_elements, 0.0),
                      -std::numeric_limits<double>::infinity()};
  if (tokens.empty()) return result;
  std::vector<double> weights;
  for (const uint32_t token : tokens) {
    weights.push_back(LogitOf(DotRow(k, token, q).score, logit));
  }
  const double max = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - max);
  for (size_t j = 0; j < tokens.size(); ++j) {
    for (size_t i = 0; i < v.num_elements; ++i) {
      result.out[i] += weights[j] / sum * At(v, tokens[j], i);
    }
  }
  result.lse = max + std::log(sum);
  return result;
}

std::vector<uint32_t> TopK(std::span<const float> scores, size_t k) {
  std::vector<uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    if (std::isnan(scores[a]) || std::isnan(scores[b])) {
      return std::isnan(scores[a]) && !std::isnan(scores[b]);
    }
    return scores[a] > scores[b];
  });
  order.resize(std::min(k, order.size()));
  std::sort(order.begin(), order.end());
  return order;
}

std::vector<uint32_t> Range(std::span<const float> scores, float threshold) {
  std::vector<uint32_t> found;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!(scores[i] < threshold)) found.push_back(static_cast<uint32_t>(i));
  }
  return found;
}

}  // namespace attndb::kernels::reference
