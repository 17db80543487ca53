// Goal:   codes, scores and weights follow product_codes.h; scores and weights to the bit and on
//         every ISA.
// Method: grid over ISA, subspaces, bits, keys and group sizes, against tables and sums made one by
//         one. All buffers have their exact size, so that the sanitizers see a read past an end.
// Replay: seeds are constants.
#include "kernels/product_codes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/convert.h"
#include "kernels/test_rows.h"

namespace attndb::kernels {
namespace {

constexpr Sizes kSubspaces = {2, 4, 8, 16, 32};
constexpr Sizes kBits = {4, 6, 8};

size_t NumBlocks(size_t num_keys) { return (num_keys + kCodeKeys - 1) / kCodeKeys; }

struct Codebook {
  CodebookView view() const {
    return {centroids.data(), half_squares.data(), num_channels, num_subspaces, bits};
  }
  float At(size_t subspace, size_t entry, size_t channel) const {
    const size_t width = num_channels / num_subspaces;
    return centroids[(subspace * width + channel) * CodeEntries(bits) + entry];
  }

  size_t num_channels;
  size_t num_subspaces;
  size_t bits;
  std::vector<float> centroids;
  std::vector<float> half_squares;
};

// Codes of some keys, of any value.
struct Codes {
  ProductCodesView view() const { return {bytes.data(), num_subspaces, bits}; }
  uint32_t At(size_t key, size_t subspace) const {
    const size_t block = key / kCodeKeys * CodeBlockBytes(num_subspaces, bits);
    const size_t line = bits == 4 ? subspace / 2 : subspace;
    const uint8_t byte = bytes[block + line * kCodeKeys + CodeByte(key % kCodeKeys)];
    return bits != 4 ? byte : subspace % 2 == 0 ? byte & 15u : byte >> 4;
  }

  size_t num_subspaces;
  size_t bits;
  std::vector<uint8_t> bytes;
};

// The tables of the q rows of a group, on this ISA.
class Tables {
 public:
  Tables(const Codebook& codebook, const std::vector<float>& q)
      : rows_(q.size() / codebook.num_channels),
        entries_(
            LookupTableBytes(codebook.num_subspaces, codebook.bits, rows_.size()) / sizeof(float),
            kNaN) {
    view_ = BuildLookupTables(codebook.view(), q.data(), codebook.num_channels, rows_.size(),
                              reinterpret_cast<std::byte*>(entries_.data()), rows_.data());
  }
  const LookupTables& view() const { return view_; }
  const TableRow& row(size_t r) const { return rows_[r]; }

 private:
  std::vector<TableRow> rows_;
  AlignedFloats entries_;
  LookupTables view_;
};

// A row's tables, made as the header says.
struct ExpectedRow {
  ExpectedRow(const Codebook& codebook, const float* q) {
    const size_t width = codebook.num_channels / codebook.num_subspaces;
    const size_t num_entries = CodeEntries(codebook.bits);
    std::vector<float> least;
    float range = 0;
    for (size_t s = 0; s < codebook.num_subspaces; ++s) {
      std::vector<float> of_subspace(num_entries);
      for (size_t e = 0; e < num_entries; ++e) {
        for (size_t j = 0; j < width; ++j) {
          const float term = q[s * width + j] * codebook.At(s, e, j);
          of_subspace[e] += term;
        }
      }
      const auto [low, high] = std::ranges::minmax_element(of_subspace);
      least.push_back(*low);
      offset += *low;
      range = std::max(range, *high - *low);
      products.push_back(of_subspace);
    }
    scale = range == 0 ? 0 : std::max(range / 255.0f, 0x1p-126f);
    const float inverse = range == 0 ? 0 : 1.0f / scale;
    for (size_t s = 0; s < codebook.num_subspaces; ++s) {
      std::vector<uint32_t> of_subspace;
      for (const float product : products[s]) {
        const float steps = (product - least[s]) * inverse;
        of_subspace.push_back(static_cast<uint32_t>(std::min(std::nearbyint(steps), 255.0f)));
      }
      max_sum += *std::ranges::max_element(of_subspace);
      entries.push_back(of_subspace);
    }
  }
  uint32_t Sum(const Codes& codes, size_t key) const {
    uint32_t sum = 0;
    for (size_t s = 0; s < entries.size(); ++s) sum += entries[s][codes.At(key, s)];
    return sum;
  }
  float Score(uint32_t sum) const {
    const float product = static_cast<float>(sum) * scale;
    return product + offset;
  }
  // Before rounding to entries.
  double Exact(const Codes& codes, size_t key) const {
    double sum = 0;
    for (size_t s = 0; s < entries.size(); ++s) sum += double{products[s][codes.At(key, s)]};
    return sum;
  }

