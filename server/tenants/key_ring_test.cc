// Goal:   a key is its tenant's, and the own key stands beside those of a file. A file that says
//         anything else than it should is refused by its field. A changed file is read again,
//         unless that would lock everybody out.
// Method: files of a folder of the test's own.
#include "server/tenants/key_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engines/llama/fingerprint.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class KeyRingTest : public ::testing::Test {
 protected:
  void Write(const std::string& text) const {
    // Another file each time, as editors write them: its number tells it from the one before.
    const std::string next = directory_.File("keys.next");
    std::ofstream(next, std::ios::binary) << text;
    std::filesystem::rename(next, path_);
  }
  static std::string Entry(const std::string& key, const std::string& more) {
    return R"({"sha256":")" + *llama::TextDigest(key) + "\"" + more + "}";
  }
  static std::string Keys(const std::string& entries) { return R"({"keys":[)" + entries + "]}"; }

  // What Open says to a file with that text.
  Status Opened(const std::string& text) const {
    Write(text);
    return KeyRing::Open(path_).status();
  }
  // What Open says to a file whose second entry has these members beside a digest.
  Status OpenedEntry(const std::string& more) const {
    return Opened(Keys(Entry("x", R"(,"tenant":"x")") + "," + Entry("a", more)));
  }

  ::attndb::test::TempDir directory_;
  const std::string path_ = directory_.File("keys.json");
};

// A change as text: "alice new 5", "alice 5".
std::vector<std::string> Taken(KeyRing* ring) {
  std::vector<std::string> texts;
  for (const TenantChange& change : ring->TakeChanges()) {
    texts.push_back(change.tenant + (change.is_new ? " new" : "") +
                    (change.quota_bytes ? " " + std::to_string(*change.quota_bytes) : ""));
  }
  return texts;
}

TEST_F(KeyRingTest, WithoutAFileEverybodyIsTheDefaultTenant) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<KeyRing> ring, KeyRing::Open(""));
  EXPECT_TRUE(ring->HasDefaultTenant());
  for (const char* const key : {"", "anything"}) {
    const std::optional<TenantRules> rules = ring->Find(key);
    ASSERT_TRUE(rules);
    EXPECT_EQ(rules->tenant, "default");
    EXPECT_EQ(rules->max_requests, 0u);
    EXPECT_EQ(rules->tokens_per_minute, 0u);
  }
  EXPECT_THAT(Taken(ring.get()), ElementsAre("default new"));
  EXPECT_THAT(Taken(ring.get()), IsEmpty());
}

TEST_F(KeyRingTest, TheOwnKeyIsAnOperatorsOfTheDefaultTenant) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<KeyRing> ring, KeyRing::Open("", "secret"));
  const std::optional<TenantRules> rules = ring->Find("secret");
  ASSERT_TRUE(rules);
  EXPECT_EQ(rules->tenant, "default");
  EXPECT_TRUE(rules->is_operator);
  EXPECT_EQ(rules->max_requests, 0u);
  EXPECT_EQ(rules->quota_bytes, 0u);
  for (const std::string& key : {std::string(), std::string("Secret"), std::string("secret "),
                                 *llama::TextDigest("secret")}) {
    EXPECT_FALSE(ring->Find(key)) << key;
  }
  EXPECT_TRUE(ring->HasDefaultTenant());
  EXPECT_THAT(Taken(ring.get()), ElementsAre("default new"));
}

TEST_F(KeyRingTest, TheOwnKeyHoldsBesideAFile) {
  Write(Keys(Entry("hers", R"(,"tenant":"alice")")));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<KeyRing> ring, KeyRing::Open(path_, "secret"));
  EXPECT_THAT(Taken(ring.get()), ElementsAre("alice new", "default new"));
  EXPECT_EQ(ring->Find("secret")->tenant, "default");
  EXPECT_EQ(ring->Find("hers")->tenant, "alice");
  EXPECT_FALSE(ring->Find(""));
  Write(Keys(""));
  EXPECT_EQ(ring->Find("secret")->tenant, "default") << "no change of the file takes it away";
  EXPECT_FALSE(ring->Find("hers"));
}

