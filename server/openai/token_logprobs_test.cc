// Goal:   logprobs have OpenAI's shapes and llama.cpp's, are JSON whatever the bytes of a token
//         are, and their offsets and bytes fit the text.
// Method: tokens by hand: parts of characters, control tokens, unlikely ones.
#include "server/openai/token_logprobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "testing/matchers.h"

namespace attndb::server {
namespace {

using llama::LikelyToken;
using llama::ReplyToken;

Json Taken(TokenLogprobs* logprobs) {
  const std::string text = logprobs->Take();
  const Result<Json> json = ParseJson(text);
  EXPECT_THAT(json, ::attndb::test::IsOk()) << text;
  return json.ok() ? *json : Json();
}

Json JsonOf(LogprobForm form, const std::vector<ReplyToken>& tokens) {
  TokenLogprobs logprobs(form);
  EXPECT_TRUE(logprobs.empty());
  logprobs.Add(tokens);
  EXPECT_EQ(logprobs.empty(), tokens.empty());
  Json json = Taken(&logprobs);
  EXPECT_TRUE(logprobs.empty());
  return json;
}

const ReplyToken kHi = {
    .token = 7,
    .chance = -0.5,
    .text = "Hi",
    .likeliest = {{.token = 7, .chance = -0.5, .text = "Hi"},
                  {.token = 2, .chance = -1.25, .text = "<|end|>", .is_named = true}}};

TEST(TokenLogprobsTest, AChatHasContent) {
  EXPECT_EQ(ToText(JsonOf(LogprobForm::kContent, {kHi})),
            R"({"content":[{"id":7,"token":"Hi","bytes":[72,105],"logprob":-0.5,"top_logprobs":[)"
            R"({"id":7,"token":"Hi","bytes":[72,105],"logprob":-0.5},)"
            R"({"id":2,"token":"<|end|>","bytes":null,"logprob":-1.25}]}],"refusal":null})");
  EXPECT_EQ(ToText(JsonOf(LogprobForm::kContent, {})), R"({"content":[],"refusal":null})");
}

TEST(TokenLogprobsTest, ProbabilitiesAfterSamplersAreLlamaCppsServers) {
  ReplyToken token = kHi;
  token.chance = 0.75;
  token.likeliest = {{.token = 7, .chance = 0.75, .text = "Hi"}};
  EXPECT_EQ(ToText(JsonOf(LogprobForm::kProbs, {token})),
            R"({"content":[{"id":7,"token":"Hi","bytes":[72,105],"prob":0.75,"top_probs":[)"
            R"({"id":7,"token":"Hi","bytes":[72,105],"prob":0.75}]}],"refusal":null})");
}

TEST(TokenLogprobsTest, ACompletionHasLists) {
  ReplyToken other = {.token = 9, .chance = -3, .text = "\xC3\xA4 x"};
  other.likeliest = {{.token = 8, .chance = -0.5, .text = "a"},
                     {.token = 10, .chance = -0.75, .text = "a"}};
  EXPECT_EQ(ToText(JsonOf(LogprobForm::kLegacy, {kHi, other, kHi})),
            R"({"tokens":["Hi",")"
            "\xC3\xA4"
            R"( x","Hi"],"token_logprobs":[-0.5,-3.0,-0.5],"top_logprobs":[)"
            R"({"Hi":-0.5,"<|end|>":-1.25},{"a":-0.5,")"
            "\xC3\xA4"
            R"( x":-3.0},{"Hi":-0.5,"<|end|>":-1.25}],"text_offset":[0,2,5]})");
  EXPECT_EQ(ToText(JsonOf(LogprobForm::kLegacy, {})),
            R"({"tokens":[],"token_logprobs":[],"top_logprobs":null,"text_offset":[]})");
}

