// Goal:   a value's placeholder decides its completion, and no text breaks out of a script.
// Method: a program of one command whose help has every sign that a shell takes for its own.
#include "cli/common/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace attndb::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

CommandTree Program() {
  const OptionEntry json = {.names = {"--json"}, .value = "", .help = "JSON", .group = ""};
  CommandTree show = {.name = "show",
                      .summary = "Show 'it': [all]",
                      .footer = "",
                      .options = {json,
                                  {.names = {"-f", "--file"},
                                   .value = "FILE",
                                   .help = "The model's file: a [b]",
                                   .group = ""},
                                  {.names = {},
                                   .value = "CONTEXT",
                                   .help = "",
                                   .group = "",
                                   .required = true,
                                   .repeats = true}},
                      .commands = {}};
  return {.name = "a-b", .summary = "", .footer = "", .options = {json}, .commands = {show}};
}

TEST(CompletionTest, TheWordThatStandsForAValueSaysItsKind) {
  EXPECT_EQ(KindOf(""), ValueKind::kNone);
  EXPECT_EQ(KindOf("CONTEXT"), ValueKind::kContext);
  EXPECT_EQ(KindOf("PATTERN"), ValueKind::kContext);
  EXPECT_EQ(KindOf("FILE"), ValueKind::kFile);
  EXPECT_EQ(KindOf("PATH"), ValueKind::kFolder);
  EXPECT_EQ(KindOf("a|b"), ValueKind::kChoice);
  EXPECT_EQ(KindOf("N"), ValueKind::kOther);
  EXPECT_EQ(ChoicesOf("a|b|c"), "a b c");
}

TEST(CompletionTest, FlagsOfAllCommandsAreTold) {
  const CommandTree program = Program();
  EXPECT_TRUE(IsCommon(program, program.commands[0].options[0]));
  EXPECT_FALSE(IsCommon(program, program.commands[0].options[1]));
  EXPECT_FALSE(IsCommon(program, program.commands[0].options[2]));
}

TEST(CompletionTest, NamesOfFunctionsHaveNoDash) {
  EXPECT_EQ(WithProgram("_PROGRAM PROGRAM", "a-b"), "_a_b a-b");
  EXPECT_THAT(BashCompletion(Program()), HasSubstr("complete -F _a_b a-b\n"));
}

TEST(CompletionTest, BashKnowsWhatAFlagTakes) {
  const std::string script = BashCompletion(Program());
  EXPECT_THAT(script, HasSubstr("'show -f' | 'show --file') kind='file' ;;"));
  EXPECT_THAT(script, HasSubstr("'show '*) kind='context' ;;"));
  EXPECT_THAT(script, HasSubstr("show) words='--json -f --file' ;;"));
}

TEST(CompletionTest, TextsAreQuotedAsTheShellWants) {
  EXPECT_THAT(ZshCompletion(Program()),
              HasSubstr(R"('*--file=[The model'\''s file\: a \[b\]]:FILE:_files')"));
  EXPECT_THAT(ZshCompletion(Program()), HasSubstr(R"('show:Show '\''it'\''\: \[all\]')"));
  const std::string fish = FishCompletion(Program());
  EXPECT_THAT(fish, HasSubstr(R"(-s f -l file -r -F -d 'The model\'s file: a [b]')"));
  EXPECT_THAT(fish, HasSubstr(R"(from show' -a '(__a_b_contexts)')"));
  EXPECT_THAT(fish, Not(HasSubstr("from show' -l json")));
}

}  // namespace
}  // namespace attndb::cli
