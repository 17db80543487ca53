// Goal:   special tokens are found in texts where llama.cpp's tokenizer finds them, and in no text
//         that was marked, however its characters are escaped.
// Method: made-up tokens that overlap; SmolLM2's vocabulary with random texts, beside llama.cpp.
#include "engines/llama/special_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "engines/llama/prompt_items.h"
#include "engines/llama/tokenizer.h"
#include "engines/llama/vocab_test_util.h"

namespace attndb::llama {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Found(const SpecialTokens& special, std::string_view text) {
  std::vector<std::string> found;
  for (const SpecialTokens::Place& place : special.Find(text)) {
    EXPECT_EQ(text.substr(place.begin, place.end - place.begin), place.token->text);
    found.push_back(std::to_string(place.begin) + ":" + place.token->text);
  }
  return found;
}

SpecialTokens Make(const std::vector<std::string>& texts) {
  std::vector<SpecialToken> tokens;
  for (const std::string& text : texts) {
    tokens.push_back({text, static_cast<TokenId>(tokens.size()), true});
  }
  return SpecialTokens(std::move(tokens));
}

TEST(SpecialTokensTest, TheLongestTokenIsTakenOfThoseThatOverlap) {
  const SpecialTokens special = Make({"<a>", "<a><b>", "b><", "<", "", "<a>"});
  EXPECT_THAT(Found(special, "x<a><b>"), ElementsAre("1:<a><b>"));
  EXPECT_THAT(Found(special, "<a>b><"), ElementsAre("0:<a>", "3:b><"));
  EXPECT_THAT(Found(special, "<b><a>"), ElementsAre("0:<", "1:b><")) << "one of three is taken";
  EXPECT_THAT(Found(special, ""), IsEmpty());
  EXPECT_THAT(Found(special, "ab"), IsEmpty());
  EXPECT_THAT(Found(Make({}), "<a>"), IsEmpty());
}

TEST(SpecialTokensTest, NoControlTokenIsFoundInAMarkedText) {
  const SpecialTokens special = Make({"<|end|>", "<|end|><|end|>", "\xC3\xA9t", "x\"y"});
  for (const std::string& text :
       {std::string("<|end|>"), std::string("a<|end|><|end|>b"), std::string("\xC3\xA9t\xC3\xA9t"),
        std::string("<|<|end|>end|>")}) {
    const std::string marked = special.Marked(text, "\xEE\x80\x80");
    EXPECT_THAT(Found(special, marked), IsEmpty()) << text;
    std::string back = marked;
    for (size_t at; (at = back.find("\xEE\x80\x80")) != std::string::npos;) back.erase(at, 3);
    EXPECT_EQ(back, text);
  }
  EXPECT_EQ(special.Marked("<|end", "!"), "<|end");
  EXPECT_EQ(special.Marked("\xC3\xA9t", "!"), "\xC3\xA9!t") << "characters stay whole";
}

TEST(SpecialTokensTest, NamesThatJsonEscapesAreMarkedToo) {
  const SpecialTokens special = Make({"<|end|>", "x\"y", "\xF0\x9F\x98\x80z", "n|"});
  EXPECT_EQ(special.Marked(R"(\u003c|end|>)", "!"), R"(\u003c!|end|>)");
  EXPECT_EQ(special.Marked(R"(<|\u0065nd|>)", "!"), R"(<!|\u0065nd|>)");
  EXPECT_EQ(special.Marked(R"({\"a\": \"\\u003c|end|>\"})", "!"), R"({\"a\": \"\\u003c!|end|>\"})");
  EXPECT_EQ(special.Marked(R"(x\"y)", "!"), R"(x!\"y)");
  EXPECT_EQ(special.Marked(R"(\ud83d\ude00z)", "!"), R"(\ud83d\ude00!z)");
  EXPECT_EQ(special.Marked(R"(a\n|)", "!"), R"(a\n!|)") << "a backslash that escapes nothing";
  EXPECT_EQ(special.Marked(R"(\u00)", "!"), R"(\u00)");
  EXPECT_EQ(special.Marked("\\", "!"), "\\");
}

TEST(SpecialTokensTest, TokensThatAreNoControlTokensStay) {
  const SpecialTokens special({{"<think>", 1, false}, {"<|end|>", 2, true}});
  EXPECT_EQ(special.Marked("<think><|end|>", "!"), "<think><!|end|>");
}

// Cuts texts as llama.cpp does.
void ExpectAsLlamaCpp(const ModelPtr& model) {
  ASSERT_NE(model, nullptr);
  const Tokenizer tokenizer(llama_model_get_vocab(model.get()));
  std::mt19937_64 random(29);
  const std::vector<std::string> names = {"<|im_start|>", "<|im_end|>", "<|im_", "|>", "<s>",
                                          "</s>",         "<mask>",     " ",     "<"};
  for (int round = 0; round < 100; ++round) {
    std::string text;
    for (int i = 0; i < 6; ++i) {
      text += names[Below(names.size(), &random)] + RandomText(&random, Below(20, &random));
    }
    std::vector<std::string> expected;
    for (const PromptItem& item : *ItemsOfMarkup(tokenizer, text)) {
      if (item.control) expected.push_back(std::to_string(*item.control));
    }
    std::vector<std::string> found;
    for (const SpecialTokens::Place& place : tokenizer.special().Find(text)) {
      if (place.token->is_control) found.push_back(std::to_string(place.token->id));
    }
    EXPECT_EQ(found, expected) << text;
  }
}

TEST(SpecialTokensTest, TextsAreCutWhereLlamaCppCutsThem) {
  const VocabMaker maker;
  ExpectAsLlamaCpp(maker.Load([](gguf_context*) {}));
  ExpectAsLlamaCpp(maker.Load(StripRight));
  ExpectAsLlamaCpp(maker.Load(StripLeft));
  ExpectAsLlamaCpp(maker.Load([](gguf_context* file) { MakeSentencePiece(true, true, file); }));
}

}  // namespace
}  // namespace attndb::llama
