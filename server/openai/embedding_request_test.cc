// Goal:   each form of input is read as it is meant, and whatever else is refused with its field,
//         what was expected and what was found.
// Method: bodies as clients send them, one field at a time.
#include "server/openai/embedding_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::attndb::test::IsOk;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<EmbeddingRequest> Parsed(const std::string& text) {
  ATTNDB_ASSIGN_OR_RETURN(const Json body, ParseJson(text));
  return ParseEmbedding(body);
}

Result<EmbeddingRequest> WithInput(const std::string& input) {
  return Parsed(R"({"input":)" + input + "}");
}

TEST(EmbeddingRequestTest, ATextIsOneInput) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const EmbeddingRequest request, WithInput(R"("a text")"));
  EXPECT_THAT(request.texts, ElementsAre("a text"));
  EXPECT_THAT(request.tokens, IsEmpty());
  EXPECT_FALSE(request.base64);
  EXPECT_EQ(request.dimensions, 0u);
}

TEST(EmbeddingRequestTest, TextsAreAnInputEach) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const EmbeddingRequest request, WithInput(R"(["b", "a", "b"])"));
  EXPECT_THAT(request.texts, ElementsAre("b", "a", "b"));
  EXPECT_THAT(request.tokens, IsEmpty());
}

TEST(EmbeddingRequestTest, IdsAreOneInput) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const EmbeddingRequest request, WithInput("[3, 0, 2147483647]"));
  EXPECT_THAT(request.texts, IsEmpty());
  EXPECT_THAT(request.tokens, ElementsAre(ElementsAre(3, 0, 2147483647)));
}

TEST(EmbeddingRequestTest, ListsOfIdsAreAnInputEach) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const EmbeddingRequest request, WithInput("[[3], [1, 2]]"));
  EXPECT_THAT(request.texts, IsEmpty());
  EXPECT_THAT(request.tokens, ElementsAre(ElementsAre(3), ElementsAre(1, 2)));
}

TEST(EmbeddingRequestTest, WhatIsSaidOfTheAnswerIsRead) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const EmbeddingRequest request,
      Parsed(R"({"input": "x", "encoding_format": "base64", "dimensions": 64, "model": "m",)"
             R"("user": "u", "another": {}})"));
  EXPECT_TRUE(request.base64);
  EXPECT_EQ(request.dimensions, 64u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const EmbeddingRequest plain,
      Parsed(R"({"input": "x", "encoding_format": "float", "dimensions": null, "model": null})"));
  EXPECT_FALSE(plain.base64);
  EXPECT_EQ(plain.dimensions, 0u);
}

TEST(EmbeddingRequestTest, OtherInputsAreRefused) {
  for (const char* const input : {"null",
                                  "3",
                                  "true",
                                  "{}",
                                  "[]",
                                  R"("")",
                                  R"([""])",
                                  R"(["a", ""])",
                                  "[[]]",
                                  "[[1], []]",
                                  R"(["a", 1])",
                                  R"([1, "a"])",
                                  R"(["a", [1]])",
                                  R"([[1], "a"])",
                                  "[[1], 2]",
                                  "[-1]",
                                  "[1.5]",
                                  "[2147483648]",
                                  "[null]",
                                  "[[[1]]]",
                                  R"([["a"]])"}) {
    EXPECT_THAT(WithInput(input), FailsWith(StatusCode::kInvalidArgument, HasSubstr("'input")))
        << input;
  }
  EXPECT_THAT(Parsed("{}"), FailsWith(StatusCode::kInvalidArgument, HasSubstr("'input'")));
  EXPECT_THAT(Parsed("[]"), FailsWith(StatusCode::kInvalidArgument, HasSubstr("object")));
  EXPECT_THAT(WithInput(R"(["a", ""])"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'input[1]'")));
}

TEST(EmbeddingRequestTest, NoMoreInputsThanTheLimit) {
  std::vector<std::string> texts(kMaxEmbeddingInputs, "a");
  EXPECT_THAT(WithInput(Json(texts).dump()), IsOk());
  texts.emplace_back("a");
  EXPECT_THAT(WithInput(Json(texts).dump()),
              FailsWith(StatusCode::kInvalidArgument, AllOf(HasSubstr("2049"), HasSubstr("2048"))));
  // One input may have more tokens.
  EXPECT_THAT(WithInput(Json(std::vector<int>(kMaxEmbeddingInputs + 1, 1)).dump()), IsOk());
}

TEST(EmbeddingRequestTest, WrongFieldsAreNamed) {
  for (const char* const field :
       {R"("encoding_format":"int8")", R"("encoding_format":1)", R"("dimensions":0)",
        R"("dimensions":-1)", R"("dimensions":"64")", R"("dimensions":1.5)", R"("model":7)"}) {
    const std::string text = field;
    const std::string name = text.substr(1, text.find('"', 1) - 1);
    EXPECT_THAT(Parsed(R"({"input":"x",)" + text + "}"),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("'" + name + "'")))
        << text;
  }
}

}  // namespace
}  // namespace attndb::server
