// Goal:   a header has the given content. A text that is not a header of this data is refused by
//         name before anything is allocated for it.
// Method: a table of texts, each with one fault.
#include "api/kv_file/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "testing/matchers.h"

namespace attndb::internal {
namespace {

using test::FailsWith;
using test::IsOk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// A header of one F32 tensor of 6 elements, with its three fields.
std::string OneTensor(const std::string& fields) { return R"({"a":{)" + fields + "}}"; }

TEST(SafetensorsHeaderTest, WhatIsFormattedIsParsed) {
  SafetensorsHeader header;
  header.metadata = {{"format", "attndb.kv"}, {"note.text", "quotes \" and \n lines, ä"}};
  header.tensors = {{"tokens", "I32", {5}, 0, 20},
                    {"layers.0.k", "BF16", {2, 5, 3}, 20, 80},
                    {"none", "F64", {0, 7}, 80, 80}};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::string text, FormatSafetensorsHeader(header));
  ASSERT_EQ(text.size() % 8, 0u);
  uint64_t length = 0;
  text.copy(reinterpret_cast<char*>(&length), 8);
  ASSERT_EQ(length, text.size() - 8);
  const Result<SafetensorsHeader> parsed = ParseSafetensorsHeader(text.substr(8), 80);
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->metadata, header.metadata);
  ASSERT_EQ(parsed->tensors.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(parsed->tensors[i].name, header.tensors[i].name);
    EXPECT_EQ(parsed->tensors[i].dtype, header.tensors[i].dtype);
    EXPECT_EQ(parsed->tensors[i].shape, header.tensors[i].shape);
    EXPECT_EQ(parsed->tensors[i].begin, header.tensors[i].begin);
    EXPECT_EQ(parsed->tensors[i].end, header.tensors[i].end);
  }
}

