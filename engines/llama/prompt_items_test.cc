// Goal:   markup is cut into its control tokens and texts; spaces that control tokens take are none
//         of a content; every byte of a run is found in its item.
// Method: SmolLM2's vocabulary, with control tokens that take the spaces behind or before them.
#include "engines/llama/prompt_items.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engines/llama/tokenizer.h"
#include "engines/llama/vocab_test_util.h"

namespace attndb::llama {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> TextsOfItems(std::span<const PromptItem> items) {
  std::vector<std::string> texts;
  for (const PromptItem& item : items) texts.emplace_back(item.text);
  return texts;
}

std::vector<std::string> Stripped(const ModelPtr& model, const PromptParts& parts) {
  const Tokenizer tokenizer(llama_model_get_vocab(model.get()));
  std::vector<PromptItem> items = *ItemsOfParts(tokenizer, parts);
  StripSpaces(tokenizer, items);
  return TextsOfItems(items);
}

TEST(PromptItemsTest, PartsBecomeControlTokensTextsAndContents) {
  const ModelPtr model = VocabMaker().Load([](gguf_context*) {});
  const Tokenizer tokenizer(llama_model_get_vocab(model.get()));
  const PromptParts parts = {{"<|im_start|>user\n", "<|im_end|>"}, {"<|im_end|>", ""}};
  const std::vector<PromptItem> items = *ItemsOfParts(tokenizer, parts);
  EXPECT_THAT(TextsOfItems(items),
              ElementsAre("<|im_start|>", "user\n", "<|im_end|>", "<|im_end|>", ""));
  EXPECT_EQ(items[0].control, std::optional<TokenId>(1));
  EXPECT_FALSE(items[1].control || items[1].is_content);
  EXPECT_FALSE(items[2].control) << "a word of the content";
  EXPECT_TRUE(items[2].is_content);
  EXPECT_EQ(items[3].control, std::optional<TokenId>(2));
  EXPECT_TRUE(items[4].is_content);
}

TEST(PromptItemsTest, ControlTokensTakeSpacesOfTheTemplateAlone) {
  const VocabMaker maker;
  EXPECT_THAT(Stripped(maker.Load(StripRight), {{"a <|im_end|>\n b", "c"}}),
              ElementsAre("a ", "<|im_end|>", "b", "c"));
  EXPECT_THAT(Stripped(maker.Load(StripRight), {{"<|im_end|> ", " c"}, {" d", ""}}),
              ElementsAre("<|im_end|>", "", " c", " d", ""));
  EXPECT_THAT(Stripped(maker.Load(StripRight), {{"<|im_end|>", ""}, {" d", ""}}),
              ElementsAre("<|im_end|>", "", " d", ""))
      << "an empty content keeps it";
  EXPECT_THAT(Stripped(maker.Load(StripLeft), {{"", "c "}, {" a \n<mask> b", "d"}}),
              ElementsAre("c ", " a", "<mask>", " b", "d"));
  EXPECT_THAT(Stripped(maker.Load(StripLeft), {{"", "c "}, {" <mask>", "d"}}),
              ElementsAre("c ", "", "<mask>", "d"));
  EXPECT_THAT(Stripped(maker.Load(StripLeft), {{" <|im_end|> ", "d"}}),
              ElementsAre(" ", "<|im_end|>", " ", "d"));
}

TEST(PromptItemsTest, BytesOfARunAreFoundInTheirItems) {
  const std::vector<PromptItem> items = {{"ab", std::nullopt, false},
                                         {"", std::nullopt, true},
                                         {"c", std::nullopt, true},
                                         {"<|im_end|>", 2, false},
                                         {"d", std::nullopt, false}};
  const PromptRun run(items, 0);
  EXPECT_EQ(run.text(), "abc");
  EXPECT_EQ(run.end_item(), 3U);
  const auto place = [](const PromptRun& of, size_t at) {
    const PromptRun::Place found = of.PlaceOf(at);
    return std::vector<size_t>{found.item, found.byte};
  };
  EXPECT_THAT(place(run, 0), ElementsAre(0, 0));
  EXPECT_THAT(place(run, 1), ElementsAre(0, 1));
  EXPECT_THAT(place(run, 2), ElementsAre(2, 0));
  EXPECT_THAT(place(run, 3), ElementsAre(3, 0));
  EXPECT_EQ(PromptRun(items, 3).text(), "") << "a control token stands there";
  const PromptRun last(items, 4);
  EXPECT_EQ(last.end_item(), items.size());
  EXPECT_THAT(place(last, 1), ElementsAre(5, 0));
  EXPECT_EQ(PromptRun(items, 5).end_item(), items.size());
}

}  // namespace
}  // namespace attndb::llama