TEST(TokenLogprobsTest, ACompletionsListHasEachTokenByItsOwnText) {
  ReplyToken end = kHi;  // It has no text in a reply, and its name elsewhere.
  end.token = 2;
  end.chance = -1.25;
  end.text = "";
  EXPECT_EQ(ToText(JsonOf(LogprobForm::kLegacy, {end})["top_logprobs"]),
            R"([{"Hi":-0.5,"":-1.25}])");
}

TEST(TokenLogprobsTest, WithoutOthersThereAreNone) {
  const ReplyToken alone = {.token = 7, .chance = -0.5, .text = "Hi"};
  EXPECT_EQ(ToText(JsonOf(LogprobForm::kContent, {alone})["content"][0]["top_logprobs"]), "[]");
  EXPECT_TRUE(JsonOf(LogprobForm::kLegacy, {alone})["top_logprobs"].is_null());
}

TEST(TokenLogprobsTest, PartsOfCharactersAreBytes) {
  // The euro sign in two tokens, each with a letter beside it.
  const std::vector<ReplyToken> tokens = {{.text = "a\xE2\x82"}, {.text = "\xAC\xC3\xA4"}};
  const Json content = JsonOf(LogprobForm::kContent, tokens)["content"];
  EXPECT_EQ(content[0]["token"], "a\\xe2\\x82");
  EXPECT_EQ(ToText(content[0]["bytes"]), "[97,226,130]");
  EXPECT_EQ(content[1]["token"], "\\xac\xC3\xA4");
  const Json legacy = JsonOf(LogprobForm::kLegacy, tokens);
  EXPECT_EQ(legacy["tokens"][0], "bytes:a\\xe2\\x82");
  EXPECT_EQ(legacy["tokens"][1], "bytes:\\xac\xC3\xA4");
  EXPECT_EQ(ToText(legacy["text_offset"]), "[0,2]") << "two characters begin in the first";
}

TEST(TokenLogprobsTest, ATokenWithoutBytesHasNone) {
  const Json content =
      JsonOf(LogprobForm::kContent, {{.token = 2, .chance = -1, .text = ""}})["content"];
  EXPECT_EQ(ToText(content[0]),
            R"({"id":2,"token":"","bytes":[],"logprob":-1.0,"top_logprobs":[]})");
}

TEST(TokenLogprobsTest, TheMostUnlikelyHasANumberAllTheSame) {
  const double never = -std::numeric_limits<double>::infinity();
  for (const double chance : {never, std::nan(""), -1e300}) {
    const std::vector<ReplyToken> tokens = {
        {.chance = chance, .text = "a", .likeliest = {{.chance = chance, .text = "b"}}}};
    const Json content = JsonOf(LogprobForm::kContent, tokens)["content"][0];
    EXPECT_EQ(content["logprob"], -9999.0);
    EXPECT_EQ(content["top_logprobs"][0]["logprob"], -9999.0);
    EXPECT_EQ(JsonOf(LogprobForm::kLegacy, tokens)["token_logprobs"][0], -9999.0);
  }
}

TEST(TokenLogprobsTest, OffsetsGoOnFromEventToEvent) {
  TokenLogprobs logprobs(LogprobForm::kLegacy);
  logprobs.Add(std::vector<ReplyToken>{kHi});
  EXPECT_EQ(ToText(Taken(&logprobs)["text_offset"]), "[0]");
  logprobs.Add(std::vector<ReplyToken>{kHi});
  EXPECT_EQ(ToText(Taken(&logprobs)["text_offset"]), "[2]");
}

TEST(TokenLogprobsTest, TheirTextTakesThePlaceOfTheNullThatIsNoText) {
  const Json frame = {{"text", R"(x"logprobs":null)"}, {"logprobs", nullptr}, {"a", 1}};
  EXPECT_EQ(TextWithLogprobs(frame, "[1]"),
            R"({"text":"x\"logprobs\":null","logprobs":[1],"a":1})");
  EXPECT_EQ(TextWithLogprobs({{"a", 1}}, "[1]"), R"({"a":1})");
}

}  // namespace
}  // namespace attndb::server
