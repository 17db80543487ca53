// Test helper: rows of random elements with poison around them, and a loop over ISAs.
//
// Everything that a kernel must not read is NaN: the gap between rows, and the memory before the
// first and behind the last. If requested, rows start 32 bytes off a 64-byte boundary.
// Threads: one thread only.
#ifndef ATTNDB_KERNELS_TEST_ROWS_H_
#define ATTNDB_KERNELS_TEST_ROWS_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/convert.h"
#include "kernels/isa.h"
#include "kernels/layout.h"

namespace attndb::kernels {

inline constexpr DType kAllDTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
using Sizes = std::initializer_list<size_t>;
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

// 64-byte aligned floats; a vector's storage is not.
class AlignedFloats {
 public:
  explicit AlignedFloats(size_t size, float fill = kNaN) : store_(size + 16, fill) {
    const auto address = reinterpret_cast<uintptr_t>(store_.data());
    offset_ = (64 - address % 64) % 64 / sizeof(float);
  }
  float* data() { return store_.data() + offset_; }
  const float* data() const { return store_.data() + offset_; }
  float& operator[](size_t i) { return data()[i]; }
  float operator[](size_t i) const { return data()[i]; }

 private:
  std::vector<float> store_;
  size_t offset_ = 0;
};

// num_rows rows of head_dim normal variates, zero-padded; stride leaves 32 bytes of poison between.
class TestRows {
 public:
  TestRows(DType dtype, size_t num_rows, size_t head_dim, bool misaligned, std::mt19937* random)
      : element_bytes_(DTypeBytes(dtype)) {
    const size_t padded = RowElements(head_dim);
    const size_t gap = kRowAlignBytes / element_bytes_;
    const size_t stride = padded + gap;
    const size_t front = 64 + (misaligned ? kRowAlignBytes : 0);
    bytes_.assign(front + (num_rows * stride + gap) * element_bytes_ + 64, '\xff');  // NaNs.
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    char* const first = bytes_.data() + (64 - address % 64) % 64 + (misaligned ? 32 : 0);
    view_ = {first, stride, padded, dtype};
    std::normal_distribution<float> normal;
    for (size_t r = 0; r < num_rows; ++r) {
      for (size_t i = 0; i < padded; ++i) Set(r, i, i < head_dim ? normal(*random) : 0.0f);
    }
  }
  const RowsView& view() const { return view_; }
  void Set(size_t row, size_t i, float value) {
    char* const first = static_cast<char*>(const_cast<void*>(view_.data));
    char* const at = first + (row * view_.stride + i) * element_bytes_;
    if (view_.dtype == DType::kFloat32) {
      std::memcpy(at, &value, 4);
    } else {
      const uint16_t bits = FromFloat32(value, view_.dtype);
      std::memcpy(at, &bits, 2);
    }
  }

 private:
  size_t element_bytes_;
  std::vector<char> bytes_;
  RowsView view_;
};

// q rows as kernels want them: aligned, zero-padded, poison between rows.
class TestQueries {
 public:
  TestQueries(size_t num_rows, size_t head_dim, std::mt19937* random, float spread = 1.0f)
      : stride_(RowElements(head_dim) + 16), floats_((num_rows + 1) * stride_) {
    std::normal_distribution<float> normal(0.0f, spread);
    for (size_t r = 0; r < num_rows; ++r) {
      for (size_t i = 0; i < RowElements(head_dim); ++i) {
        floats_[r * stride_ + i] = i < head_dim ? normal(*random) : 0.0f;
      }
    }
  }
  float* row(size_t r) { return floats_.data() + r * stride_; }
  const float* data() const { return floats_.data(); }
  size_t stride() const { return stride_; }

 private:
  size_t stride_;
  AlignedFloats floats_;
};

// Runs each test once per ISA that this machine has.
class IsaTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!ForceIsa(GetParam())) GTEST_SKIP() << "this CPU has no " << IsaName(GetParam());
  }
  void TearDown() override { ForceIsa(std::nullopt); }

  // Normal variates.
  std::vector<float> Normal(size_t count, float spread = 1.0f) {
    std::normal_distribution<float> normal(0.0f, spread);
    std::vector<float> values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }

  std::mt19937 random_{17};
};

inline std::string IsaParamName(const testing::TestParamInfo<Isa>& param) {
  return std::string(IsaName(param.param));
}

#define ATTNDB_INSTANTIATE_ISAS(suite) \
  INSTANTIATE_TEST_SUITE_P(EveryIsa, suite, testing::ValuesIn(kAllIsas), IsaParamName)

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_TEST_ROWS_H_
