// Goal:   a trace is read as documented, and the error for a bad line names the line and the fault.
// Method: small traces; then lines that are cut and changed at random, which may only be refused.
#include "simulate/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "common/random.h"

namespace attndb::tier {
namespace {

using ::testing::HasSubstr;

constexpr TraceLimits kLimits = {
    .kv_bytes_per_token = 10, .window_tokens = 1000, .largest_tier_bytes = 5000};

Result<Workload> Read(const std::string& text, const TraceLimits& limits = kLimits) {
  std::istringstream stream(text);
  return ReadTrace(stream, "t.jsonl", limits);
}

constexpr const char* kGood =
    R"({"time": 5, "conversation": "a", "new_tokens": 10, "answer_tokens": 20}
{"time": 5, "conversation": 7, "new_tokens": 1, "answer_tokens": 2, "user": "x"}

{"time": 9.5, "conversation": "a", "new_tokens": 30, "answer_tokens": 40}
{"time": 11, "conversation": "7", "new_tokens": 3, "answer_tokens": 4})";

TEST(TraceTest, TurnsAreGatheredByConversation) {
  const Result<Workload> workload = Read(kGood);
  ASSERT_TRUE(workload.ok()) << workload.status();
  ASSERT_EQ(workload->conversations.size(), 3u);  // The number 7 is not the name "7".
  ASSERT_EQ(workload->turns.size(), 4u);
  const Conversation& first = workload->conversations[0];
  EXPECT_EQ(first.num_turns, 2u);
  const Turn& second_turn = workload->turns[first.first_turn + 1];
  EXPECT_EQ(second_turn.not_before, 4.5);  // From the first line on.
  EXPECT_EQ(second_turn.new_tokens, 30u);
  EXPECT_EQ(second_turn.answer_tokens, 40u);
  EXPECT_EQ(workload->turns[workload->conversations[2].first_turn].not_before, 6);
}

TEST(TraceTest, ABadLineIsNamed) {
  const struct {
    const char* line;
    const char* message;
  } kCases[] = {
      {"{", "line 2: expected a JSON object, found '{'"},
      {"[1]", "line 2: expected a JSON object, found '[1]'"},
      {R"({"conversation": 1, "new_tokens": 1, "answer_tokens": 1})",
       "line 2: expected a time, found none"},
      {R"({"time": "now", "conversation": 1, "new_tokens": 1, "answer_tokens": 1})",
       "line 2: expected a time of 0 to 1e12 seconds, found '\"now\"'"},
      {R"({"time": -1, "conversation": 1, "new_tokens": 1, "answer_tokens": 1})", "found '-1'"},
      {R"({"time": 1e999, "conversation": 1, "new_tokens": 1, "answer_tokens": 1})", "line 2"},
      {R"({"time": 4.5, "conversation": 1, "new_tokens": 1, "answer_tokens": 1})",
       "line 2: expected a time of at least 5.000000, that of the line before, found 4.5"},
      {R"({"time": 6, "new_tokens": 1, "answer_tokens": 1})",
       "line 2: expected the turn's conversation, found none"},
      {R"({"time": 6, "conversation": "", "new_tokens": 1, "answer_tokens": 1})",
       "expected a conversation's name or number, found '\"\"'"},
      {R"({"time": 6, "conversation": [[1]], "new_tokens": 1, "answer_tokens": 1})",
       "found an array"},
      {R"({"time": 6, "conversation": 1, "new_tokens": 0, "answer_tokens": 1})",
       "line 2: expected new_tokens of 1 to 1,000,000,000, found '0'"},
      {R"({"time": 6, "conversation": 1, "new_tokens": 1})",
       "line 2: expected answer_tokens of 1 to 1,000,000,000, found none"},
      {R"({"time": 6, "conversation": 1, "new_tokens": 1, "answer_tokens": 2.5})", "found '2.5'"},
      {R"({"time": 6, "conversation": 1, "new_tokens": -3, "answer_tokens": 1})", "found '-3'"},
      {R"({"time": 6, "conversation": 1, "new_tokens": 1e18, "answer_tokens": 1})", "new_tokens"},
      {R"({"time": 6, "conversation": "a", "new_tokens": 1, "answer_tokens": 470})",
       "line 2: expected a conversation that a tier can hold, found 501 tokens of 10 B of KV, "
       "more than the largest tier's 4.9 KiB"},
  };
  const std::string first = std::string(kGood).substr(0, std::string(kGood).find('\n') + 1);
  for (const auto& [line, message] : kCases) {
    const Result<Workload> workload = Read(first + line + "\n");
    ASSERT_FALSE(workload.ok()) << line;
    EXPECT_EQ(workload.status().code(), StatusCode::kInvalidArgument) << line;
    EXPECT_THAT(workload.status().message(), HasSubstr(message));
    EXPECT_THAT(workload.status().message(), HasSubstr("t.jsonl line 2: "));
  }
}

TEST(TraceTest, AnEmptyTraceAndLinesWithoutEndAreRefused) {
  for (const char* text : {"", "\n", " \n\r\n"}) {
    EXPECT_THAT(Read(text).status().message(), HasSubstr("t.jsonl: expected turns, found none"));
  }
  EXPECT_THAT(Read(std::string(1 << 20, 'x')).status().message(),
              HasSubstr("t.jsonl line 1: expected less than 65536 bytes"));
  EXPECT_FALSE(Read(R"({"time": )" + std::string(60000, '[')).ok());
  EXPECT_FALSE(Read(R"({"time": )" + std::string(30000, '[') + std::string(30000, ']') + "}").ok());
}

TEST(TraceTest, AWindowBoundsWhatAConversationComesTo) {
  TraceLimits limits = kLimits;
  limits.window_tokens = 500;  // 5,000 bytes: the largest tier's.
  const char* line = R"({"time": 6, "conversation": 1, "new_tokens": 1, "answer_tokens": 9999})";
  EXPECT_TRUE(Read(line, limits).ok());
  EXPECT_FALSE(Read(line).ok());
  limits = kLimits;
  limits.largest_tier_bytes = 0;  // Without tiers nothing is kept.
  EXPECT_TRUE(Read(line, limits).ok());
}

TEST(TraceTest, TooManyTurnsAreRefused) {
  TraceLimits limits = kLimits;
  limits.max_turns = 4;
  EXPECT_TRUE(Read(kGood, limits).ok());
  limits.max_turns = 3;
  EXPECT_THAT(Read(kGood, limits).status().message(),
              HasSubstr("t.jsonl line 5: expected at most 3 turns, found more"));
}

TEST(TraceTest, AFileThatIsNotThereIsNamed) {
  const Status status = ReadTrace("/nowhere/t.jsonl", kLimits).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("/nowhere/t.jsonl"));
  EXPECT_FALSE(ReadTrace("/", kLimits).ok());
}

TEST(TraceTest, BentLinesAreReadOrRefused) {
  const auto seed = static_cast<uint64_t>(::testing::UnitTest::GetInstance()->random_seed());
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  uint64_t num_refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = kGood;
    for (uint64_t bends = 1 + random.Uniform(3); bends > 0; --bends) {
      text[random.Uniform(text.size())] = static_cast<char>(random.Uniform(256));
    }
    const Result<Workload> workload = Read(text.substr(0, text.size() - random.Uniform(2) * 40));
    num_refused += workload.ok() ? 0U : 1U;
    EXPECT_TRUE(!workload.ok() || !workload->turns.empty());
  }
  EXPECT_GT(num_refused, 1000u);
}

}  // namespace
}  // namespace attndb::tier
