// Goal:   the manual page has all that the help has, and no text is taken for a request of roff.
// Method: a small program whose texts have roff's own signs.
#include "cli/common/man_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace attndb::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ManPageTest, HasCommandsFlagsExamplesAndTables) {
  const OptionEntry json = {.names = {"--json"}, .value = "", .help = ".json \\n", .group = ""};
  CommandTree show = {.name = "show",
                      .summary = "Show it",
                      .footer = "\nExamples:\n  a show x\n  a show -\n",
                      .options = {json,
                                  {.names = {"-f", "--file"},
                                   .value = "FILE",
                                   .help = "A file",
                                   .group = "",
                                   .required = true},
                                  {.names = {},
                                   .value = "THING",
                                   .help = "What",
                                   .group = "",
                                   .required = true,
                                   .repeats = true}},
                      .commands = {}};
  const CommandTree program = {.name = "a",
                               .summary = "a shows things.",
                               .footer = "\nExamples:\n  a show y\n\nExit codes: 0 ok.",
                               .options = {json},
                               .commands = {show}};
  const std::string page = ManPage(program, {.version = "1.2",
                                             .exit_codes = {{"0", "done"}},
                                             .advice = {{"a port that is taken", "take another"}},
                                             .variables = {{"A_B", "a b"}}});
  EXPECT_THAT(page, HasSubstr(".TH A 1 \"\" \"a 1.2\" \"User Commands\"\n"));
  EXPECT_THAT(page, HasSubstr(".SH NAME\na \\- shows things\n"));
  EXPECT_THAT(page, HasSubstr(".TP\n\\fB\\-\\-json\\fR\n\\&.json \\en\n"));
  EXPECT_THAT(page, HasSubstr(".SS show\n\\fBa show\\fR [\\fIOPTIONS\\fR] \\fITHING\\fR...\n"));
  EXPECT_THAT(page,
              HasSubstr("\\fB\\-f\\fR, \\fB\\-\\-file\\fR \\fIFILE\\fR\nA file (required)\n"));
  EXPECT_THAT(page, HasSubstr(".nf\na show x\na show \\-\n.fi\n"));
  EXPECT_THAT(page, HasSubstr(".SH EXIT STATUS\n.TP\n\\fB0\\fR\ndone\n"));
  EXPECT_THAT(page, HasSubstr(".SH ERRORS\n.TP\n\\fBa port that is taken\\fR\ntake another\n"));
  EXPECT_THAT(page, HasSubstr(".SH ENVIRONMENT\n.TP\n\\fBA_B\\fR\na b\n"));
  EXPECT_THAT(page, Not(HasSubstr("Exit codes")));
}

}  // namespace
}  // namespace attndb::cli