  std::vector<std::vector<float>> products;
  std::vector<std::vector<uint32_t>> entries;
  float scale = 0;
  float offset = 0;
  uint32_t max_sum = 0;
};

class ProductCodesTest : public IsaTest {
 protected:
  Codebook RandomCodebook(size_t num_subspaces, size_t bits, size_t num_channels = 64) {
    Codebook made = {
        num_channels, num_subspaces, bits, Normal(num_channels * CodeEntries(bits)), {}};
    SetHalfSquares(&made);
    return made;
  }
  static void SetHalfSquares(Codebook* codebook) {
    const size_t width = codebook->num_channels / codebook->num_subspaces;
    codebook->half_squares.clear();
    for (size_t s = 0; s < codebook->num_subspaces; ++s) {
      for (size_t e = 0; e < CodeEntries(codebook->bits); ++e) {
        float square = 0;
        for (size_t j = 0; j < width; ++j) {
          square += codebook->At(s, e, j) * codebook->At(s, e, j);
        }
        codebook->half_squares.push_back(square / 2);
      }
    }
  }
  Codes RandomCodes(size_t num_keys, size_t num_subspaces, size_t bits) {
    Codes codes = {num_subspaces, bits,
                   std::vector<uint8_t>(NumBlocks(num_keys) * CodeBlockBytes(num_subspaces, bits))};
    const uint32_t mask = bits == 6 ? 63 : 255;
    for (uint8_t& byte : codes.bytes) byte = static_cast<uint8_t>(random_() & mask);
    return codes;
  }
};

void CheckScan(const Codebook& codebook, const Codes& codes, const std::vector<float>& q,
               size_t first_key, size_t num_keys) {
  const size_t num_rows = q.size() / codebook.num_channels;
  const Tables tables(codebook, q);
  const size_t stride = num_keys + 5;
  std::vector<float> scores(num_rows * stride, -7.0f);
  ScanProductCodes(codes.view(), first_key, num_keys, tables.view(), scores.data(), stride);
  for (size_t r = 0; r < num_rows; ++r) {
    const ExpectedRow expected(codebook, q.data() + r * codebook.num_channels);
    ASSERT_EQ(tables.row(r).scale, expected.scale);
    ASSERT_EQ(tables.row(r).max_sum, expected.max_sum);
    for (size_t i = 0; i < stride; ++i) {
      const float score = scores[r * stride + i];
      if (i >= num_keys) {
        ASSERT_EQ(score, -7.0f) << "wrote past the scores";
        continue;
      }
      ASSERT_EQ(score, expected.Score(expected.Sum(codes, first_key + i)))
          << codes.num_subspaces << " x " << codes.bits << " bits, key " << first_key << " + " << i
          << " row " << r << " of " << num_rows;
      ASSERT_LE(score, tables.row(r).max_score);
    }
  }
}

TEST_P(ProductCodesTest, ScoresAreSumsOfEntriesForEveryShapeAndGroup) {
  for (const size_t num_subspaces : kSubspaces) {
    for (const size_t bits : kBits) {
      const Codebook codebook = RandomCodebook(num_subspaces, bits);
      const Codes codes = RandomCodes(210, num_subspaces, bits);
      for (const size_t num_rows : Sizes{1, 2, 3, 4, 5, 7, 8}) {
        CheckScan(codebook, codes, Normal(num_rows * 64), 0, 210);
      }
    }
  }
}

TEST_P(ProductCodesTest, ScoresAreSumsOfEntriesForEveryRunOfKeys) {
  for (const size_t bits : kBits) {
    const Codebook codebook = RandomCodebook(8, bits);
    const Codes codes = RandomCodes(330, 8, bits);
    for (const size_t first : Sizes{0, 1, 31, 32, 63, 64, 65, 129, 329}) {
      for (const size_t n : Sizes{0, 1, 2, 33, 63, 64, 65, 128, 200, 330}) {
        if (first + n <= 330) CheckScan(codebook, codes, Normal(3 * 64), first, n);
      }
    }
  }
}

TEST_P(ProductCodesTest, AnyWidthOfSubspacesWillDo) {
  for (const size_t width : Sizes{1, 3, 5, 16, 32}) {
    const size_t num_channels = 8 * width;
    const Codebook codebook = RandomCodebook(8, 8, num_channels);
    CheckScan(codebook, RandomCodes(70, 8, 8), Normal(2 * num_channels), 0, 70);
  }
}

TEST_P(ProductCodesTest, RoundingToEntriesIsAsStated) {
  for (const size_t num_subspaces : kSubspaces) {
    for (const size_t bits : kBits) {
      const Codebook codebook = RandomCodebook(num_subspaces, bits);
      const Codes codes = RandomCodes(4096, num_subspaces, bits);
      const std::vector<float> q = Normal(64);
      const Tables tables(codebook, q);
      std::vector<float> scores(4096);
      ScanProductCodes(codes.view(), 0, 4096, tables.view(), scores.data(), 4096);
      const ExpectedRow expected(codebook, q.data());
      double square = 0;
      for (size_t i = 0; i < 4096; ++i) {
        const double error = double{scores[i]} - expected.Exact(codes, i);
        ASSERT_LE(std::abs(error), double{tables.row(0).rounding_max});
        square += error * error;
      }
      // Few entries of 16 make few errors, and so a rough figure.
      const double ratio = std::sqrt(square / 4096) / double{tables.row(0).rounding_deviation};
      EXPECT_NEAR(ratio, 1.0, num_subspaces * CodeEntries(bits) < 500 ? 0.35 : 0.15)
          << num_subspaces << " x " << bits;
    }
  }
}

// bfloat16 as a number.
double WeightOf(uint16_t bits) { return double{ToFloat32(bits, DType::kBFloat16)}; }

// The weights of a group's keys, and its rows.
struct Weighed {
  Weighed(const Codebook& codebook, const Codes& codes, const std::vector<float>& q,
          size_t first_key, size_t num_keys, float logit_scale, float reference)
      : tables(codebook, q),
        num_rows(q.size() / codebook.num_channels),
        stride(NumBlocks(num_keys) * kCodeKeys),
        weights(num_rows * stride, 0xaaaa),
        maxima(stride, 0xaaaa),
        sums(num_rows * NumBlocks(num_keys), kNaN),
        maxima_sums(NumBlocks(num_keys), kNaN) {
    for (size_t r = 0; r < num_rows; ++r) {
      maps.push_back(MapWeights(tables.row(r), logit_scale, reference));
    }
    WeighProductCodes(codes.view(), first_key, num_keys, tables.view(), maps.data(),
                      {weights.data(), stride, sums.data(), NumBlocks(num_keys), maxima.data(),
                       maxima_sums.data()});
  }
  bool operator==(const Weighed& other) const {
    return weights == other.weights && maxima == other.maxima && sums == other.sums &&
           maxima_sums == other.maxima_sums;
  }

