// Goal:   answers are well-formed HTTP/1.1 whatever they are made of, and paths are what clients
//         meant, or refused.
// Method: the bytes themselves.
#include "server/http/message_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace attndb::server {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(MessageTextTest, ARefusalIsAnErrorOfTheInterface) {
  const Response response = RefusalOf(413, "the body is \"long\"");
  EXPECT_EQ(response.status, 413);
  EXPECT_EQ(response.body, R"({"error":{"message":"the body is 'long'",)"
                           R"("type":"invalid_request_error","code":413}})");
}

TEST(MessageTextTest, AHeadHasStatusFieldsAndAnEmptyLine) {
  const Response response = {.status = 429, .headers = {{"Retry-After", "3"}}};
  EXPECT_EQ(HeadOf(response, 12, true),
            "HTTP/1.1 429 Too Many Requests\r\n"
            "Content-Type: application/json\r\n"
            "Retry-After: 3\r\n"
            "Content-Length: 12\r\n"
            "Connection: keep-alive\r\n"
            "\r\n");
}

TEST(MessageTextTest, ABodyHasALengthOrChunksOrTheConnectionsEnd) {
  EXPECT_THAT(HeadOf({}, 0, true), HasSubstr("\r\nContent-Length: 0\r\n"));
  const std::string chunked = HeadOf({}, kInChunks, true);
  EXPECT_THAT(chunked, HasSubstr("\r\nTransfer-Encoding: chunked\r\n"));
  EXPECT_THAT(chunked, Not(HasSubstr("Content-Length")));
  const std::string to_its_end = HeadOf({}, kToItsEnd, false);
  EXPECT_THAT(to_its_end, Not(HasSubstr("Content-Length")));
  EXPECT_THAT(to_its_end, Not(HasSubstr("Transfer-Encoding")));
  EXPECT_THAT(to_its_end, EndsWith("\r\nConnection: close\r\n\r\n"));
}

// What a client said may come back in a header's value: it must not begin another header.
TEST(MessageTextTest, ValuesWithLineEndsAreLeftOut) {
  for (const std::string& value : {std::string("a\r\nSet-Cookie: x"), std::string("a\nb"),
                                   std::string("a\rb"), std::string("a\0b", 3)}) {
    const std::string head = HeadOf({.headers = {{"X-Bad", value}, {"X-Good", "1"}}}, 0, true);
    EXPECT_THAT(head, Not(HasSubstr("X-Bad")));
    EXPECT_THAT(head, Not(HasSubstr("Set-Cookie")));
    EXPECT_THAT(head, HasSubstr("\r\nX-Good: 1\r\n"));
  }
  EXPECT_THAT(HeadOf({.content_type = "a\r\nb"}, 0, true), Not(HasSubstr("a\r\nb")));
}

TEST(MessageTextTest, StatusesHaveTheirNames) {
  EXPECT_EQ(ReasonPhrase(200), "OK");
  EXPECT_EQ(ReasonPhrase(431), "Request Header Fields Too Large");
  for (const int status :
       {200, 204, 400, 401, 403, 404, 405, 408, 409, 413, 429, 431, 500, 501, 503, 507}) {
    EXPECT_NE(ReasonPhrase(status), "Unknown") << status;
  }
  EXPECT_EQ(ReasonPhrase(299), "Unknown");
}

TEST(MessageTextTest, ChunksSayTheirLengthInHex) {
  EXPECT_EQ(ChunkOf("abc"), "3\r\nabc\r\n");
  EXPECT_EQ(ChunkOf(std::string(300, 'x')), "12c\r\n" + std::string(300, 'x') + "\r\n");
  EXPECT_EQ(ChunkOf(std::string("\r\n\0", 3)), std::string("3\r\n\r\n\0\r\n", 8));
  EXPECT_EQ(kLastChunk, "0\r\n\r\n");
}

TEST(MessageTextTest, PathsEndAtTheQuery) {
  EXPECT_EQ(PathOf("/"), "/");
  EXPECT_EQ(PathOf("/v1/models?limit=5"), "/v1/models");
  EXPECT_EQ(PathOf("/a#b"), "/a");
  EXPECT_EQ(PathOf("/a?b/%zz"), "/a") << "the query is not looked at";
}

TEST(MessageTextTest, PercentSignsAreDecoded) {
  EXPECT_EQ(PathOf("/a%20b"), "/a b");
  EXPECT_EQ(PathOf("/%41%7a%7A"), "/Azz");
  EXPECT_EQ(PathOf("/a%2Fb%3Fc"), "/a/b?c") << "encoded, they end nothing";
  EXPECT_EQ(PathOf("/%25%34%31"), "/%41") << "once, not twice";
  EXPECT_EQ(PathOf("/%c3%A4"), "/\xC3\xA4");
  EXPECT_EQ(PathOf("/a+b"), "/a+b");
  EXPECT_EQ(PathOf("/%00"), std::string("/\0", 2));
}

TEST(MessageTextTest, WhatIsNoPathIsRefused) {
  for (const char* const target : {"", "*", "a", "?a", "#", "example.com:80", "/%", "/%4", "/%4?1",
                                   "/%g1", "/%1g", "/%-1", "/a%", "/%%41", "/% 1"}) {
    EXPECT_EQ(PathOf(target), std::nullopt) << target;
  }
}

}  // namespace
}  // namespace attndb::server
