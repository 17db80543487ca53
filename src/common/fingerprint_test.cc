// Goal:   a fingerprint survives being read and typed, whatever its bytes.
// Method: round trips, two that look alike, and texts that are none.
#include "attndb/fingerprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace attndb {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Fingerprint, TextIsShownAsItIs) {
  EXPECT_EQ(FingerprintText("llama-3-8b v2"), "llama-3-8b v2");
}

TEST(Fingerprint, OtherBytesAreShownAsDigits) {
  EXPECT_EQ(FingerprintText(std::string("\x00\xff~", 3)), "hex:00ff7e");
  EXPECT_EQ(FingerprintText("a\n"), "hex:610a");
}

TEST(Fingerprint, SurvivesTheRoundTrip) {
  for (const std::string& fingerprint :
       {std::string("model"), std::string("\0\x01", 2), std::string("hex:00"),
        std::string("hex:nonsense"), std::string(256, '\xfe')}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const std::string parsed,
                                ParseFingerprint(FingerprintText(fingerprint)));
    EXPECT_EQ(parsed, fingerprint);
  }
  EXPECT_THAT(FingerprintText("hex:00"), StartsWith("hex:6865783a"));
}

TEST(Fingerprint, RefusesWhatNamesNothing) {
  for (const char* text : {"", "hex:", "hex:0", "hex:0g"}) {
    EXPECT_THAT(ParseFingerprint(text),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("fingerprint")))
        << text;
  }
}

}  // namespace
}  // namespace attndb
