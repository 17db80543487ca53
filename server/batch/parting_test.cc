// Goal:   the place at which a prompt parts from a stored turn is told by message and character,
//         and its texts can stand in any answer.
// Method: SmolLM2's tokenizer and template: a turn of one text, and prompts of others.
#include "server/batch/parting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "server/smollm2_test_util.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using Messages = std::vector<llama::ChatMessage>;

class PartingTest : public SmolLm2Test {
 protected:
  // Where the prompt of `asked` parts from the tokens of `stored`; nothing: nowhere.
  static std::optional<Parted> PartedOf(const Messages& asked, const Messages& stored) {
    const llama::RenderedPrompt before = *engine_->Render(stored);
    const std::vector<TokenId> tokens = engine_->Follow({}, before.items)->joined.tokens;
    const llama::RenderedPrompt prompt = *engine_->Render(asked);
    const llama::FollowedText followed =
        *engine_->Follow(tokens, prompt.items, {.limits = {}, .messages = prompt.messages});
    if (!followed.parted) return std::nullopt;
    Result<std::optional<Parted>> parted =
        PartedAt(*engine_, *followed.parted, prompt, asked, tokens);
    EXPECT_THAT(parted, ::attndb::test::IsOk());
    return parted.ok() ? *std::move(parted) : std::nullopt;
  }
  static std::string PlaceOf(const Messages& asked, const Messages& stored) {
    const std::optional<Parted> parted = PartedOf(asked, stored);
    return parted ? PlaceText(*parted) : "nowhere";
  }
};

TEST_F(PartingTest, APlaceIsAMessageAndACharacterOfIt) {
  const Messages stored = {{"system", "Today is Monday, the 3rd."}, {"user", "Hello"}};
  EXPECT_EQ(PlaceOf(stored, stored), "nowhere");
  EXPECT_EQ(PlaceOf({{"system", "Today is Monday, the 4th."}, {"user", "Hello"}}, stored), "0:21");
  EXPECT_EQ(PlaceOf({{"system", "Today is Monday, the 3rd."}, {"user", "Help"}}, stored), "1:3");
  EXPECT_EQ(PlaceOf({{"system", "Today is Monday, the 3rd."}, {"user", "Ho"}}, stored), "1:1");
  EXPECT_EQ(PlaceOf({{"system", "Today is Monday, the 3rd."}, {"user", "No"}}, stored), "1:0");
  EXPECT_EQ(PlaceOf({{"user", "Hello"}}, stored), "0:0") << "the role is another";
}

TEST_F(PartingTest, CharactersAreCountedNotBytes) {
  const Messages stored = {{"user", "caf\xC3\xA9 \xE2\x82\xAC 5"}};
  EXPECT_EQ(PlaceOf({{"user", "caf\xC3\xA9 \xE2\x82\xAC 6"}}, stored), "0:7");
  // Both characters have the first byte, or the first two.
  EXPECT_EQ(PlaceOf({{"user", "caf\xC3\xA8 \xE2\x82\xAC 5"}}, stored), "0:3");
  EXPECT_EQ(PlaceOf({{"user", "caf\xC3\xA9 \xE2\x82\xAB 5"}}, stored), "0:5");
  const std::optional<Parted> parted = PartedOf({{"user", "caf\xC3\xA9 \xE2\x82\xAB 5"}}, stored);
  ASSERT_TRUE(parted);
  EXPECT_THAT(parted->asked, ::testing::StartsWith(R"(\xe2\x82\xab 5<|im_end|>\n)"));
  EXPECT_THAT(parted->stored, ::testing::StartsWith(R"(\xe2\x82\xac 5<|im_end|>\n)"));
}

TEST_F(PartingTest, BothTextsAreShownUpTo64Bytes) {
  const std::string tail(100, 'x');
  const std::optional<Parted> parted =
      PartedOf({{"user", "one\ttwo " + tail}}, {{"user", "one \"2\" " + tail}});
  ASSERT_TRUE(parted);
  EXPECT_EQ(PlaceText(*parted), "0:3");
  EXPECT_EQ(parted->asked, R"(\ttwo )" + std::string(59, 'x'));
  EXPECT_EQ(parted->stored, R"( \"2\" )" + std::string(59, 'x'));
}

// No template of the tests trims: a message that the prompt shows in part.
TEST_F(PartingTest, ATrimmedContentIsCountedWithItsSpaces) {
  const Messages asked = {{"user", "  Hello"}};
  const llama::RenderedPrompt prompt = *engine_->Render(Messages{{"user", "Hello"}});
  const llama::PromptParting place = {
      .prompt_byte = prompt.messages[0].begin + 2, .message = 0, .message_byte = 2};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::optional<Parted> parted,
                              PartedAt(*engine_, place, prompt, asked, {}));
  ASSERT_TRUE(parted);
  EXPECT_EQ(PlaceText(*parted), "0:4");
  EXPECT_THAT(parted->asked, ::testing::StartsWith("llo<|im_end|>"));
  EXPECT_EQ(parted->stored, "");
}

TEST_F(PartingTest, NoPlaceIsToldIfThePromptDoesNotShowItsMessages) {
  const Messages asked = {{"user", "Hello"}};
  llama::RenderedPrompt prompt = *engine_->Render(asked);
  prompt.messages.clear();
  EXPECT_FALSE(PartedAt(*engine_, {}, prompt, asked, {})->has_value());
}

TEST(EscapedTest, AnyBytesAreVisibleAscii) {
  EXPECT_EQ(Escaped("a\n\r\t\"\\ \x01\x7f\xff~"), R"(a\n\r\t\"\\ \x01\x7f\xff~)");
  EXPECT_EQ(Escaped(std::string_view("\0", 1)), R"(\x00)");
}

}  // namespace
}  // namespace attndb::server
