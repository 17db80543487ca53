// Goal:   codes say what the header says, lose no more than their steps allow, and sums of them are
//         what float64 says of the decoded values.
// Method: a decoder of one code, written after the header, is the oracle.
// Replay: seeds are constants.
#include "kernels/value_planes.h"

#include <bit>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/attend.h"
#include "kernels/score.h"
#include "kernels/test_rows.h"
#include "kernels/test_states.h"

namespace attndb::kernels {
namespace {

constexpr uint32_t kAllBits[] = {0, 2, 4, 8};

// Values, and planes of them that own their memory.
struct TestPlanes {
  TestPlanes(const std::vector<float>& rows, size_t num_elements, uint32_t bits)
      : num_tokens(rows.size() / num_elements),
        codes(num_tokens * ValueRowBytes(num_elements, bits) + 64, 0xff),
        means(NumValueBlocks(num_tokens) * num_elements),
        scales(NumValueBlocks(num_tokens)),
        norms(NumValueBlocks(num_tokens)) {
    view = {codes.data(), means.data(), scales.data(), norms.data(), bits, num_elements};
    for (size_t b = 0; b < scales.size(); ++b) {
      const size_t first = b * kValueBlock;
      const size_t count = std::min(kValueBlock, num_tokens - first);
      const size_t stride = num_elements + 16;
      AlignedFloats block(count * stride);
      for (size_t i = 0; i < count * num_elements; ++i) {
        block[i / num_elements * stride + i % num_elements] = rows[first * num_elements + i];
      }
      EncodeValues(block.data(), stride, count, num_elements, bits,
                   {codes.data() + first * ValueRowBytes(num_elements, bits),
                    means.data() + b * num_elements, scales.data() + b, norms.data() + b});
    }
  }

  double Mean(size_t token, size_t channel) const {
    const uint32_t bits = means[token / kValueBlock * view.num_elements + channel];
    return std::bit_cast<float>(bits << 16);
  }
  double At(size_t token, size_t channel) const {
    if (view.bits == 0) return Mean(token, channel);
    const double scale = scales[token / kValueBlock];
    const size_t bit = channel * view.bits;
    const uint8_t byte = codes[token * ValueRowBytes(view.num_elements, view.bits) + bit / 8];
    if (view.bits == 8) return scale * static_cast<int8_t>(byte);
    const unsigned levels = 1u << view.bits;
    const unsigned code = byte >> bit % 8 & (levels - 1);
    return Mean(token, channel) + scale * (code - (levels - 1) / 2.0);
  }
  // All tokens, as float32 rows.
  std::vector<float> Decoded() const {
    std::vector<float> rows(num_tokens * view.num_elements);
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i] = static_cast<float>(At(i / view.num_elements, i % view.num_elements));
    }
    return rows;
  }

  size_t num_tokens;
  std::vector<uint8_t> codes;
  std::vector<uint16_t> means;
  std::vector<float> scales;
  std::vector<float> norms;
  ValuePlanesView view;
};

class ValuePlanesTest : public IsaTest {
 protected:
  // With a mean of their own for each channel.
  std::vector<float> Values(size_t num_tokens, size_t num_elements) {
    std::vector<float> rows = Normal(num_tokens * num_elements);
    const std::vector<float> mean = Normal(num_elements, 2.0f);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] += mean[i % num_elements];
    return rows;
  }
};

TEST_P(ValuePlanesTest, LoseWhatTheirStepsAllow) {
  const size_t n = 64 * 40;
  const size_t elements = 64;
  const std::vector<float> rows = Values(n, elements);
  // Max 1960, table II, and a step of max|v| / 127 over the root of 12; of the means all but their
  // rounding is lost.
  const double expected[] = {1.0, 0.3428, 0.1075, 0.0};
  for (size_t k = 0; k < 4; ++k) {
    const TestPlanes planes(rows, elements, kAllBits[k]);
    double squares = 0;
    double steps = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      const double scale = planes.scales[i / elements / kValueBlock];
      const double off = rows[i] - planes.At(i / elements, i % elements);
      if (kAllBits[k] == 8) {
        ASSERT_LE(std::abs(off), scale * 0.5001) << i;
      }
      squares += off * off;
      steps += scale * scale / 12;
    }
    const double found = std::sqrt(squares / static_cast<double>(rows.size()));
    const double step_error = std::sqrt(steps / static_cast<double>(rows.size()));
    const double wanted = kAllBits[k] == 8 ? step_error : expected[k];
    EXPECT_NEAR(found, wanted, 0.04 * wanted) << kAllBits[k];
  }
}

TEST_P(ValuePlanesTest, BlockSumsEqualFloat64) {
  for (const uint32_t bits : kAllBits) {
    for (const size_t elements : Sizes{16, 48, 64, 80, 128, 144, 256}) {
      const size_t n = 64 + 17;
      const TestPlanes planes(Values(n, elements), elements, bits);
      for (const size_t block : Sizes{0, 1}) {
        const size_t count = block == 0 ? 64 : 17;
        std::vector<float> weights = Normal(count);
        weights[3] = 0.0f;
        AlignedFloats out(elements, 0.5f);
        AddValueBlock(planes.view, block, weights.data(), count, out.data());
        for (size_t d = 0; d < elements; ++d) {
          double expected = 0.5;
          for (size_t i = 0; i < count; ++i) {
            expected += double{weights[i]} * planes.At(block * 64 + i, d);
          }
          ASSERT_NEAR(out[d], expected, 2e-4) << bits << " " << elements << " " << d;
        }
      }
    }
  }
}

