// Goal:   an answer is what clients of OpenAI's interface read, and loses no bit of a number.
// Method: answers parsed again; base64 of bytes that were worked out by hand.
#include "server/openai/embedding_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "server/json.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

TEST(EmbeddingAnswerTest, AnAnswerIsAListInTheInputsOrder) {
  EmbeddingAnswer answer(/*base64=*/false);
  answer.Add(std::vector<float>{1.0f, 0.0f});
  answer.Add(std::vector<float>{-0.5f, 0.25f});
  EXPECT_EQ(answer.size(), 2u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Json body, ParseJson(answer.Finish("a \"model\"", 7)));
  EXPECT_EQ(body, Json::parse(R"({"object":"list","data":[)"
                              R"({"object":"embedding","index":0,"embedding":[1,0]},)"
                              R"({"object":"embedding","index":1,"embedding":[-0.5,0.25]}],)"
                              R"("model":"a \"model\"",)"
                              R"("usage":{"prompt_tokens":7,"total_tokens":7}})"));
}

TEST(EmbeddingAnswerTest, NumbersAreReadBackAsTheyWere) {
  using Limits = std::numeric_limits<float>;
  const std::vector<float> values = {0.1f,          1.0f / 3.0f,          -1e-10f,
                                     Limits::min(), Limits::denorm_min(), Limits::max(),
                                     -0.0f,         0.99999994f,          1.00000012f};
  EmbeddingAnswer answer(/*base64=*/false);
  answer.Add(values);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Json body, ParseJson(answer.Finish("m", 1)));
  EXPECT_EQ(body["data"][0]["embedding"].get<std::vector<float>>(), values);
}

TEST(EmbeddingAnswerTest, Base64IsOfTheBytesWithTheLowestFirst) {
  EXPECT_EQ(Base64Of({}), "");
  EXPECT_EQ(Base64Of(std::vector<float>{1.0f}), "AACAPw==");             // 00 00 80 3f
  EXPECT_EQ(Base64Of(std::vector<float>{1.0f, -2.0f}), "AACAPwAAAMA=");  // 00 00 00 c0
  EXPECT_EQ(Base64Of(std::vector<float>{0.0f, 0.0f, 1.0f}), "AAAAAAAAAAAAAIA/");
}

TEST(EmbeddingAnswerTest, InBase64EachEntryIsAText) {
  EmbeddingAnswer answer(/*base64=*/true);
  answer.Add(std::vector<float>{1.0f});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Json body, ParseJson(answer.Finish("m", 1)));
  EXPECT_EQ(body["data"][0]["embedding"], "AACAPw==");
}

}  // namespace
}  // namespace attndb::server
