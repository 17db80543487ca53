// Goal:   a server's key comes from its flag or its variable, a key that no client could send is
//         refused, and no message and no command line holds one.
// Method: keys and command lines; the variable of the test's own process.
#include "cli/common/api_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace attndb::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ApiKeyTest : public ::testing::Test {
 protected:
  ~ApiKeyTest() override { unsetenv(kApiKeyVariable); }
  void SetUp() override { unsetenv(kApiKeyVariable); }
};

// The key, or else the error's message.
std::string Found(const std::optional<std::string>& flag) {
  const Result<std::string> key = ApiKeyOf(flag);
  if (key.ok()) return *key;
  EXPECT_EQ(key.status().code(), StatusCode::kInvalidArgument);
  return key.status().message();
}

TEST_F(ApiKeyTest, TheFlagIsStrongerThanTheVariable) {
  EXPECT_EQ(Found(std::nullopt), "");
  EXPECT_EQ(Found("flags"), "flags");
  HandOverApiKey("variables");
  EXPECT_EQ(Found(std::nullopt), "variables");
  EXPECT_EQ(Found("flags"), "flags");
}

TEST_F(ApiKeyTest, AnEmptyKeyIsNoOpenServer) {
  EXPECT_EQ(Found(""), "--api-key is empty");
  HandOverApiKey("");
  EXPECT_EQ(Found(std::nullopt), "ATTNDB_API_KEY is empty");
  EXPECT_EQ(Found("flags"), "flags");
}

TEST_F(ApiKeyTest, AnOptionIsNotTakenForTheKey) {
  for (const char* const option : {"--json", "-q", "-", "--api-key"}) {
    EXPECT_THAT(Found(option), HasSubstr("--api-key: its value begins with '-'")) << option;
  }
  HandOverApiKey("-sesame");
  EXPECT_EQ(Found(std::nullopt), "-sesame");
}

TEST_F(ApiKeyTest, KeysThatNoClientCouldSendAreRefusedAndNotTold) {
  for (const char* const key : {" sesame", "sesame ", "open sesame", "sesame\n", "sesame\r",
                                "sesam\xC3\xA9", "sesame\x7F"}) {
    const std::string said = Found(key);
    EXPECT_THAT(said, HasSubstr("--api-key: expected at most 1024 letters")) << key;
    EXPECT_THAT(said, Not(HasSubstr("sesam")));
  }
  const std::string most(kMaxApiKeyBytes, 'x');
  EXPECT_EQ(Found(most), most);
  EXPECT_THAT(Found(most + "x"), AllOf(HasSubstr("at most 1024"), Not(HasSubstr("xx"))));
  EXPECT_EQ(Found("sk-~!#$%&'()*+-./:;<=>?@[]^_`{|}\"\\"), "sk-~!#$%&'()*+-./:;<=>?@[]^_`{|}\"\\");
}

TEST_F(ApiKeyTest, SeveralKeysAreReferredToAFile) {
  EXPECT_THAT(Found("open,sesame"), AllOf(HasSubstr("--keys"), Not(HasSubstr("sesame"))));
  HandOverApiKey("open,sesame");
  EXPECT_THAT(Found(std::nullopt), HasSubstr("ATTNDB_API_KEY has a comma"));
}

TEST_F(ApiKeyTest, CommandLinesLoseTheKeyAndNothingElse) {
  EXPECT_THAT(WithoutApiKey({"serve", "--api-key", "k", "--port", "1"}),
              ElementsAre("serve", "--port", "1"));
  EXPECT_THAT(WithoutApiKey({"--json", "serve", "--api-key=k=l", "-q"}),
              ElementsAre("--json", "serve", "-q"));
  EXPECT_THAT(WithoutApiKey({"--api-key", "--api-key", "serve"}), ElementsAre("serve"));
  EXPECT_THAT(WithoutApiKey({"serve", "--api-key"}), ElementsAre("serve"));
  EXPECT_THAT(WithoutApiKey({"serve", "--api-keys", "k"}), ElementsAre("serve", "--api-keys", "k"));
  EXPECT_THAT(WithoutApiKey({}), IsEmpty());
}

}  // namespace
}  // namespace attndb::cli
