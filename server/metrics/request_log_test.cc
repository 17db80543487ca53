// Goal:   a line says who asked what and how it ended, in a form that machines read, and is whole.
// Method: made-up requests; lines compared; a file that several threads write to.
#include "server/metrics/request_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "server/json.h"

namespace attndb::server {
namespace {

constexpr int64_t kTime = 1'795'765'016'123'456;  // 2026-11-27 07:36:56.123456 UTC

LoggedRequest Health() {
  return {.time_us = kTime,
          .request_id = "5f0c",
          .method = "GET",
          .route = "/health",
          .tenant = "default",
          .status = 200,
          .seconds = 0.0001234};
}

LoggedRequest Chat() {
  LoggedRequest request = Health();
  request.method = "POST";
  request.route = "/v1/chat/completions";
  request.seconds = 0.8121234;
  request.num_prompt_tokens = 40;
  request.num_cached_tokens = 30;
  request.num_reply_tokens = 8;
  request.first_token_seconds = 0.25;
  return request;
}

TEST(RequestLogTest, TimesAreOfUtc) {
  EXPECT_EQ(UtcText(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(UtcText(kTime), "2026-11-27T07:36:56.123Z");
}

TEST(RequestLogTest, JsonHasAFieldForEachThing) {
  EXPECT_EQ(LogLine(LogFormat::kJson, Health()),
            R"({"time":"2026-11-27T07:36:56.123Z","request_id":"5f0c","method":"GET",)"
            R"("route":"/health","status":200,"tenant":"default","ms":0.123})"
            "\n");
  EXPECT_EQ(LogLine(LogFormat::kJson, Chat()),
            R"({"time":"2026-11-27T07:36:56.123Z","request_id":"5f0c","method":"POST",)"
            R"("route":"/v1/chat/completions","status":200,"tenant":"default","ms":812.123,)"
            R"("prompt_tokens":40,"cached_tokens":30,"reply_tokens":8,"first_token_ms":250.0})"
            "\n");
}

TEST(RequestLogTest, TextIsForPeople) {
  EXPECT_EQ(LogLine(LogFormat::kText, Health()),
            "2026-11-27T07:36:56.123Z GET /health 200 0.1 ms, default, 5f0c\n");
  EXPECT_EQ(LogLine(LogFormat::kText, Chat()),
            "2026-11-27T07:36:56.123Z POST /v1/chat/completions 200 812 ms, 40 tokens (30 cached), "
            "8 in the reply, the first after 250 ms, default, 5f0c\n");
}

TEST(RequestLogTest, TheLogSaysWhereAPromptParted) {
  LoggedRequest chat = Chat();
  chat.parted = "2:118";
  EXPECT_THAT(LogLine(LogFormat::kJson, chat),
              ::testing::EndsWith(R"("first_token_ms":250.0,"parted":"2:118"})"
                                  "\n"));
  EXPECT_THAT(LogLine(LogFormat::kText, chat),
              ::testing::HasSubstr("the first after 250 ms, parted at 2:118, default"));
  chat.num_cut_tokens = 812;
  EXPECT_THAT(LogLine(LogFormat::kJson, chat),
              ::testing::HasSubstr(R"("cut_tokens":812,"parted":"2:118")"));
  EXPECT_THAT(LogLine(LogFormat::kText, chat), ::testing::HasSubstr("250 ms, 812 cut, parted at"));
}

TEST(RequestLogTest, TheLogSaysHowManyLinesWereIgnored) {
  LoggedRequest chat = Chat();
  chat.num_ignored_lines = 2;
  EXPECT_THAT(LogLine(LogFormat::kJson, chat),
              ::testing::EndsWith(R"("first_token_ms":250.0,"ignored_lines":2})"
                                  "\n"));
  EXPECT_THAT(LogLine(LogFormat::kText, chat),
              ::testing::HasSubstr("the first after 250 ms, 2 lines ignored, default"));
}

TEST(RequestLogTest, ARequestWithoutARouteIsNamedByItsPath) {
  LoggedRequest lost = Health();
  lost.route = "";
  lost.status = 404;
  EXPECT_EQ(LogLine(LogFormat::kText, lost),
            "2026-11-27T07:36:56.123Z GET (no route) 404 0.1 ms, default, 5f0c\n");
  lost.path = "/props";
  EXPECT_EQ(LogLine(LogFormat::kText, lost),
            "2026-11-27T07:36:56.123Z GET /props (no route) 404 0.1 ms, default, 5f0c\n");
  EXPECT_EQ(LogLine(LogFormat::kJson, lost),
            R"({"time":"2026-11-27T07:36:56.123Z","request_id":"5f0c","method":"GET",)"
            R"("route":"","status":404,"tenant":"default","ms":0.123,"path":"/props"})"
            "\n");
}

TEST(RequestLogTest, APathIsOneWordOfVisibleAscii) {
  EXPECT_EQ(LoggedPath("/v1/props~a?b=c"), "/v1/props~a?b=c");
  EXPECT_EQ(LoggedPath("/a b\tc\r\nGET /x 200"), "/a%20b%09c%0D%0AGET%20/x%20200");
  EXPECT_EQ(LoggedPath("/50%\"\\"), "/50%25%22%5C");
  EXPECT_EQ(LoggedPath("/\xC3\xA4\xFF\x1B[2J\x7F"), "/%C3%A4%FF%1B[2J%7F");
  EXPECT_EQ(LoggedPath(std::string_view("/\0", 2)), "/%00");
  EXPECT_EQ(LoggedPath(""), "");
}

TEST(RequestLogTest, ALongPathEndsBehindAWholeCharacter) {
  const std::string most = "/" + std::string(kMaxLoggedPath - 1, 'x');
  EXPECT_EQ(LoggedPath(most), most);
  EXPECT_EQ(LoggedPath(most + "x"), most + "...");
  EXPECT_EQ(LoggedPath(std::string(16384, ' ')).size(), kMaxLoggedPath / 3 * 3 + 3);
  EXPECT_EQ(LoggedPath(most.substr(2) + " "), most.substr(2) + "...");
}

TEST(RequestLogTest, OffIsSilent) { EXPECT_EQ(LogLine(LogFormat::kOff, Chat()), ""); }

TEST(RequestLogTest, LinesOfSeveralThreadsAreWhole) {
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  RequestLog log(LogFormat::kJson, file);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&log] {
      for (int j = 0; j < 100; ++j) log.Write(Chat());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::rewind(file);
  char line[4096];
  int num_lines = 0;
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    EXPECT_EQ(line, LogLine(LogFormat::kJson, Chat()));
    ++num_lines;
  }
  EXPECT_EQ(num_lines, 400);
  std::fclose(file);
}

}  // namespace
}  // namespace attndb::server
