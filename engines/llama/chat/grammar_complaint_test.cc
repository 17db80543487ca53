// Goal:   a complaint about a grammar names the place, and has at most a part of the grammar in it.
// Method: what llama.cpp prints, written down.
#include "engines/llama/chat/grammar_complaint.h"

#include <gtest/gtest.h>

#include <string>

namespace attndb::llama {
namespace {

// Returns llama.cpp's complaint about a grammar that is wrong from `offset` on.
std::string Printed(const std::string& complaint, const std::string& grammar, size_t offset) {
  return "parse: error parsing grammar: " + complaint + " at " + grammar.substr(offset) + "\n\n" +
         grammar + "\nfailed to parse grammar\n";
}

TEST(GrammarComplaintTest, NamesLineAndColumnInCharacters) {
  const std::string grammar = "root ::= \"é\"\nb ::= \"äö\" ]\nc ::= \"x\"\n";
  EXPECT_EQ(GrammarComplaint(Printed("expecting name", grammar, 0), grammar),
            "expecting name at line 1, column 1");
  EXPECT_EQ(GrammarComplaint(Printed("expecting newline", grammar, grammar.find(']')), grammar),
            "expecting newline at line 2, column 12");
  EXPECT_EQ(GrammarComplaint(Printed("expecting ::=", grammar, grammar.size()), grammar),
            "expecting ::= at line 4, column 1");
}

TEST(GrammarComplaintTest, AGrammarThatLooksLikeAComplaintDoesNotHideThePlace) {
  const std::string grammar = "look at me\n\nlook at me\n";
  EXPECT_EQ(GrammarComplaint(Printed("expecting ::=", grammar, 5), grammar),
            "expecting ::= at line 1, column 6");
}

TEST(GrammarComplaintTest, WithoutAPlaceItIsWhatWasPrinted) {
  EXPECT_EQ(GrammarComplaint("grammar does not contain a 'root' symbol\n", "a ::= b"),
            "grammar does not contain a 'root' symbol");
  EXPECT_EQ(GrammarComplaint("parse: error parsing grammar: Undefined rule\n\nx\nfailed\n", "x"),
            "Undefined rule");
  EXPECT_EQ(GrammarComplaint("", "x"), "llama.cpp does not say why");
}

TEST(GrammarComplaintTest, ALongOneIsCut) {
  const std::string grammar(100'000, 'x');
  const std::string printed =
      "parse: error parsing grammar: invalid token '" + grammar + "'\n\n" + grammar + "\nfailed\n";
  EXPECT_LT(GrammarComplaint(printed, grammar).size(), 400U);
}

TEST(GrammarComplaintTest, NoCharacterIsCut) {
  for (size_t shift = 0; shift < 4; ++shift) {
    std::string printed(shift, 'x');
    for (size_t i = 0; i < 100; ++i) printed += "\xf0\x9f\x9a\x8b";
    const std::string complaint = GrammarComplaint(printed, "a ::= b");
    EXPECT_EQ((complaint.size() - shift) % 4, 0u) << shift;
    EXPECT_GT(complaint.size(), 290u);
  }
}

}  // namespace
}  // namespace attndb::llama