// A limit that stands in the file is never lifted by a flag.
TEST_F(KeyRingTest, TheFilesRulesOfTheOwnKeyHold) {
  Write(Keys(Entry("secret", R"(,"tenant":"alice","max_requests":3)")));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<KeyRing> ring, KeyRing::Open(path_, "secret"));
  ASSERT_TRUE(ring->Find("secret"));
  EXPECT_EQ(ring->Find("secret")->tenant, "alice");
  EXPECT_EQ(ring->Find("secret")->max_requests, 3u);
  EXPECT_FALSE(ring->Find("secret")->is_operator);
  Write(Keys(""));
  ASSERT_TRUE(ring->Find("secret"));
  EXPECT_EQ(ring->Find("secret")->tenant, "default") << "the file says nothing of it any more";
}

TEST_F(KeyRingTest, TheDefaultTenantIsThereIfAKeyIsItsOwn) {
  const auto has = [this](const std::string& tenant, const std::string& api_key) {
    Write(Keys(Entry("k", R"(,"tenant":")" + tenant + "\"")));
    return (*KeyRing::Open(path_, api_key))->HasDefaultTenant();
  };
  EXPECT_FALSE(has("alice", ""));
  EXPECT_TRUE(has("default", ""));
  EXPECT_TRUE(has("alice", "secret"));
}

TEST_F(KeyRingTest, LimitsOfTheFileAreThoseOfTheOwnKeysTenant) {
  Write(Keys(Entry("k", R"(,"tenant":"default","quota_bytes":5)")));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<KeyRing> ring, KeyRing::Open(path_, "secret"));
  EXPECT_THAT(Taken(ring.get()), ElementsAre("default new 5"));
  Write(Keys(""));
  EXPECT_TRUE(ring->Find("secret"));
  EXPECT_THAT(Taken(ring.get()), ElementsAre("default 0"));
}

TEST_F(KeyRingTest, AKeyIsItsTenants) {
  Write(Keys(Entry("secret", R"(,"tenant":"alice","max_requests":8,"tokens_per_minute":60000,)"
                             R"("quota_bytes":1000000000,"tpot_ms":50)") +
             "," + Entry("other", R"(,"tenant":"bob","operator":true)")));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<KeyRing> ring, KeyRing::Open(path_));
  const std::optional<TenantRules> alice = ring->Find("secret");
  ASSERT_TRUE(alice);
  EXPECT_EQ(alice->tenant, "alice");
  EXPECT_EQ(alice->max_requests, 8u);
  EXPECT_EQ(alice->tokens_per_minute, 60000u);
  EXPECT_EQ(alice->quota_bytes, 1000000000u);
  EXPECT_EQ(alice->tpot_ms, 50u);
  EXPECT_FALSE(alice->is_operator);
  const std::optional<TenantRules> bob = ring->Find("other");
  ASSERT_TRUE(bob);
  EXPECT_EQ(bob->tenant, "bob");
  EXPECT_TRUE(bob->is_operator);
  EXPECT_EQ(bob->max_requests, 0u) << "no limit";
}

TEST_F(KeyRingTest, OtherKeysAreNobodys) {
  const std::string digest = *llama::TextDigest("secret");
  Write(Keys(Entry("secret", R"(,"tenant":"alice")")));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<KeyRing> ring, KeyRing::Open(path_));
  for (const std::string& key : {std::string(), std::string("Secret"), std::string("secret "),
                                 std::string("secret\0", 7), digest}) {
    EXPECT_FALSE(ring->Find(key)) << key;
  }
  Write(Keys(""));
  EXPECT_FALSE(ring->Find("secret")) << "a file without keys lets nobody in";
}

TEST_F(KeyRingTest, FieldsThatAreWrongAreNamed) {
  const auto names = [this](const char* field) {
    return FailsWith(StatusCode::kInvalidArgument,
                     AllOf(HasSubstr(path_), HasSubstr("keys[1]"), HasSubstr(field)));
  };
  for (const char* const more : {"", R"(,"tenant":"")", R"(,"tenant":5)", R"(,"tenant":null)"}) {
    EXPECT_THAT(OpenedEntry(more), names("tenant")) << more;
  }
  EXPECT_THAT(OpenedEntry(R"(,"tenant":"a","operator":1)"), names("operator"));
  for (const char* const field : {"max_requests", "tokens_per_minute", "quota_bytes", "tpot_ms"}) {
    for (const char* const value : {"-1", "1.5", R"("8")", "true", "[]", "18446744073709551616"}) {
      EXPECT_THAT(OpenedEntry(R"(,"tenant":"a",")" + std::string(field) + "\":" + value),
                  names(field))
          << value;
    }
  }
  EXPECT_THAT(OpenedEntry(R"(,"tenant":"a","max_requests":4294967296)"), names("max_requests"));
  EXPECT_THAT(OpenedEntry(R"(,"tenant":"a","quota_bytes":9223372036854775808)"),
              names("quota_bytes"));
}