TEST(SafetensorsHeaderTest, ATextThatIsNotUtf8IsRefusedByName) {
  const auto expect = [](const SafetensorsHeader& header, const char* message) {
    EXPECT_THAT(FormatSafetensorsHeader(header),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  SafetensorsHeader header;
  header.tensors = {{"layer\xff", "U8", {1}, 0, 1}};
  expect(header, "the name of tensor 'layer?' is not UTF-8");
  header.tensors[0].name = "layer";
  header.metadata = {{"note\xc3", "x"}};
  expect(header, "the key 'note?' of __metadata__ is not UTF-8");
  header.metadata = {{"note", "x\xed\xa0\x80"}};
  expect(header, "__metadata__: the value of 'note' is not UTF-8");
}

// Headers of other programs: any order of names and fields, a scalar, spaces at the end.
TEST(SafetensorsHeaderTest, TensorsComeInTheOrderOfTheirData) {
  const Result<SafetensorsHeader> header = ParseSafetensorsHeader(
      R"({"b":{"shape":[2],"data_offsets":[8,10],"dtype":"U8"},"__metadata__":{"x":"y"},)"
      R"("a":{"dtype":"F64","data_offsets":[0,8],"shape":[]}}   )",
      10);
  ASSERT_THAT(header, IsOk());
  EXPECT_EQ(header->tensors[0].name, "a");
  EXPECT_EQ(header->tensors[1].name, "b");
  EXPECT_THAT(header->metadata, ElementsAre(Pair("x", "y")));
}

TEST(SafetensorsHeaderTest, WhatIsNoHeaderIsRefusedByName) {
  const struct {
    std::string text;
    const char* message;
  } cases[] = {
      {"", "header is no valid JSON at byte"},
      {"{", "header is no valid JSON at byte"},
      {"{}x", "header is no valid JSON at byte 3"},
      {"\xff", "header is no valid JSON at byte 1"},
      {std::string("{}\0x", 4), "header is no valid JSON: it has a NUL"},
      {"[]", "header is an array, expected an object"},
      {"7", "header is 7, expected an object"},
      {R"({"a":7})", "header has 'a' as 7, expected an object"},
      {R"({"a":null})", "header has 'a' as null, expected an object"},
      {R"({"a":{},"a":{}})", "tensor 'a' has no dtype"},
      {R"({"__metadata__":[]})", "header has '__metadata__' as an array"},
      {R"({"__metadata__":{"a":1}})", "__metadata__ has 'a' as 1, expected a text"},
      {R"({"__metadata__":{"a":{}}})", "__metadata__ has 'a' as an object"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", "__metadata__ has 'a' twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", "header has '__metadata__' twice"},
      {OneTensor(R"("shape":[6],"data_offsets":[0,24])"), "tensor 'a' has no dtype"},
      {OneTensor(R"("dtype":"F32","data_offsets":[0,24])"), "tensor 'a' has no shape"},
      {OneTensor(R"("dtype":"F32","shape":[6])"), "tensor 'a' has no data_offsets"},
      {OneTensor(R"("dtype":"F32","shape":[6],"data_offsets":[0,24],"more":1)"),
       "tensor 'a' has the unknown field 'more'"},
      {OneTensor(R"("dtype":"F32","dtype":"F32")"), "tensor 'a' has dtype twice"},
      {OneTensor(R"("dtype":32)"), "tensor 'a' dtype is 32, expected a text"},
      {OneTensor(R"("dtype":["F32"])"), "tensor 'a' dtype is an array, expected a text"},
      {OneTensor(R"("shape":"6")"), "tensor 'a' shape is the text '6', expected an array"},
      {OneTensor(R"("shape":[-6])"), "tensor 'a' shape has -6, expected whole numbers"},
      {OneTensor(R"("shape":[6.0])"), "tensor 'a' shape has '6.0', expected whole numbers"},
      {OneTensor(R"("shape":[18446744073709551616])"), "expected whole numbers of 0 or more"},
      {OneTensor(R"("shape":[1e999])"), "header is no valid JSON"},
      {OneTensor(R"("shape":[[6]])"), "tensor 'a' shape has an array"},
      {OneTensor(R"("shape":[1,1,1,1,1,1,1,1,1])"), "shape has more than 8 numbers"},
      {OneTensor(R"("data_offsets":[0])"), "data_offsets has 1 numbers, expected 2"},
      {OneTensor(R"("data_offsets":[0,24,48])"), "data_offsets has more than 2 numbers"},
      {OneTensor(R"("dtype":"F33","shape":[6],"data_offsets":[0,24])"),
       "tensor 'a' has the unknown dtype 'F33'"},
      {OneTensor(R"("dtype":"F32","shape":[7],"data_offsets":[0,24])"),
       "tensor 'a' has bytes [0, 24), expected 28 bytes for F32 [7]"},
      {OneTensor(R"("dtype":"F32","shape":[6],"data_offsets":[24,0])"),
       "tensor 'a' has bytes [24, 0), expected 24 bytes"},
      {OneTensor(R"("dtype":"F32","shape":[4294967296,4294967296,6],"data_offsets":[0,24])"),
       "shape [4294967296, 4294967296, 6], beyond 2^64 bytes"},
      {OneTensor(R"("dtype":"F32","shape":[6],"data_offsets":[8,32])"),
       "tensor 'a' begins at byte 8 of the data, expected 0"},
      {R"({"a":{"dtype":"U8","shape":[16],"data_offsets":[0,16]},)"
       R"("b":{"dtype":"U8","shape":[16],"data_offsets":[8,24]}})",
       "tensor 'b' begins at byte 8 of the data, expected 16"},
      {OneTensor(R"("dtype":"F32","shape":[5],"data_offsets":[0,20])"),
       "the tensors take 20 bytes, but the file has 24 behind its header"},
      {OneTensor(R"("dtype":"F32","shape":[12],"data_offsets":[0,48])"),
       "the tensors take 48 bytes, but the file has 24 behind its header"},
      {R"({")" + std::string(300, 'n') + R"(":{}})", "header has a name of 300 bytes"}};
  for (const auto& c : cases) {
    EXPECT_THAT(ParseSafetensorsHeader(c.text, 24),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr(c.message)))
        << c.text.substr(0, 100);
  }
}

TEST(SafetensorsHeaderTest, CountsAreLimitedAsTheyComeIn) {
  const auto many = [](int count, const std::string& value) {
    std::string text = "{";
    for (int i = 0; i < count; ++i) {
      text += (i == 0 ? "\"t" : ",\"t") + std::to_string(i) + "\":" + value;
    }
    return text + "}";
  };
  const std::string none = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_THAT(ParseSafetensorsHeader(many(4096, none), 0), IsOk());
  EXPECT_THAT(ParseSafetensorsHeader(many(4097, none), 0),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("more than 4096 tensors")));
  EXPECT_THAT(ParseSafetensorsHeader(R"({"__metadata__":)" + many(257, R"("")") + "}", 0),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("more than 256 keys")));
  const std::string deep(2'000'000, '[');
  EXPECT_THAT(ParseSafetensorsHeader(OneTensor(R"("shape":)" + deep), 0),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("shape has an array")));
  const std::string long_value(5 << 20, 'v');
  EXPECT_THAT(ParseSafetensorsHeader(R"({"__metadata__":{"a":")" + long_value + R"("}})", 0),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("value of 'a' of 5242880 bytes")));
}

}  // namespace
}  // namespace attndb::internal
