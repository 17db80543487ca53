// Goal:   errors of a server keep their code and their words; flags that a server can't take are
//         refused before a request.
// Method: answers as text; environments as flags would make them. Real servers: tests/server.
#include "cli/client/server_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

namespace attndb::cli {
namespace {

using testing::HasSubstr;

constexpr std::array<std::string_view, 1> kFlags = {"--name"};

TEST(ServerClientTest, ErrorsKeepTheirCodeAndWords) {
  const Status status = StatusOfAnswer(
      409,
      R"({"error": {"message": "the name is taken", "code": 409, "status": "already exists"}})");
  EXPECT_EQ(status.code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(status.message(), "the name is taken");
}

TEST(ServerClientTest, WithoutACodeTheStatusOfHttpDecides) {
  const auto code_of = [](int http_status) {
    return StatusOfAnswer(http_status, R"({"error": {"message": "m", "status": "odd"}})").code();
  };
  EXPECT_EQ(code_of(400), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of(401), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of(404), StatusCode::kNotFound);
  EXPECT_EQ(code_of(409), StatusCode::kFailedPrecondition);
  EXPECT_EQ(code_of(429), StatusCode::kResourceExhausted);
  EXPECT_EQ(code_of(500), StatusCode::kIoError);
  EXPECT_EQ(code_of(501), StatusCode::kUnsupported);
  EXPECT_EQ(code_of(503), StatusCode::kResourceExhausted);
  EXPECT_EQ(code_of(507), StatusCode::kResourceExhausted);
}

TEST(ServerClientTest, WhatIsNoErrorOfOursIsSaidByItsStatus) {
  for (const char* const body :
       {"", "<html>", "[]", "{}", R"({"error": "x"})", R"({"error": {"message": 3}})", "\xFF"}) {
    const Status status = StatusOfAnswer(502, body);
    EXPECT_EQ(status.code(), StatusCode::kIoError) << body;
    EXPECT_THAT(status.message(), HasSubstr("502")) << body;
  }
}

TEST(ServerClientTest, WordsOfAServerAreShortAndWithoutControls) {
  const std::string text = "\\u001b[2J" + std::string(5000, 'x');
  const Status status = StatusOfAnswer(400, R"({"error": {"message": ")" + text + "\"}}");
  EXPECT_EQ(status.message().substr(0, 5), "?[2Jx");
  EXPECT_LE(status.message().size(), 1000U);
}

TEST(ServerClientTest, NamesStandInPaths) {
  EXPECT_EQ(ContextPath("#12"), "/attndb/v1/contexts/%2312");
}

TEST(ServerClientTest, AStoreNamedByAFlagIsStrongerThanTheEnvironment) {
  setenv("ATTNDB_URL", "http://localhost:1", 1);
  EXPECT_EQ(Environment({}).server(), "http://localhost:1");
  EXPECT_EQ(Environment({.db_path = "/store"}).server(), "");
  EXPECT_EQ(Environment({.db_path = "/store", .server = "http://b"}).server(), "http://b");
  Environment store({});
  EXPECT_TRUE(store.UseStore().ok());
  EXPECT_EQ(store.server(), "");
  unsetenv("ATTNDB_URL");
  EXPECT_EQ(Environment({}).server(), "");
  EXPECT_FALSE(Environment({.server = "http://b"}).UseStore().ok());
}

TEST(ServerClientTest, WhatAServerCantBeAskedIsRefusedByName) {
  const auto refusal = [](CommonOptions options) {
    options.server = "http://localhost:1";
    return Environment(std::move(options)).CheckForServer(kFlags);
  };
  EXPECT_TRUE(refusal({.given = {"--name", "--json", "--server"}}).ok());
  EXPECT_THAT(refusal({.given = {"--index"}}).message(), HasSubstr("--index"));
  EXPECT_THAT(refusal({.db_path = "/store"}).message(), HasSubstr("--db"));
  EXPECT_THAT(refusal({.tenant = "ann"}).message(), HasSubstr("--tenant"));
}

TEST(ServerClientTest, AStoresOwnCommandsSayThatTheyAre) {
  Environment env({.server = "http://localhost:1"});
  const Result<DB> db = env.OpenForReading();
  EXPECT_EQ(db.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(env.advice(), HasSubstr("--db"));
}

}  // namespace
}  // namespace attndb::cli
