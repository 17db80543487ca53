// Goal:   the tokens of an infill stand in the order in which llama.cpp's server puts them, and
//         what is too long loses the same parts.
// Method: tokens written down.
#include "server/llama/infill_prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr TokenId kPre = 901, kSuf = 902, kMid = 903, kRep = 904, kFile = 905, kBegin = 1;
constexpr llama::FimTokens kAll = {
    .prefix = kPre, .suffix = kSuf, .middle = kMid, .repository = kRep, .file = kFile};
constexpr llama::FimTokens kFew = {
    .prefix = kPre, .suffix = kSuf, .middle = kMid, .repository = {}, .file = {}};

InfillTexts Texts() {
  return {.repository = {10},
          .files = {{.name = {20}, .text = {21, 22}}, {.name = {30}, .text = {31}}},
          .own_name = {40},
          .separator = {50},
          .prefix = {61, 62},
          .suffix = {71, 72},
          .prompt = {81}};
}

TEST(InfillPromptTest, FilesComeFirstThenPrefixPromptSuffixAndTheMiddle) {
  EXPECT_THAT(InfillTokens(kAll, kBegin, Texts(), {}),
              ElementsAre(kRep, 10, kFile, 20, 21, 22, kFile, 30, 31, kFile, 40,  //
                          kBegin, kPre, 61, 62, 81, kSuf, 71, 72, kMid));
}

TEST(InfillPromptTest, WithoutTokensForFilesALineStandsBetween) {
  EXPECT_THAT(InfillTokens(kFew, {}, Texts(), {}),
              ElementsAre(50, 21, 22, 50, 31, kPre, 61, 62, 81, kSuf, 71, 72, kMid));
}

TEST(InfillPromptTest, FilesLoseThoseInFront) {
  EXPECT_THAT(InfillTokens(kFew, {}, Texts(), {.file_tokens = 2}),
              ElementsAre(50, 31, kPre, 61, 62, 81, kSuf, 71, 72, kMid));
  EXPECT_THAT(InfillTokens(kFew, {}, Texts(), {.file_tokens = 0}),
              ElementsAre(kPre, 61, 62, 81, kSuf, 71, 72, kMid));
}

TEST(InfillPromptTest, ThePrefixLosesItsBeginningAndTheSuffixItsEnd) {
  InfillTexts texts;
  for (TokenId token = 0; token < 20; ++token) {
    texts.prefix.push_back(100 + token);
    texts.suffix.push_back(200 + token);
  }
  // Twelve of 16 are the prefix's, and four the suffix's, less the two around it.
  EXPECT_THAT(InfillTokens(kFew, {}, texts, {.near_tokens = 16}),
              ElementsAre(kPre, 108, 109, 110, 111, 112, 113, 114, 115, 116, 117, 118, 119, kSuf,
                          200, 201, kMid));
  texts.prompt = {81, 82, 83};
  EXPECT_THAT(InfillTokens(kFew, {}, texts, {.near_tokens = 4}),
              ElementsAre(kPre, 117, 118, 119, 81, 82, 83, kSuf, kMid));
}

TEST(InfillPromptTest, AModelThatFillsInNothingIsNamed) {
  ATTNDB_EXPECT_OK(CheckFillsIn(kFew));
  EXPECT_THAT(CheckFillsIn({}),
              FailsWith(StatusCode::kUnsupported, HasSubstr("prefix suffix middle")));
  EXPECT_THAT(CheckFillsIn({.prefix = kPre, .suffix = kSuf}),
              FailsWith(StatusCode::kUnsupported, HasSubstr("no token for middle")));
}

}  // namespace
}  // namespace attndb::server
