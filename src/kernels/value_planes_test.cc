// Goal:   codes follow the header and lose no more than their steps allow. Attention over them
//         equals float64 attention over the decoded values. Means and norms are the blocks'.
// Method: a decoder of one code, written after the header, is the oracle.
// Replay: seeds are constants.
#include "kernels/value_planes.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/attend.h"
#include "kernels/score.h"
#include "kernels/test_rows.h"
#include "kernels/test_states.h"

namespace attndb::kernels {
namespace {

// Planes and means of values, which own their memory.
struct TestPlanes {
  TestPlanes(const std::vector<float>& rows, size_t num_elements)
      : num_tokens(rows.size() / num_elements),
        codes(num_tokens * num_elements + 64, 0xff),
        means(NumValueBlocks(num_tokens) * num_elements),
        scales(NumValueBlocks(num_tokens)),
        norms(NumValueBlocks(num_tokens)) {
    for (size_t b = 0; b < scales.size(); ++b) {
      const size_t first = b * kValueBlock;
      const size_t count = std::min(kValueBlock, num_tokens - first);
      const size_t stride = num_elements + 16;
      AlignedFloats block(count * stride);
      for (size_t i = 0; i < count * num_elements; ++i) {
        block[i / num_elements * stride + i % num_elements] = rows[first * num_elements + i];
      }
      const ValueRows values = {block.data(), stride, count, num_elements};
      EncodeValues(values, codes.data() + first * num_elements, scales.data() + b);
      MeanOfValues(values, means.data() + b * num_elements, norms.data() + b);
    }
  }

  ValuePlanesView planes(size_t num_elements) const {
    return {codes.data(), scales.data(), num_elements};
  }
  ValueMeansView of_blocks(size_t num_elements) const {
    return {means.data(), norms.data(), num_elements};
  }
  double At(size_t token, size_t channel) const {
    const size_t num_elements = means.size() / norms.size();
    const auto code = static_cast<int8_t>(codes[token * num_elements + channel]);
    return double{scales[token / kValueBlock]} * code;
  }
  // All tokens, as float32 rows.
  std::vector<float> Decoded() const {
    const size_t num_elements = means.size() / norms.size();
    std::vector<float> rows(num_tokens * num_elements);
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i] = static_cast<float>(At(i / num_elements, i % num_elements));
    }
    return rows;
  }

  size_t num_tokens;
  std::vector<uint8_t> codes;
  std::vector<uint16_t> means;
  std::vector<float> scales;
  std::vector<float> norms;
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
  const TestPlanes planes(rows, elements);
  double squares = 0;
  double steps = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const double scale = planes.scales[i / elements / kValueBlock];
    const double off = rows[i] - planes.At(i / elements, i % elements);
    ASSERT_LE(std::abs(off), scale * 0.5001) << i;
    squares += off * off;
    steps += scale * scale / 12;
  }
  EXPECT_NEAR(std::sqrt(squares), std::sqrt(steps), 0.04 * std::sqrt(steps));
}

TEST_P(ValuePlanesTest, MeansAreThoseOfTheBlock) {
  const size_t elements = 48;
  const size_t n = 64 + 5;
  const std::vector<float> rows = Values(n, elements);
  const TestPlanes planes(rows, elements);
  for (const size_t block : Sizes{0, 1}) {
    AlignedFloats out(elements, 0.0f);
    AddValueMean(planes.of_blocks(elements), block, 2.0f, out.data());
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
    const TestPlanes planes(rows, elements);
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
    const TestPlanes planes(Values(kTokens, elements), elements);
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
      AttendCoded(scores.data(), kTokens, num_rows, planes.planes(elements), tokens.data(),
                  tokens.size(), SpecFor(elements), states.rows);
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
  const TestPlanes zeros(std::vector<float>(64 * 16, 0.0f), 16);
  EXPECT_EQ(zeros.scales[0], 0.0f);
  EXPECT_EQ(zeros.codes[3], 0);
  const TestPlanes tiny(std::vector<float>(64 * 16, 1e-40f), 16);
  EXPECT_EQ(tiny.scales[0], 0.0f);
  std::vector<float> large(64 * 16, 3e38f);
  large[5] = -3e38f;
  EXPECT_FALSE(std::isfinite(TestPlanes(large, 16).norms[0]));
}

ATTNDB_INSTANTIATE_ISAS(ValuePlanesTest);

}  // namespace
}  // namespace attndb::kernels