TEST_F(KeyRingTest, DigestsThatAreWrongAreNamed) {
  const std::string digits(64, 'a');
  for (const std::string& digest :
       {std::string(), digits.substr(1), digits + "a", std::string(64, 'A'), std::string(64, 'g'),
        std::string("secret")}) {
    EXPECT_THAT(
        Opened(Keys(R"({"tenant":"a","sha256":")" + digest + R"("})")),
        FailsWith(StatusCode::kInvalidArgument, AllOf(HasSubstr("keys[0]"), HasSubstr("sha256"))))
        << digest;
  }
  EXPECT_THAT(Opened(Keys(R"({"tenant":"a"})")),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("sha256")));
  EXPECT_THAT(Opened(Keys(R"({"tenant":"a","sha256":5})")),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("sha256")));
}

TEST_F(KeyRingTest, FilesOfAnotherFormAreRefused) {
  for (const char* const text : {"", "{", "[]", "{}", R"({"keys":{}})", R"({"keys":[5]})",
                                 R"({"keys":[[]]})", R"({"keys":null})", "\xff"}) {
    EXPECT_THAT(Opened(text), FailsWith(StatusCode::kInvalidArgument, HasSubstr(path_))) << text;
  }
  EXPECT_THAT(KeyRing::Open(directory_.File("missing")),
              FailsWith(StatusCode::kNotFound, HasSubstr("missing")));
}

TEST_F(KeyRingTest, AChangedFileIsReadAgain) {
  Write(Keys(Entry("old", R"(,"tenant":"alice")")));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<KeyRing> ring, KeyRing::Open(path_));
  EXPECT_TRUE(ring->Find("old"));
  Write(Keys(Entry("new", R"(,"tenant":"alice","max_requests":3)")));
  EXPECT_FALSE(ring->Find("old"));
  ASSERT_TRUE(ring->Find("new"));
  EXPECT_EQ(ring->Find("new")->max_requests, 3u);
}

TEST_F(KeyRingTest, EachChangeIsTakenOnce) {
  const auto alice = [](int quota) {
    return Entry("a", R"(,"tenant":"alice","quota_bytes":)" + std::to_string(quota));
  };
  const std::string bob = Entry("b", R"(,"tenant":"bob","max_requests":1)");
  Write(Keys(alice(5)));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<KeyRing> ring, KeyRing::Open(path_));
  EXPECT_THAT(Taken(ring.get()), ElementsAre("alice new 5"));
  EXPECT_THAT(Taken(ring.get()), IsEmpty());
  Write(Keys(alice(6) + "," + bob));
  EXPECT_THAT(Taken(ring.get()), IsEmpty()) << "nobody has read it yet";
  EXPECT_TRUE(ring->Find("a"));
  EXPECT_THAT(Taken(ring.get()), ElementsAre("alice 6", "bob new"));
  Write(Keys(alice(6) + "," + Entry("b", R"(,"tenant":"bob","max_requests":2)")));
  EXPECT_TRUE(ring->Find("a"));
  EXPECT_THAT(Taken(ring.get()), IsEmpty()) << "limits that are looked up with each key";
  Write(Keys(Entry("a", R"(,"tenant":"alice")")));
  EXPECT_TRUE(ring->Find("a"));
  EXPECT_THAT(Taken(ring.get()), ElementsAre("alice 0")) << "its limit is taken away";
  Write(Keys(alice(5) + "," + bob));
  EXPECT_TRUE(ring->Find("a"));
  EXPECT_THAT(Taken(ring.get()), ElementsAre("alice 5", "bob new"));
}

TEST_F(KeyRingTest, AFileThatCantBeReadChangesNothing) {
  Write(Keys(Entry("old", R"(,"tenant":"alice")")));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<KeyRing> ring, KeyRing::Open(path_));
  for (const std::string& text :
       {std::string("{"), std::string(), Keys(Entry("old", "")), Keys("5")}) {
    Write(text);
    EXPECT_TRUE(ring->Find("old")) << text;
    EXPECT_FALSE(ring->Find("new")) << text;
  }
  std::filesystem::remove(path_);
  EXPECT_TRUE(ring->Find("old")) << "the file is gone";
  Write(Keys(Entry("new", R"(,"tenant":"bob")")));
  EXPECT_FALSE(ring->Find("old")) << "once it can be read, it holds";
  EXPECT_TRUE(ring->Find("new"));
}

}  // namespace
}  // namespace attndb::server
