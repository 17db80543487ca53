// Goal:   .npy files of NumPy are read; hostile ones are refused before anything is allocated.
// Method: bytes made by hand; every truncation and every single changed byte of a good file is
//         tried.
#include "bench/heads/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace attndb::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Npy(std::string header, const std::string& data, char major = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += major;
  bytes += '\0';
  header += "\n";
  bytes += static_cast<char>(header.size() % 256);
  bytes += static_cast<char>(header.size() / 256);
  if (major > 1) bytes += std::string(2, '\0');
  return bytes + header + data;
}

std::string Floats(std::initializer_list<float> values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

const char kHeader[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1, 2), }    ";

TEST(NpyTest, ReadsWhatNumpyWrites) {
  for (const char major : {'\1', '\2', '\3'}) {
    const auto array = ParseNpy(Npy(kHeader, Floats({1, 2, 3, 4}), major), "k.npy");
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(array->header.dtype, DType::kFloat32);
    EXPECT_THAT(array->header.shape, ElementsAre(2, 1, 2));
    const TensorView view = array->View();
    EXPECT_THAT(view.shape, ElementsAre(2, 1, 2));
    EXPECT_THAT(view.strides, ElementsAre(2, 2, 1));
    EXPECT_EQ(static_cast<const float*>(view.data)[3], 4.0F);
  }
}

TEST(NpyTest, TwoSizesAreOneHead) {
  const auto array =
      ParseNpy(Npy("{\"shape\":(1,2),\"descr\":\"<f2\",\"fortran_order\":False}", "abcd"), "k.npy");
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(array->header.dtype, DType::kFloat16);
  EXPECT_THAT(array->View().shape, ElementsAre(1, 1, 2));
}

std::string ErrorOf(const std::string& header, const std::string& data = "") {
  const auto array = ParseNpy(Npy(header, data), "k.npy");
  if (array.ok()) return "ok";
  EXPECT_EQ(array.status().code(), StatusCode::kInvalidArgument);
  return array.status().message();
}

std::string WithShape(const std::string& shape) {
  return "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }";
}

TEST(NpyTest, RefusesByNameWhatItCannotUse) {
  EXPECT_THAT(ErrorOf("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }"),
              HasSubstr("k.npy: element type is '<f8'; expected '<f4'"));
  EXPECT_THAT(ErrorOf("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }"),
              HasSubstr("'>f4'"));
  EXPECT_THAT(ErrorOf("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }"),
              HasSubstr("no plain type"));
  EXPECT_THAT(ErrorOf("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }"),
              HasSubstr("Fortran order"));
  EXPECT_THAT(ErrorOf("{'descr': '<f4', 'shape': (1,), }"), HasSubstr("lacks"));
  EXPECT_THAT(ErrorOf("{'descr': '<f4', 'evil': 1, 'shape': (1,), }"), HasSubstr("'evil'"));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("no dictionary"));
  EXPECT_THAT(ErrorOf(WithShape("(1,)") + "{}", Floats({1})), HasSubstr("goes on"));
}

TEST(NpyTest, SizesThatOverflowOrLieAreRefused) {
  EXPECT_THAT(ErrorOf(WithShape("(-1,)")), HasSubstr("shape"));
  EXPECT_THAT(ErrorOf(WithShape("(9223372036854775807, 9223372036854775807)")),
              HasSubstr("overflows"));
  EXPECT_THAT(ErrorOf(WithShape("(99999999999999999999,)")), HasSubstr("shape"));
  EXPECT_THAT(ErrorOf(WithShape("(4611686018427387904,)")), HasSubstr("overflows"));
  EXPECT_THAT(ErrorOf(WithShape("(1000000000000,)"), "abcd"),
              HasSubstr("4,000,000,000,000 bytes of data, file has 4"));
  EXPECT_THAT(ErrorOf(WithShape("(1,)"), "abcdefgh"), HasSubstr("ask for 4 bytes"));
  EXPECT_THAT(ErrorOf(WithShape("(1,1,1,1,1,1,1,1,1)"), "abcd"), HasSubstr("at most 8"));
}

TEST(NpyTest, EveryTruncationIsRefused) {
  const std::string whole = Npy(kHeader, Floats({1, 2, 3, 4}));
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(ParseNpy(whole.substr(0, length), "k.npy").ok()) << length;
  }
}

TEST(NpyTest, NoChangedHeaderByteReadsBeyondTheFile) {
  const std::string whole = Npy(kHeader, Floats({1, 2, 3, 4}));
  const size_t header_end = whole.size() - 16;
  for (size_t at = 0; at < header_end; ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string changed = whole;
      changed[at] = static_cast<char>(value);
      const auto array = ParseNpy(changed, "k.npy");  // The sanitizer run judges.
      if (!array.ok()) continue;
      EXPECT_LE(array->words.size() * 8, whole.size());
    }
  }
}

TEST(NpyTest, FilesThatCannotBeVectorsAreRefused) {
  EXPECT_EQ(ReadNpy("/no/such/k.npy").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadNpy("/dev/zero").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadNpy(testing::TempDir()).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace attndb::bench