TEST_P(ValuePlanesTest, MeansAreThoseOfTheBlock) {
  const size_t elements = 48;
  const size_t n = 64 + 5;
  const std::vector<float> rows = Values(n, elements);
  const TestPlanes planes(rows, elements, 0);
  for (const size_t block : Sizes{0, 1}) {
    AlignedFloats out(elements, 0.0f);
    AddValueMean(planes.view, block, 2.0f, out.data());
    const size_t count = block == 0 ? 64 : 5;
    for (size_t d = 0; d < elements; ++d) {
      double mean = 0;
      for (size_t i = 0; i < count; ++i) mean += rows[(block * 64 + i) * elements + d];
      mean /= static_cast<double>(count);
      EXPECT_NEAR(out[d], 2 * mean, 0x1p-7 * std::abs(mean) + 1e-6);
    }
  }
}

TEST_P(ValuePlanesTest, NoValueIsLongerThanTheNormOfItsBlock) {
  for (const size_t elements : Sizes{16, 64, 1024}) {
    const size_t n = 64 + 5;
    const std::vector<float> rows = Values(n, elements);
    for (const uint32_t bits : kAllBits) {
      const TestPlanes planes(rows, elements, bits);
      double longest[2] = {};
      for (size_t i = 0; i < n; ++i) {
        double square = 0;
        for (size_t d = 0; d < elements; ++d) {
          square += double{rows[i * elements + d]} * double{rows[i * elements + d]};
        }
        longest[i / 64] = std::max(longest[i / 64], std::sqrt(square));
      }
      EXPECT_EQ(LongestRow({rows.data(), elements, elements, DType::kFloat32}, n),
                std::max(planes.norms[0], planes.norms[1]));
      for (const size_t block : Sizes{0, 1}) {
        EXPECT_GE(planes.norms[block], longest[block]);
        EXPECT_LE(planes.norms[block], longest[block] * 1.0001);
      }
    }
  }
}

TEST_P(ValuePlanesTest, RowsOfEachTypeHaveALongest) {
  constexpr size_t kElements = 48;
  constexpr size_t kStride = 64;
  constexpr size_t kRows = 9;
  const std::vector<float> rows = Values(kRows, kStride);
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    std::vector<std::byte> stored(kRows * kStride * DTypeBytes(dtype));
    std::vector<float> rounded(kRows * kStride);
    ConvertRows(DType::kFloat32, rows.data(), kStride, dtype, stored.data(), kStride, kRows,
                kStride, kStride);
    ConvertRows(dtype, stored.data(), kStride, DType::kFloat32, rounded.data(), kStride, kRows,
                kStride, kStride);
    double longest = 0;
    for (size_t i = 0; i < kRows; ++i) {
      double square = 0;
      for (size_t d = 0; d < kElements; ++d) {
        square += double{rounded[i * kStride + d]} * double{rounded[i * kStride + d]};
      }
      longest = std::max(longest, std::sqrt(square));
    }
    const float found = LongestRow({stored.data(), kStride, kElements, dtype}, kRows);
    EXPECT_GE(found, longest) << DTypeName(dtype);
    EXPECT_LE(found, longest * 1.0001) << DTypeName(dtype);
  }
  const float large = 1e30f;
  const std::vector<float> overflows(16, large);
  EXPECT_TRUE(std::isinf(LongestRow({overflows.data(), 16, 16, DType::kFloat32}, 1)));
}

TEST_P(ValuePlanesTest, ListedRowsAttendAsDecodedOnesDo) {
  constexpr size_t kTokens = 200;
  for (const size_t elements : Sizes{16, 64, 80, 128}) {
    const TestPlanes planes(Values(kTokens, elements), elements, 8);
    const std::vector<float> decoded = planes.Decoded();
    const RowsView v = {decoded.data(), elements, elements, DType::kFloat32};
    const TestRows k(DType::kFloat32, kTokens, elements, false, &random_);
    std::vector<uint32_t> tokens;
    for (uint32_t i = 0; i < kTokens; i += 1 + i % 3) tokens.push_back(i);
    for (const size_t num_rows : Sizes{1, 3, 4, 8}) {
      const TestQueries q(num_rows, elements, &random_);
      std::vector<float> scores(num_rows * kTokens);
      ScoreGather(k.view(), tokens.data(), tokens.size(), q.data(), q.stride(), num_rows,
                  scores.data(), kTokens);
      States states(num_rows, elements);
      AttendCoded(scores.data(), kTokens, num_rows, planes.view, tokens.data(), tokens.size(),
                  SpecFor(elements), states.rows);
      states.Finish();
      for (size_t r = 0; r < num_rows; ++r) {
        ExpectNear(
            states, r,
            reference::Attend(k.view(), v, tokens, q.data() + r * q.stride(), SpecFor(elements)));
      }
    }
  }
}

TEST_P(ValuePlanesTest, TellsZerosAndOverflow) {
  for (const uint32_t bits : kAllBits) {
    const TestPlanes zeros(std::vector<float>(64 * 16, 0.0f), 16, bits);
    EXPECT_EQ(zeros.scales[0], 0.0f);
    EXPECT_EQ(zeros.At(3, 3), 0.0);
    const TestPlanes tiny(std::vector<float>(64 * 16, 1e-40f), 16, bits);
    EXPECT_EQ(tiny.scales[0], 0.0f);
    std::vector<float> large(64 * 16, 3e38f);
    large[5] = -3e38f;
    EXPECT_FALSE(std::isfinite(TestPlanes(large, 16, bits).scales[0]));
  }
}

ATTNDB_INSTANTIATE_ISAS(ValuePlanesTest);

}  // namespace
}  // namespace attndb::kernels
