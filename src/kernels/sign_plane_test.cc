// Goal:   signs, factors, tables and scores are what sign_plane.h says, to the bit and on every
//         ISA; scores estimate inner products without bias.
// Method: grid over ISA, channels, keys, offsets and group sizes; blocks are compared bit by bit
//         with the codes of the planes, scores with float64. All buffers have their exact size, so
//         that the sanitizers see a read past an end.
// Replay: seeds are constants.
#include "kernels/sign_plane.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/convert.h"
#include "kernels/test_block_offsets.h"
#include "kernels/test_rows.h"

namespace attndb::kernels {
namespace {

constexpr Sizes kChannels = {16, 48, 64, 80, 128, 256};

size_t RoundUp(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Planes of keys and the signs made of them. Each buffer is an allocation of its own.
struct Signs {
  Signs(const std::vector<float>& keys, size_t channels)
      : num_channels(channels), num_keys(keys.size() / channels) {
    const size_t num_coded = RoundUp(num_keys, kPlaneKeys);
    high.resize(num_coded * channels / 2);
    low.resize(num_coded * channels / 2);
    scales.resize(num_coded);
    const size_t num_signed = RoundUp(num_keys, kSignKeys);
    signs.assign(num_signed * channels / 8, 0);
    factors.assign(num_signed, 0);
    float residual_sq[kPlaneKeys];
    for (size_t key = 0; key < num_keys; key += kPlaneKeys) {
      uint8_t* const half = &signs[SignOffset(key, channels)];
      for (size_t at = 0; at < 4 * channels; at += 16) std::fill_n(half + at, 8, uint8_t{0xaa});
      std::fill_n(&factors[key], kPlaneKeys, uint16_t{0xaaaa});
      EncodePlanes(&keys[key * channels], channels, std::min(kPlaneKeys, num_keys - key), channels,
                   {&high[key * channels / 2], &low[key * channels / 2], &scales[key], half,
                    &factors[key], residual_sq});
    }
  }
  SignView view() const { return {signs.data(), factors.data(), num_channels}; }
  int Code(size_t key, size_t channel) const {
    const size_t at = key / kPlaneKeys * PlaneBlockBytes(num_channels) + channel / 8 * 64 +
                      4 * (key % kPlaneKeys) + channel % 4;
    const int shift = channel % 8 < 4 ? 0 : 4;
    return 16 * (high[at] >> shift & 15) + (low[at] >> shift & 15) - 128;
  }
  // As the header places it.
  bool Positive(size_t key, size_t channel) const {
    const size_t at = key / kSignKeys * SignBlockBytes(num_channels) + channel / 4 * 16 +
                      key % kSignKeys / 8 * 4 + key % 4;
    return (signs[at] >> (key % 8 < 4 ? 0 : 4) >> channel % 4 & 1) != 0;
  }
  double Factor(size_t key) const { return double{ToFloat32(factors[key], DType::kBFloat16)}; }

  size_t num_channels;
  size_t num_keys;
  std::vector<uint8_t> high;
  std::vector<uint8_t> low;
  std::vector<uint16_t> scales;
  std::vector<uint8_t> signs;
  std::vector<uint16_t> factors;
};

// The tables of each q row are an allocation of exactly SignTableBytes().
struct Group {
  Group(const std::vector<float>& q, size_t num_channels) {
    for (size_t at = 0; at < q.size(); at += num_channels) {
      SignQuery query;
      tables.push_back(std::make_unique<uint8_t[]>(SignTableBytes(num_channels)));
      EncodeSignQuery(q.data() + at, num_channels, tables.back().get(), &query.scale,
                      &query.magnitude_sum);
      query.tables = tables.back().get();
      query.offset = 0.125f * static_cast<float>(at % 7) - 0.3f;
      queries.push_back(query);
    }
  }
  std::vector<std::unique_ptr<uint8_t[]>> tables;
  std::vector<SignQuery> queries;
};

// The code that the tables hold for a channel.
int CodeOf(const SignQuery& query, size_t channel) {
  const uint8_t* const table = query.tables + channel / 4 * 16;
  return table[1 << channel % 4] - table[0];
}

class SignPlaneTest : public IsaTest {
 protected:
  std::vector<float> Normal(size_t count, float spread = 1.0f) {
    std::normal_distribution<float> normal(0.0f, spread);
    std::vector<float> values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }
  // Normal, zero, huge and tiny keys, and one with a channel that towers.
  std::vector<float> Keys(size_t num_keys, size_t num_channels) {
    std::vector<float> keys = Normal(num_keys * num_channels);
    for (size_t key = 0; key < num_keys; ++key) {
      const float factors[] = {1, 1, 0, 1, 1e30f, 1e-30f, 1};
      float* const x = &keys[key * num_channels];
      for (size_t i = 0; i < num_channels; ++i) x[i] *= factors[key % 7];
      if (key % 7 == 3) x[key % num_channels] = -1000;
    }
    return keys;
  }
  void CheckScan(const Signs& signs, size_t first_key, size_t num_keys, const Group& group) {
    const size_t num_rows = group.queries.size();
    const size_t stride = num_keys + 5;
    std::vector<float> scores(num_rows * stride, -7.0f);
    ScanSigns(signs.view(), first_key, num_keys, group.queries.data(), num_rows, scores.data(),
              stride);
    for (size_t r = 0; r < num_rows; ++r) {
      const SignQuery& q = group.queries[r];
      for (size_t i = 0; i < stride; ++i) {
        const float score = scores[r * stride + i];
        if (i >= num_keys) {
          ASSERT_EQ(score, -7.0f) << "wrote past the scores";
          continue;
        }
        int sum = 0;
        for (size_t c = 0; c < signs.num_channels; ++c) {
          sum += signs.Positive(first_key + i, c) ? CodeOf(q, c) : -CodeOf(q, c);
        }
        const double product = double{q.scale} * signs.Factor(first_key + i) * sum;
        const double magnitude = std::abs(product) + std::abs(double{q.offset});
        ASSERT_NEAR(score, product + double{q.offset}, 4 * 0x1p-24 * magnitude + 1e-30)
            << "key " << first_key << " + " << i << " row " << r << " channels "
            << signs.num_channels;
      }
    }
  }
};

TEST_P(SignPlaneTest, SignsAreThoseOfTheCodesAndFactorsThoseOfLeastBias) {
  for (const size_t channels : kChannels) {
    for (const size_t num_keys : Sizes{1, 15, 16, 17, 32, 75}) {
      const Signs signs(Keys(num_keys, channels), channels);
      for (size_t key = 0; key < num_keys; ++key) {
        double square = 0;
        double magnitude = 0;
        for (size_t i = 0; i < channels; ++i) {
          const int code = signs.Code(key, i);
          ASSERT_EQ(signs.Positive(key, i), code >= 0) << "key " << key << " channel " << i;
          square += code * code;
          magnitude += std::abs(code);
        }
        const double scale = double{ToFloat32(signs.scales[key], DType::kBFloat16)};
        const double expected = magnitude == 0 ? 0 : scale * square / magnitude;
        ASSERT_NEAR(signs.Factor(key), expected, 0x1.01p-8 * expected) << "key " << key;
      }
    }
  }
}

TEST_P(SignPlaneTest, MissingKeysHaveFactorZero) {
  for (const size_t num_keys : Sizes{1, 16, 17, 31}) {
    const Signs signs(Normal(num_keys * 48), 48);
    for (size_t key = num_keys; key < kSignKeys; ++key) {
      ASSERT_EQ(signs.factors[key], 0) << key;
      // As codes of 0 in a block that has keys; else zeros.
      ASSERT_EQ(signs.Positive(key, 5), key < RoundUp(num_keys, kPlaneKeys)) << key;
    }
  }
}

TEST_P(SignPlaneTest, FactorsOfTheLargestKeysAreFinite) {
  const Signs signs(std::vector<float>(32 * 16, -3.4e38f), 16);
  for (size_t key = 0; key < 32; ++key) ASSERT_TRUE(std::isfinite(signs.Factor(key)));
}

TEST_P(SignPlaneTest, TablesHoldCodesWithinHalfAScaleWhoseSumsFitAByte) {
  for (const size_t channels : kChannels) {
    for (const float spread : {1.0f, 1e37f, 1e-30f, 1e-38f, 1e-43f, 0.0f}) {
      const std::vector<float> q = Normal(channels, spread);
      const Group group(q, channels);
      const SignQuery& query = group.queries[0];
      int total = 0;
      std::vector<int> sums(RoundUp(channels, 128) / 128);
      for (size_t i = 0; i < channels; ++i) {
        const int code = CodeOf(query, i);
        ASSERT_LE(std::abs(double{q[i]} - double{query.scale} * code), 0.50001 * query.scale);
        sums[i / 128] += std::abs(code);
        total += std::abs(code);
        int largest = 0;
        for (size_t bits = 0; bits < 16; ++bits) {
          largest = std::max<int>(largest, query.tables[i / 4 * 16 + bits]);
        }
        const size_t first = i / 4 * 4;
        int magnitude = 0;
        for (size_t j = first; j < first + 4; ++j) magnitude += std::abs(CodeOf(query, j));
        ASSERT_EQ(largest, magnitude) << "entries do not begin at the least sum";
      }
      ASSERT_EQ(query.magnitude_sum, total);
      const int most = *std::max_element(sums.begin(), sums.end());
      ASSERT_LE(most, 255);
      ASSERT_EQ(query.scale == 0, spread == 0);
      if (spread >= 1e-30f) {
        ASSERT_GE(most, 255 - static_cast<int>(std::min<size_t>(channels, 128)))
            << "scale is too large";
      }
    }
  }
}

TEST_P(SignPlaneTest, ScoresEqualFloat64ForEveryGroupSize) {
  for (const size_t channels : kChannels) {
    const Signs signs(Keys(150, channels), channels);
    for (size_t num_rows = 1; num_rows <= 9; ++num_rows) {
      CheckScan(signs, 0, 150, Group(Normal(num_rows * channels), channels));
    }
  }
}

TEST_P(SignPlaneTest, ScoresEqualFloat64ForEveryRunOfKeys) {
  for (const size_t channels : Sizes{16, 80, 128}) {
    const Signs signs(Keys(150, channels), channels);
    const Group group(Normal(5 * channels), channels);
    for (const size_t first : Sizes{0, 1, 31, 32, 33, 64, 149}) {
      for (const size_t n : Sizes{0, 1, 15, 31, 32, 33, 64, 85, 150}) {
        if (first + n <= 150) CheckScan(signs, first, n, group);
      }
    }
  }
}

TEST_P(SignPlaneTest, BlocksMayHaveOffsetsOfTheirOwn) {
  const size_t channels = 80;
  const Signs signs(Keys(250, channels), channels);
  const Group group(Normal(5 * channels), channels);
  CheckBlockOffsets(
      group.queries, Normal(5 * 4),
      [&](size_t first, size_t n, const SignQuery* queries, size_t num_rows, float* scores,
          size_t stride) { ScanSigns(signs.view(), first, n, queries, num_rows, scores, stride); });
}

TEST_P(SignPlaneTest, TheLargestSumsDoNotOverflow) {
  for (const float sign : {1.0f, -1.0f}) {
    for (const size_t channels : Sizes{128, 1024}) {
      const Signs signs(std::vector<float>(32 * channels, sign), channels);
      CheckScan(signs, 0, 32, Group(std::vector<float>(4 * channels, -2.0f), channels));
    }
  }
}

// Keys that lean towards q, as those do which a search is after.
TEST_P(SignPlaneTest, ScoresEstimateInnerProductsWithoutBias) {
  for (const size_t channels : Sizes{64, 128}) {
    constexpr size_t kKeys = 4000;
    const std::vector<float> q = Normal(channels);
    std::vector<float> keys = Normal(kKeys * channels);
    for (size_t i = 0; i < keys.size(); ++i) keys[i] += 0.3f * q[i % channels];
    const Signs signs(keys, channels);
    Group group(q, channels);
    group.queries[0].offset = 0.0f;
    std::vector<float> scores(kKeys);
    ScanSigns(signs.view(), 0, kKeys, group.queries.data(), 1, scores.data(), kKeys);
    double exact_sum = 0, error_sum = 0, error_sq = 0;
    for (size_t key = 0; key < kKeys; ++key) {
      double exact = 0, norm_sq = 0, q_sq = 0;
      for (size_t i = 0; i < channels; ++i) {
        const double x = double{keys[key * channels + i]};
        exact += double{q[i]} * x;
        norm_sq += x * x;
        q_sq += double{q[i]} * double{q[i]};
      }
      const double error = double{scores[key]} - exact;
      exact_sum += exact;
      error_sum += error;
      error_sq += error * error * static_cast<double>(channels) / (norm_sq * q_sq);
    }
    EXPECT_LT(std::abs(error_sum), 0.06 * exact_sum) << channels;  // This q is not random.
    EXPECT_LT(std::sqrt(error_sq / kKeys), 0.85) << channels;      // 0.76 in the limit.
    EXPECT_GT(std::sqrt(error_sq / kKeys), 0.65) << channels;
  }
}

TEST_P(SignPlaneTest, BitsEqualThoseOfThePortableTarget) {
  for (const size_t channels : kChannels) {
    const std::vector<float> keys = Keys(83, channels);
    const std::vector<float> q = Normal(7 * channels);
    std::vector<float> scores[2];
    std::vector<Signs> signs;
    std::vector<Group> groups;
    for (const int side : {0, 1}) {
      ASSERT_TRUE(ForceIsa(side == 0 ? Isa::kScalar : GetParam()));
      signs.emplace_back(keys, channels);
      groups.emplace_back(q, channels);
      scores[side].assign(7 * 80, 0.0f);
      ScanSigns(signs.back().view(), 2, 80, groups.back().queries.data(), 7, scores[side].data(),
                80);
    }
    ASSERT_EQ(signs[0].signs, signs[1].signs);
    ASSERT_EQ(signs[0].factors, signs[1].factors);
    for (size_t r = 0; r < 7; ++r) {
      const SignQuery &a = groups[0].queries[r], &b = groups[1].queries[r];
      ASSERT_EQ(std::memcmp(a.tables, b.tables, SignTableBytes(channels)), 0);
      ASSERT_EQ(a.scale, b.scale);
      ASSERT_EQ(a.magnitude_sum, b.magnitude_sum);
    }
    for (size_t i = 0; i < 7 * 80; ++i) ASSERT_EQ(scores[0][i], scores[1][i]) << i;
  }
}

ATTNDB_INSTANTIATE_ISAS(SignPlaneTest);

}  // namespace
}  // namespace attndb::kernels
