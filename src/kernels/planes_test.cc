// Goal:   codes, scales and scores equal, to the bit, the definitions in planes.h on every ISA.
// Method: grid over ISA, channels, keys, offsets and group sizes; blocks are compared with codes
//         laid out one by one, scores with integer sums and float64. All buffers have their exact
//         size, so that the sanitizers see a read past an end.
// Replay: seeds are constants.
#include "kernels/planes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/convert.h"
#include "kernels/test_block_offsets.h"
#include "kernels/test_kept.h"
#include "kernels/test_rows.h"

namespace attndb::kernels {
namespace {

constexpr Sizes kChannels = {16, 48, 64, 80, 128, 256};

size_t NumBlocks(size_t num_keys) { return (num_keys + kPlaneKeys - 1) / kPlaneKeys; }

// Keys and all that EncodePlanes makes of them. Each buffer is an allocation of its own.
struct Planes {
  Planes(const std::vector<float>& keys, size_t channels, size_t stride)
      : num_channels(channels), num_keys(keys.size() / stride), residual_sq(num_keys) {
    const size_t num_bytes = NumBlocks(num_keys) * PlaneBlockBytes(channels);
    high.assign(num_bytes, 0xaa);
    low.assign(num_bytes, 0xaa);
    scales.assign(NumBlocks(num_keys) * kPlaneKeys, 0xaaaa);
    for (size_t key = 0; key < num_keys; key += kPlaneKeys) {
      const size_t n = std::min(kPlaneKeys, num_keys - key);
      // The last row ends where its channels do.
      std::vector<float> rows(keys.begin() + static_cast<std::ptrdiff_t>(key * stride),
                              keys.begin() + static_cast<std::ptrdiff_t>((key + n) * stride));
      rows.resize((n - 1) * stride + channels);
      rows.shrink_to_fit();
      const size_t at = key / kPlaneKeys * PlaneBlockBytes(channels);
      EncodePlanes(rows.data(), stride, n, channels,
                   {&high[at], &low[at], &scales[key], &residual_sq[key]});
    }
  }
  PlanesView view() const { return {high.data(), low.data(), scales.data(), num_channels}; }
  // The nibble of a channel, as the header places it.
  int Nibble(const std::vector<uint8_t>& plane, size_t key, size_t channel) const {
    const size_t block = key / kPlaneKeys * PlaneBlockBytes(num_channels);
    const size_t byte = block + channel / 8 * 64 + 4 * (key % kPlaneKeys) + channel % 4;
    return plane[byte] >> (channel % 8 < 4 ? 0 : 4) & 15;
  }
  int Code(size_t key, size_t channel) const {
    return 16 * Nibble(high, key, channel) + Nibble(low, key, channel) - 128;
  }
  double Scale(size_t key) const { return double{ToFloat32(scales[key], DType::kBFloat16)}; }

