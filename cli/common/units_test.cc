// Goal:   times and ages read as people write them; parsers refuse all other texts.
// Method: tables of values at and around each change of unit.
#include "cli/common/units.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace attndb::cli {
namespace {

TEST(UnitsTest, SecondsReadAsPeopleSayThem) {
  const std::vector<std::pair<double, std::string>> cases = {
      {0.0000081, "8 us"}, {0.0081, "8.1 ms"},   {0.21, "210 ms"},    {1, "1.0 s"},
      {59.9, "59.9 s"},    {59.96, "1 min 0 s"}, {200, "3 min 20 s"}, {7500, "2 h 5 min"}};
  for (const auto& [seconds, text] : cases) EXPECT_EQ(FormatSeconds(seconds), text) << seconds;
}

TEST(UnitsTest, AgesRoundDown) {
  constexpr int64_t kNow = 2'000'000'000'000'000;
  const auto age = [&](int64_t seconds) { return FormatAge(kNow - seconds * 1'000'000, kNow); };
  EXPECT_EQ(age(0), "just now");
  EXPECT_EQ(age(59), "59 s ago");
  EXPECT_EQ(age(60), "1 min ago");
  EXPECT_EQ(age(3599), "59 min ago");
  EXPECT_EQ(age(3600), "1 h ago");
  EXPECT_EQ(age(86400), "1 day ago");
  EXPECT_EQ(age(3 * 86400), "3 days ago");
  EXPECT_EQ(age(-10), "in the future");
}

TEST(UnitsTest, TtlTextIsParsedAndPrinted) {
  const std::vector<std::pair<std::string, int64_t>> cases = {
      {"3600", 3600},          {"90s", 90},        {"15m", 900},
      {"15 min", 900},         {"1h", 3600},       {"7d", 7 * 86400},
      {"2w", 14 * 86400},      {"1.5h", 5400},     {"1h30m", 5400},
      {"1 h 30 min", 5400},    {"1d12h", 129'600}, {"0.5d", 43'200},
      {"1w1d1h1m1s", 694'861}, {"1.5s", 2},        {"36600d", 36'600 * 86'400LL}};
  for (const auto& [text, seconds] : cases) {
    const auto ttl = ParseTtl(text);
    ASSERT_TRUE(ttl.ok()) << text << ": " << ttl.status();
    ASSERT_TRUE(ttl->has_value()) << text;
    EXPECT_EQ((*ttl)->count(), seconds) << text;
  }
  const auto never = ParseTtl("never");
  ASSERT_TRUE(never.ok());
  EXPECT_FALSE(never->has_value());
  EXPECT_EQ(FormatTtl(std::nullopt), "never");
  EXPECT_EQ(FormatTtl(7 * 86400), "7 d");
  EXPECT_EQ(FormatTtl(3600), "1 h");
  EXPECT_EQ(FormatTtl(90), "90 s");
}

TEST(UnitsTest, WhatIsNoTtlIsRefusedWithTheText) {
  for (const char* text : {"",
                           "0",
                           "-1",
                           "h",
                           "1y",
                           "7dd",
                           "9999999999999999999",
                           "9223372036854775807w",
                           "Never",
                           "1.5",
                           "0.2s",
                           "30m1h",
                           "1h1h",
                           "1h30",
                           "1h m",
                           "1.5.5h",
                           "1e3",
                           "inf",
                           "nan",
                           "1h-30m",
                           "101y",
                           "36601d",
                           "1 h 30 m x"}) {
    const auto ttl = ParseTtl(text);
    ASSERT_FALSE(ttl.ok()) << text;
    EXPECT_EQ(ttl.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(ttl.status().message().find("'" + std::string(text) + "'"), std::string::npos);
  }
}

TEST(UnitsTest, LimitsAreSizesAboveNothingOrNone) {
  EXPECT_EQ(*ParseLimit("none"), 0u);
  EXPECT_EQ(*ParseLimit("20GiB"), uint64_t{20} << 30);
  EXPECT_EQ(*ParseLimit("1"), 1u);
  for (const char* text : {"0", "0.4", "0GiB", "", "None", "-1", "much"}) {
    EXPECT_EQ(ParseLimit(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
  EXPECT_NE(ParseLimit("0").status().message().find("or none"), std::string::npos);
}

TEST(UnitsTest, SizesAreParsed) {
  const std::vector<std::pair<std::string, uint64_t>> cases = {
      {"0", 0},          {"1048576", 1048576},   {"512K", 524288},       {"512 KiB", 524288},
      {"512kb", 524288}, {"1.5GiB", 1610612736}, {"10 GB", 10737418240}, {"1T", 1099511627776}};
  for (const auto& [text, bytes] : cases) {
    const auto parsed = ParseBytes(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status();
    EXPECT_EQ(*parsed, bytes) << text;
  }
}

TEST(UnitsTest, WhatIsNoSizeIsRefused) {
  for (const char* text : {"", "G", "-1", "nan", "inf", "1X", "1GiBB", "1 G B", "99999999999P"}) {
    EXPECT_EQ(ParseBytes(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace attndb::cli