  Tables tables;
  std::vector<WeightRow> maps;
  size_t num_rows;
  size_t stride;
  std::vector<uint16_t> weights, maxima;
  std::vector<float> sums, maxima_sums;
};

TEST_P(ProductCodesTest, WeightsAreNearTheExponential) {
  for (const size_t num_subspaces : kSubspaces) {
    for (const size_t bits : kBits) {
      for (const size_t num_rows : Sizes{1, 3, 4, 6}) {
        const Codebook codebook = RandomCodebook(num_subspaces, bits);
        const Codes codes = RandomCodes(350, num_subspaces, bits);
        const std::vector<float> q = Normal(num_rows * 64);
        const Weighed found(codebook, codes, q, 64, 250, 0.5f, 3.0f);
        std::vector<float> scores(num_rows * 250);
        ScanProductCodes(codes.view(), 64, 250, found.tables.view(), scores.data(), 250);
        for (size_t i = 0; i < found.stride; ++i) {
          uint16_t most = 0;
          for (size_t r = 0; r < num_rows; ++r) {
            const uint16_t weight = found.weights[r * found.stride + i];
            most = std::max(most, weight);
            if (i >= 250) {
              ASSERT_EQ(weight, 0) << i;
              continue;
            }
            const double expected = std::exp(0.5 * double{scores[r * 250 + i]} - 3.0);
            ASSERT_GE(WeightOf(weight), 0.98 * expected);
            ASSERT_LE(WeightOf(weight), 1.08 * expected);
          }
          ASSERT_EQ(found.maxima[i], most);
        }
        for (size_t b = 0; b < 4; ++b) {
          const auto sum_of = [&](const uint16_t* of) {
            double sum = 0;
            for (size_t i = 0; i < kCodeKeys; ++i) sum += WeightOf(of[b * kCodeKeys + i]);
            return sum;
          };
          for (size_t r = 0; r < num_rows; ++r) {
            const double sum = sum_of(&found.weights[r * found.stride]);
            ASSERT_NEAR(double{found.sums[r * 4 + b]}, sum, 1e-6 * sum);
          }
          const double sum = sum_of(found.maxima.data());
          ASSERT_NEAR(double{found.maxima_sums[b]}, sum, 1e-6 * sum);
        }
      }
    }
  }
}

// Logits that lie further apart than any weights do, and references far from them.
TEST_P(ProductCodesTest, WeightsKeepWithinTheirRange) {
  for (const size_t num_subspaces : kSubspaces) {
    const Codebook codebook = RandomCodebook(num_subspaces, 8);
    const Codes codes = RandomCodes(256, num_subspaces, 8);
    const std::vector<float> q = Normal(64);
    for (const float logit_scale : {0.0f, 1e-6f, 1.0f, 30.0f, 1000.0f, 1e9f}) {
      for (const float shift : {0.0f, -500.0f, 500.0f}) {
        const Tables tables(codebook, q);
        const float reference = logit_scale * tables.row(0).max_score + shift;
        const Weighed found(codebook, codes, q, 0, 256, logit_scale, reference);
        std::vector<float> scores(256);
        ScanProductCodes(codes.view(), 0, 256, tables.view(), scores.data(), 256);
        for (size_t i = 0; i < 256; ++i) {
          ASSERT_GE(found.weights[i], kLeastWeight);
          ASSERT_LE(found.weights[i], kLargestWeight);
          const double logit = double{logit_scale} * double{scores[i]} - double{reference};
          if (std::abs(logit) > 69 || logit_scale > 100) continue;
          ASSERT_GE(WeightOf(found.weights[i]), 0.98 * std::exp(logit)) << logit_scale;
          ASSERT_LE(WeightOf(found.weights[i]), 1.08 * std::exp(logit)) << logit_scale;
        }
      }
    }
  }
}

TEST_P(ProductCodesTest, WhatIsNotWantedIsNotWritten) {
  const Codebook codebook = RandomCodebook(8, 8);
  const Codes codes = RandomCodes(200, 8, 8);
  const std::vector<float> q = Normal(5 * 64);
  const Weighed all(codebook, codes, q, 0, 200, 1.0f, 0.0f);
  std::vector<uint16_t> maxima(256);
  std::vector<float> sums(4);
  WeighProductCodes(codes.view(), 0, 200, all.tables.view(), all.maps.data(),
                    {nullptr, 0, nullptr, 0, maxima.data(), sums.data()});
  EXPECT_EQ(maxima, all.maxima);
  EXPECT_EQ(sums, all.maxima_sums);
  WeighProductCodes(codes.view(), 0, 200, all.tables.view(), all.maps.data(), {});
}

TEST_P(ProductCodesTest, EveryIsaGivesTheSameBits) {
  for (const size_t num_subspaces : kSubspaces) {
    for (const size_t bits : kBits) {
      const Codebook codebook = RandomCodebook(num_subspaces, bits, 96);
      const Codes codes = RandomCodes(450, num_subspaces, bits);
      const std::vector<float> q = Normal(7 * 96, 3.0f);
      const auto run = [&](std::vector<float>* scores) {
        const Weighed weighed(codebook, codes, q, 0, 450, 0.125f, 1.0f);
        ScanProductCodes(codes.view(), 0, 450, weighed.tables.view(), scores->data(), 450);
        return weighed;
      };
      std::vector<float> here(7 * 450), plain(7 * 450);
      ASSERT_TRUE(ForceIsa(GetParam()));
      const Weighed weighed_here = run(&here);
      ASSERT_TRUE(ForceIsa(Isa::kScalar));
      const Weighed weighed_plain = run(&plain);
      ASSERT_EQ(here, plain) << num_subspaces << " x " << bits;
      ASSERT_TRUE(weighed_here == weighed_plain) << num_subspaces << " x " << bits;
    }
  }
}

TEST_P(ProductCodesTest, CentroidsThatAreAllEqualScoreExactly) {
  Codebook codebook = RandomCodebook(4, 6);
  std::ranges::fill(codebook.centroids, 0.5f);
  CheckScan(codebook, RandomCodes(100, 4, 6), std::vector<float>(64, 2.0f), 0, 100);
  const Tables tables(codebook, std::vector<float>(64, 2.0f));
  EXPECT_EQ(tables.row(0).scale, 0.0f);
  EXPECT_EQ(tables.row(0).max_score, 64.0f);
}

TEST_P(ProductCodesTest, TinyNumbersScore) {
  for (const float spread : {1e-19f, 1e-22f}) {
    Codebook codebook = RandomCodebook(8, 8);
    for (float& x : codebook.centroids) x *= spread;
    CheckScan(codebook, RandomCodes(70, 8, 8), Normal(64, spread), 0, 70);
  }
}

// They score something: no fault, and nothing that the sanitizers see.
TEST_P(ProductCodesTest, NoNumberIsTooWild) {
  const Codebook codebook = RandomCodebook(8, 8);
  const Codes codes = RandomCodes(128, 8, 8);
  for (const float wild : {kNaN, kInf, -kInf, 3e38f}) {
    std::vector<float> q = Normal(2 * 64);
    q[3] = wild;
    const Weighed weighed(codebook, codes, q, 0, 128, 1.0f, 0.0f);
    std::vector<float> scores(256);
    ScanProductCodes(codes.view(), 0, 128, weighed.tables.view(), scores.data(), 128);
    Codebook broken = codebook;
    broken.centroids[77] = wild;
    std::vector<uint8_t> block(CodeBlockBytes(8, 8));
    std::vector<float> gains(2);
    EncodeProductCodes(broken.view(), q.data(), 64, 2, block.data(), gains.data());
  }
}

TEST_P(ProductCodesTest, TheNearestCentroidIsFound) {
  for (const size_t bits : kBits) {
    for (const size_t width : Sizes{1, 2, 4, 16, 33}) {
      const Codebook codebook = RandomCodebook(2, bits, 2 * width);
      for (const size_t num_keys : Sizes{1, 3, 4, 5, 21}) {
        const size_t stride = width + 3;
        std::vector<float> rows = Normal((num_keys - 1) * stride + width);
        rows.shrink_to_fit();
        std::vector<uint8_t> nearest(num_keys);
        std::vector<float> gains(num_keys);
        FindNearest(codebook.view(), 1, rows.data(), stride, num_keys, nearest.data(),
                    gains.data());
        for (size_t i = 0; i < num_keys; ++i) {
          const auto gain_of = [&](size_t entry) {
            double gain = 0;
            for (size_t j = 0; j < width; ++j) {
              const double c = codebook.At(1, entry, j);
              gain += double{rows[i * stride + j]} * c - c * c / 2;
            }
            return gain;
          };
          double best = -1e9;
          for (size_t e = 0; e < CodeEntries(bits); ++e) best = std::max(best, gain_of(e));
          ASSERT_LT(nearest[i], CodeEntries(bits));
          ASSERT_NEAR(gain_of(nearest[i]), best, 1e-4) << width << " channels, key " << i;
          ASSERT_NEAR(double{gains[i]}, best, 1e-4);
        }
      }
    }
  }
}

TEST_P(ProductCodesTest, DistancesAreLoweredToThoseOfNearerCentroids) {
  for (const size_t width : Sizes{1, 3, 8, 32}) {
    for (const size_t num_blocks : Sizes{0, 1, 5}) {
      const std::vector<float> keys = Normal(num_blocks * width * kDistanceKeys);
      const std::vector<float> centroid = Normal(width);
      std::vector<float> distances(num_blocks * kDistanceKeys);
      for (size_t i = 0; i < distances.size(); ++i) distances[i] = i % 3 == 0 ? 0.5f : 1e30f;
      const std::vector<float> before = distances;
      LowerDistances(keys.data(), width, num_blocks, centroid.data(), distances.data());
      for (size_t i = 0; i < distances.size(); ++i) {
        double sum = 0;
        for (size_t j = 0; j < width; ++j) {
          const size_t at = (i / kDistanceKeys * width + j) * kDistanceKeys + i % kDistanceKeys;
          const double difference = double{keys[at]} - double{centroid[j]};
          sum += difference * difference;
        }
        const double expected = std::min(double{before[i]}, sum);
        ASSERT_NEAR(double{distances[i]}, expected, 1e-5 * (1 + sum)) << width << " " << i;
      }
    }
  }
}

TEST_P(ProductCodesTest, OfEqualCentroidsTheFirstIsTaken) {
  for (const size_t bits : kBits) {
    Codebook codebook = RandomCodebook(2, bits, 8);
    std::ranges::fill(codebook.centroids, 1.0f);
    SetHalfSquares(&codebook);
    const std::vector<float> rows = Normal(10 * 4);
    std::vector<uint8_t> nearest(10, 9);
    std::vector<float> gains(10);
    FindNearest(codebook.view(), 0, rows.data(), 4, 10, nearest.data(), gains.data());
    for (const uint8_t code : nearest) ASSERT_EQ(code, 0);
  }
}

TEST_P(ProductCodesTest, EncodedKeysLieWhereTheHeaderSays) {
  for (const size_t num_subspaces : kSubspaces) {
    for (const size_t bits : kBits) {
      const Codebook codebook = RandomCodebook(num_subspaces, bits);
      const size_t width = 64 / num_subspaces;
      for (const size_t num_keys : Sizes{1, 33, 64}) {
        const std::vector<float> rows = Normal(num_keys * 64);
        Codes codes = {num_subspaces, bits,
                       std::vector<uint8_t>(CodeBlockBytes(num_subspaces, bits), 0xaa)};
        std::vector<float> gains(num_keys);
        EncodeProductCodes(codebook.view(), rows.data(), 64, num_keys, codes.bytes.data(),
                           gains.data());
        std::vector<float> sums(num_keys);
        for (size_t s = 0; s < num_subspaces; ++s) {
          std::vector<uint8_t> nearest(num_keys);
          std::vector<float> of_subspace(num_keys);
          FindNearest(codebook.view(), s, rows.data() + s * width, 64, num_keys, nearest.data(),
                      of_subspace.data());
          for (size_t i = 0; i < kCodeKeys; ++i) {
            ASSERT_EQ(codes.At(i, s), i < num_keys ? nearest[i] : 0u) << i << " " << s;
          }
          for (size_t i = 0; i < num_keys; ++i) sums[i] += of_subspace[i];
        }
        ASSERT_EQ(gains, sums);
      }
    }
  }
}

ATTNDB_INSTANTIATE_ISAS(ProductCodesTest);

}  // namespace
}  // namespace attndb::kernels