  size_t num_channels;
  size_t num_keys;
  std::vector<uint8_t> high;
  std::vector<uint8_t> low;
  std::vector<uint16_t> scales;
  std::vector<float> residual_sq;
};

// Quantized q rows; the codes of each are an allocation of exactly num_channels.
struct Group {
  Group(const std::vector<float>& q, size_t num_channels) {
    for (size_t at = 0; at < q.size(); at += num_channels) {
      PlaneQuery query;
      codes.push_back(std::make_unique<int8_t[]>(num_channels));
      EncodePlaneQuery(q.data() + at, num_channels, codes.back().get(), &query.scale,
                       &query.code_sum);
      query.codes = codes.back().get();
      query.offset = 0.125f * static_cast<float>(at % 7) - 0.3f;
      queries.push_back(query);
    }
  }
  std::vector<std::unique_ptr<int8_t[]>> codes;
  std::vector<PlaneQuery> queries;
};

struct Expected {
  double score;
  double magnitude;  // Sum of the absolute terms that are rounded.
};
// The formula of the header in float64; its sums are integers.
Expected Score(const Planes& planes, int bits, size_t key, const PlaneQuery& q) {
  int64_t high = 0;
  int64_t low = 0;
  for (size_t i = 0; i < planes.num_channels; ++i) {
    high += planes.Nibble(planes.high, key, i) * q.codes[i];
    if (bits == 8) low += planes.Nibble(planes.low, key, i) * q.codes[i];
  }
  const double sum = bits == 8 ? static_cast<double>(16 * high + low - 128 * q.code_sum)
                               : static_cast<double>(16 * high) + (7.5 - 128) * q.code_sum;
  const double product = double{q.scale} * planes.Scale(key) * sum;
  return {product + double{q.offset}, std::abs(product) + std::abs(double{q.offset})};
}

class PlanesTest : public IsaTest {
 protected:
  // Keys of all kinds: normal, zero, one channel that towers, huge, tiny, denormal, and with the
  // largest magnitude at both signs.
  std::vector<float> Keys(size_t num_keys, size_t num_channels) {
    std::vector<float> keys = Normal(num_keys * num_channels);
    for (size_t key = 0; key < num_keys; ++key) {
      float* const x = &keys[key * num_channels];
      const float factors[] = {1, 1, 0, 1, 1e30f, 1e-38f, 1e-41f, 1, 1e-20f, 1};
      for (size_t i = 0; i < num_channels; ++i) x[i] *= factors[key % 10];
      if (key % 10 == 3) x[key % num_channels] = 1000;
      if (key % 10 == 7) x[key % num_channels] = -1000;
      if (key % 10 == 9) std::fill(x, x + num_channels, key % 20 == 9 ? 3.0f : -3.0f);
    }
    return keys;
  }
  void CheckScan(const Planes& planes, int bits, size_t first_key, size_t num_keys,
                 const Group& group) {
    const size_t num_rows = group.queries.size();
    const size_t stride = num_keys + 5;
    std::vector<float> scores(num_rows * stride, -7.0f);
    ScanPlanes(planes.view(), bits, first_key, num_keys, group.queries.data(), num_rows,
               scores.data(), stride);
    for (size_t r = 0; r < num_rows; ++r) {
      for (size_t i = 0; i < stride; ++i) {
        const float score = scores[r * stride + i];
        if (i >= num_keys) {
          ASSERT_EQ(score, -7.0f) << "wrote past the scores";
          continue;
        }
        const Expected expected = Score(planes, bits, first_key + i, group.queries[r]);
        ASSERT_NEAR(score, expected.score, 4 * 0x1p-24 * expected.magnitude + 1e-30)
            << bits << " bits, key " << first_key << " + " << i << " row " << r << " channels "
            << planes.num_channels;
      }
    }
  }
};

TEST_P(PlanesTest, CodesAreWithinHalfAScaleAndScalesAreTheLeast) {
  for (const size_t channels : kChannels) {
    for (const size_t num_keys : Sizes{1, 7, 16, 40}) {
      const std::vector<float> keys = Keys(num_keys, channels);
      const Planes planes(keys, channels, channels);
      for (size_t key = 0; key < num_keys; ++key) {
        const double scale = planes.Scale(key);
        double max = 0;
        for (size_t i = 0; i < channels; ++i) {
          const double x = keys[key * channels + i];
          max = std::max(max, std::abs(x));
          ASSERT_LE(std::abs(x - scale * planes.Code(key, i)), scale * 0.5 * (1 + 1e-4))
              << "key " << key << " channel " << i << " of " << channels << ": " << x;
        }
        ASSERT_GE(scale * 127.5, max * (1 - 1e-7));
        const double below = double{ToFloat32(static_cast<uint16_t>(planes.scales[key] - 1),  //
                                              DType::kBFloat16)};
        if (max == 0) {
          ASSERT_EQ(scale, 0);
        } else if (scale != 0x1p-126) {
          ASSERT_LT(below * 127.5, max) << "not the least scale";
        }
      }
    }
  }
}

TEST_P(PlanesTest, CodesRoundToNearestEven) {
  std::vector<float> key(16);
  key[0] = -127.5f;  // Scale 1.
  const float values[] = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 126.5f, 127.5f, -126.5f, 0.49f, 100.51f};
  const int codes[] = {0, 2, 2, 0, -2, 126, 127, -126, 0, 101};
  std::copy(std::begin(values), std::end(values), key.begin() + 1);
  const Planes planes(key, 16, 16);
  EXPECT_EQ(planes.Scale(0), 1.0);
  EXPECT_EQ(planes.Code(0, 0), -128);
  for (size_t i = 0; i < std::size(codes); ++i) EXPECT_EQ(planes.Code(0, i + 1), codes[i]) << i;
}

TEST_P(PlanesTest, ZeroKeysAndMissingKeysHaveCodeAndScaleZero) {
  for (const size_t channels : kChannels) {
    const Planes planes(std::vector<float>(3 * channels), channels, channels);
    for (size_t key = 0; key < kPlaneKeys; ++key) {
      ASSERT_EQ(planes.scales[key], 0);
      for (size_t i = 0; i < channels; ++i) ASSERT_EQ(planes.Code(key, i), 0);
    }
    for (const float residual : planes.residual_sq) ASSERT_EQ(residual, 0.0f);
    const std::vector<float> one = Normal(channels);
    const Planes rest(one, channels, channels);
    for (size_t key = 1; key < kPlaneKeys; ++key) {
      ASSERT_EQ(rest.scales[key], 0);
      for (size_t i = 0; i < channels; ++i) ASSERT_EQ(rest.Code(key, i), 0);
    }
  }
}

TEST_P(PlanesTest, ResidualIsTheSquaredNormOfWhatCodesLeave) {
  for (const size_t channels : kChannels) {
    const std::vector<float> keys = Normal(21 * channels);
    const Planes planes(keys, channels, channels);
    for (size_t key = 0; key < 21; ++key) {
      double expected = 0;
      for (size_t i = 0; i < channels; ++i) {
        const double left =
            double{keys[key * channels + i]} - planes.Scale(key) * planes.Code(key, i);
        expected += left * left;
      }
      ASSERT_NEAR(planes.residual_sq[key], expected, 1e-4 * expected);
    }
  }
}

TEST_P(PlanesTest, AStrideChangesNothing) {
  for (const size_t channels : kChannels) {
    const size_t stride = channels + 7;
    std::vector<float> keys = Keys(27, channels);
    std::vector<float> spread(27 * stride, kNaN);
    for (size_t key = 0; key < 27; ++key) {
      std::copy_n(&keys[key * channels], channels, &spread[key * stride]);
    }
    const Planes dense(keys, channels, channels);
    const Planes strided(spread, channels, stride);
    ASSERT_EQ(dense.high, strided.high);
    ASSERT_EQ(dense.low, strided.low);
    ASSERT_EQ(dense.scales, strided.scales);
    ASSERT_EQ(dense.residual_sq, strided.residual_sq);
  }
}

TEST_P(PlanesTest, QueryCodesAreWithinHalfAScale) {
  for (const size_t channels : kChannels) {
    for (const float spread : {1.0f, 1e30f, 1e-30f, 1e-38f, 1e-43f, 0.0f}) {
      std::vector<float> q = Normal(channels, spread);
      q.shrink_to_fit();
      const Group group(q, channels);
      const PlaneQuery& query = group.queries[0];
      int32_t sum = 0;
      double max = 0;
      for (size_t i = 0; i < channels; ++i) {
        const int code = query.codes[i];
        ASSERT_LE(std::abs(double{q[i]} - double{query.scale} * code), 0.50001 * query.scale);
        ASSERT_LE(std::abs(code), 127);
        max = std::max(max, std::abs(double{q[i]}));
        sum += code;
        if (i % 2 == 0) continue;
        ASSERT_LE(std::abs(code + query.codes[i - 1]), 128) << "channels " << i - 1 << ", " << i;
        max = std::max(max, std::abs(double{q[i]} + double{q[i - 1]}));
      }
      ASSERT_EQ(query.code_sum, sum);
      const double scale = max == 0 ? 0 : std::max(max / 127, 0x1p-126);
      ASSERT_NEAR(query.scale, scale, 1e-6 * scale) << "not the least scale";
    }
  }
}

TEST_P(PlanesTest, QueryCodesOfTheLargestNumbersAreFinite) {
  for (const float sign : {1.0f, -1.0f}) {
    std::vector<float> q(16, 3e38f);
    for (size_t i = 1; i < 16; i += 2) q[i] *= sign;
    const Group group(q, 16);
    const PlaneQuery& query = group.queries[0];
    EXPECT_TRUE(std::isfinite(query.scale));
    for (size_t i = 0; i < 16; ++i) {
      EXPECT_EQ(query.codes[i], i % 2 == 0 ? query.codes[0] : sign * query.codes[0]) << i;
      EXPECT_GE(std::abs(query.codes[i]), 63);
    }
  }
}

TEST_P(PlanesTest, ScoresEqualFloat64ForEveryGroupSize) {
  for (const size_t channels : kChannels) {
    const Planes planes(Keys(150, channels), channels, channels);
    for (size_t num_rows = 1; num_rows <= 9; ++num_rows) {
      const Group group(Normal(num_rows * channels), channels);
      for (const int bits : {4, 8}) CheckScan(planes, bits, 0, 150, group);
    }
  }
}

TEST_P(PlanesTest, ScoresEqualFloat64ForEveryRunOfKeys) {
  for (const size_t channels : Sizes{16, 80, 128}) {
    const Planes planes(Keys(150, channels), channels, channels);
    const Group group(Normal(5 * channels), channels);
    for (const size_t first : Sizes{0, 1, 15, 16, 17, 63, 64, 65, 149}) {
      for (const size_t n : Sizes{0, 1, 15, 16, 17, 31, 33, 64, 85, 150}) {
        if (first + n > 150) continue;
        for (const int bits : {4, 8}) CheckScan(planes, bits, first, n, group);
      }
    }
  }
}

TEST_P(PlanesTest, BlocksMayHaveOffsetsOfTheirOwn) {
  const size_t channels = 80;
  const Planes planes(Keys(250, channels), channels, channels);
  const Group group(Normal(5 * channels), channels);
  CheckBlockOffsets(group.queries, Normal(5 * 4),
                    [&](size_t first, size_t n, const PlaneQuery* queries, size_t num_rows,
                        float* scores, size_t stride) {
                      ScanPlanes(planes.view(), 4, first, n, queries, num_rows, scores, stride);
                    });
}

// In any order, twice, and a last one that is not whole.
TEST_P(PlanesTest, ListedBlocksScoreAsInAScan) {
  constexpr size_t kKeys = 5 * kOffsetKeys + 20;
  const std::vector<uint32_t> blocks = {4, 0, 5, 2, 2, 1};
  for (const size_t channels : Sizes{16, 64, 128, 256}) {
    const Planes planes(Normal(kKeys * channels), channels, channels);
    for (const size_t num_rows : Sizes{1, 2, 3, 4, 5, 9}) {
      Group group(Normal(num_rows * channels), channels);
      const std::vector<float> offsets = Normal(num_rows * 6);
      for (const int bits : {4, 8}) {
        std::vector<float> all(num_rows * 6 * kOffsetKeys);
        std::vector<float> listed(num_rows * 6 * kOffsetKeys);
        std::vector<float> of_listed(num_rows * 6);
        for (size_t r = 0; r < num_rows; ++r) {
          for (size_t i = 0; i < 6; ++i) of_listed[6 * r + i] = offsets[6 * r + blocks[i]];
          group.queries[r].block_offsets = &offsets[6 * r];
        }
        ScanPlanes(planes.view(), bits, 0, kKeys, group.queries.data(), num_rows, all.data(),
                   6 * kOffsetKeys);
        for (size_t r = 0; r < num_rows; ++r) group.queries[r].block_offsets = &of_listed[6 * r];
        ScanPlaneBlocks(planes.view(), bits, {blocks.data(), 6, kKeys}, group.queries.data(),
                        num_rows, listed.data(), 6 * kOffsetKeys);
        for (size_t r = 0; r < num_rows; ++r) {
          for (size_t i = 0; i < 6; ++i) {
            const size_t begin = blocks[i] * kOffsetKeys;
            const size_t count = std::min(kOffsetKeys, kKeys - begin);
            for (size_t j = 0; j < count; ++j) {
              ASSERT_EQ(listed[(6 * r + i) * kOffsetKeys + j], all[r * 6 * kOffsetKeys + begin + j])
                  << channels << " channels, " << num_rows << " rows, " << bits << " bits";
            }
          }
        }
      }
    }
  }
}

// Blocks that need more noise than there is are left out; where few are, all are scored.
TEST_P(PlanesTest, KeysThatNeedMoreNoiseAreSkipped) {
  constexpr size_t kKeys = 512;
  const size_t channels = 32;
  const Planes planes(Normal(kKeys * channels), channels, channels);
  const std::vector<float> noise = Normal(kKeys, 3.0f);
  const std::vector<float> thresholds = {1.0f, 2.0f, 1.0f, 2.0f};
  const DrawRule rule = {{.scale = 0.5f}, thresholds.data()};
  for (const size_t num_rows : Sizes{1, 2, 3, 4}) {
    const Group group(Normal(num_rows * channels), channels);
    const PlaneQuery* const queries = group.queries.data();
    for (const float least : {-100.0f, 4.0f, 6.0f, 8.0f, 100.0f}) {
      const std::vector<float> needs = {least, least + 1, 100.0f, least, 5.0f, least, least, least};
      std::vector<float> hidden = noise;  // Keys that are not scored can't be kept.
      size_t num_listed = 0;
      for (size_t i = 0; i < kKeys; i += kPlaneKeys) {
        const float most = *std::max_element(&noise[i], &noise[i] + kPlaneKeys);
        const bool listed = most >= needs[i / kOffsetKeys];
        num_listed += listed ? kPlaneKeys : 0;
        if (!listed) std::fill_n(&hidden[i], kPlaneKeys, -1e30f);
      }
      const bool skips = 4 * num_listed < 3 * kKeys;
      TestKept expected(num_rows, kKeys), kept(num_rows, kKeys);
      KeepPlanes(planes.view(), 4, 0, kKeys, queries, num_rows, rule,
                 skips ? hidden.data() : noise.data(), 7, nullptr, &expected.kept);
      ASSERT_EQ(KeepPlanes(planes.view(), 4, 0, kKeys, queries, num_rows, rule, noise.data(), 7,
                           needs.data(), &kept.kept),
                skips ? num_listed : kKeys);
      ASSERT_TRUE(kept == expected) << num_rows << " rows, " << least;
    }
  }
}

// Whatever the noise says: some are kept, some not.
TEST_P(PlanesTest, OnePassKeepsWhatAScanAndASecondOneDo) {
  constexpr size_t kKeys = 256;
  const size_t channels = 48;
  const Planes planes(Normal(kKeys * channels), channels, channels);
  const std::vector<float> noise = Normal(kKeys, 3.0f);
  const std::vector<float> offsets = Normal(4 * 4);
  const std::vector<float> thresholds = {5.0f, 4.0f, 6.0f, 5.0f};
  const DrawRule rule = {{.scale = 0.5f}, thresholds.data()};
  for (const size_t num_rows : Sizes{1, 2, 3, 4}) {
    Group group(Normal(num_rows * channels), channels);
    for (size_t r = 0; r < num_rows; ++r) group.queries[r].block_offsets = &offsets[4 * r];
    const PlaneQuery* const queries = group.queries.data();
    for (const size_t first : Sizes{0, 16, 64, 80}) {
      for (const size_t n : Sizes{0, 16, 64, 176}) {
        for (const int bits : {4, 8}) {
          std::vector<float> scores(num_rows * n);
          ScanPlanes(planes.view(), bits, first, n, queries, num_rows, scores.data(), n);
          TestKept expected(num_rows, n), kept(num_rows, n);
          KeepTokens(rule, scores.data(), n, num_rows, n, noise.data(), 900, &expected.kept);
          ASSERT_EQ(KeepPlanes(planes.view(), bits, first, n, queries, num_rows, rule, noise.data(),
                               900, nullptr, &kept.kept),
                    n);
          ASSERT_EQ(kept.kept.count, expected.kept.count);
          ASSERT_TRUE(n < 64 || (kept.kept.count > 0 && kept.kept.count < n));
          ASSERT_TRUE(kept == expected) << num_rows << " rows, " << first << " + " << n;
        }
      }
    }
  }
}

TEST_P(PlanesTest, ScansOfFourBitsNeedNoLowPlane) {
  Planes planes(Keys(40, 128), 128, 128);
  planes.low.clear();
  CheckScan(planes, 4, 3, 37, Group(Normal(4 * 128), 128));
}

TEST_P(PlanesTest, TheLargestSumsDoNotOverflow) {
  for (const float sign : {1.0f, -1.0f}) {
    for (const size_t channels : Sizes{128, 1024}) {
      const Planes planes(std::vector<float>(16 * channels, sign), channels, channels);
      const Group group(std::vector<float>(4 * channels, -2.0f), channels);
      for (const int bits : {4, 8}) CheckScan(planes, bits, 0, 16, group);
    }
  }
}

TEST_P(PlanesTest, ScoresAreCloseToTheInnerProducts) {
  const size_t channels = 128;
  const std::vector<float> keys = Normal(64 * channels);
  const std::vector<float> q = Normal(channels);
  const Planes planes(keys, channels, channels);
  Group group(q, channels);
  group.queries[0].offset = 0.0f;
  for (const int bits : {4, 8}) {
    std::vector<float> scores(64);
    ScanPlanes(planes.view(), bits, 0, 64, group.queries.data(), 1, scores.data(), 64);
    for (size_t key = 0; key < 64; ++key) {
      double exact = 0;
      for (size_t i = 0; i < channels; ++i) exact += double{q[i]} * keys[key * channels + i];
      // Six deviations of sqrt(d) uniform errors of half a step each: 2.6 / 127.5 or / 8.
      EXPECT_NEAR(scores[key], exact, bits == 8 ? 0.7 : 8.0) << bits << " bits, key " << key;
    }
  }
}

TEST_P(PlanesTest, BitsEqualThoseOfThePortableTarget) {
  for (const size_t channels : kChannels) {
    const std::vector<float> keys = Keys(83, channels);
    const std::vector<float> q = Normal(7 * channels);
    std::vector<float> scores[2][2];
    std::vector<Planes> planes;
    std::vector<Group> groups;
    for (const int side : {0, 1}) {
      ASSERT_TRUE(ForceIsa(side == 0 ? Isa::kScalar : GetParam()));
      planes.emplace_back(keys, channels, channels);
      groups.emplace_back(q, channels);
      for (const int wide : {0, 1}) {
        scores[side][wide].assign(7 * 80, 0.0f);
        ScanPlanes(planes.back().view(), wide ? 8 : 4, 2, 80, groups.back().queries.data(), 7,
                   scores[side][wide].data(), 80);
      }
    }
    ASSERT_EQ(planes[0].high, planes[1].high);
    ASSERT_EQ(planes[0].low, planes[1].low);
    ASSERT_EQ(planes[0].scales, planes[1].scales);
    const size_t float_bytes = planes[0].num_keys * sizeof(float);
    ASSERT_EQ(std::memcmp(planes[0].residual_sq.data(), planes[1].residual_sq.data(), float_bytes),
              0);
    for (size_t r = 0; r < 7; ++r) {
      const PlaneQuery &a = groups[0].queries[r], &b = groups[1].queries[r];
      ASSERT_EQ(std::memcmp(a.codes, b.codes, channels), 0);
      ASSERT_EQ(a.scale, b.scale);
      ASSERT_EQ(a.code_sum, b.code_sum);
    }
    for (const int wide : {0, 1}) {
      for (size_t i = 0; i < 7 * 80; ++i) ASSERT_EQ(scores[0][wide][i], scores[1][wide][i]) << i;
    }
  }
}

ATTNDB_INSTANTIATE_ISAS(PlanesTest);

}  // namespace
}  // namespace attndb::kernels
