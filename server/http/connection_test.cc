// Goal:   a connection takes what HTTP/1.1 allows, within its limits, in whatever pieces it comes;
//         answers come whole and in order; a client that goes, or does not keep up, is let go of.
// Method: a real listener on a free port, and clients of bare sockets. Timeouts are a second. The
//         listener's thread fires timers in order: the timeout of a later client shows that an
//         earlier client's timeout would have come by then.
#include "server/http/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/http/http_test_util.h"

namespace attndb::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kGet = "GET /a HTTP/1.1\r\nHost: test\r\n\r\n";

class ConnectionTest : public ::testing::Test {
 protected:
  // A client of a listener whose requests the test answers.
  std::unique_ptr<RawClient> Connect(const RawClient::Options& client = {}) {
    if (listener_ == nullptr) listener_ = Listen(options_, exchanges_.handler());
    return std::make_unique<RawClient>(listener_->port(), client);
  }
  // A client of one that echoes.
  std::unique_ptr<RawClient> ConnectToEcho() {
    if (listener_ == nullptr) listener_ = Listen(options_, Echo);
    return std::make_unique<RawClient>(listener_->port());
  }
  // Returns how many bytes of an answer reach a slow client. The client reads ten pieces in each
  // `timeout` of writes, and needs more than two such times in all.
  size_t ReadSlowly(size_t num_bytes, seconds timeout) {
    options_.write_timeout = timeout;
    listener_.reset();
    // With a buffer smaller than the loopback's segments, the kernel would wait, not the server.
    const auto client = Connect({.receive_buffer = 1 << 20});
    client->Send(kGet);
    const Exchanges::Exchange exchange = exchanges_.Next();
    EXPECT_NE(exchange.responder, nullptr);
    if (exchange.responder == nullptr) return 0;
    exchange.responder->Send({.body = std::string(num_bytes, 'x')});
    client->ReadUntil("\r\n\r\n");
    size_t num_read = 0;
    for (size_t taken = 1; num_read < num_bytes && taken > 0; num_read += taken) {
      std::this_thread::sleep_for(milliseconds(timeout) / 10);
      taken = client->ReadBytes(std::min(num_bytes / 24, num_bytes - num_read)).size();
    }
    return num_read;
  }

  ListenerOptions options_;
  Exchanges exchanges_;
  std::unique_ptr<Listener> listener_;  // Gone before the exchanges.
};

TEST_F(ConnectionTest, TheHandlerSeesTheRequest) {
  const auto client = Connect();
  client->Send(
      "POST /a%20b?c=d HTTP/1.1\r\nHost: test\r\nX-Api-KEY:  Secret \r\nContent-Length: 3\r\n\r\n"
      "x\r\n");
  const Exchanges::Exchange exchange = exchanges_.Next();
  ASSERT_NE(exchange.request, nullptr);
  EXPECT_EQ(exchange.request->method, "POST");
  EXPECT_EQ(exchange.request->path, "/a b");
  EXPECT_EQ(exchange.request->body, "x\r\n");
  EXPECT_EQ(exchange.request->Header("x-api-key"), "Secret");
  EXPECT_EQ(exchange.request->Header("missing"), "");
  exchange.responder->Send({.status = 404, .headers = {{"X-A", "b"}}, .body = "{}"});
  const RawAnswer answer = client->ReadAnswer();
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(answer.headers.at("x-a"), "b");
  EXPECT_EQ(answer.headers.at("content-type"), "application/json");
  EXPECT_EQ(answer.body, "{}");
}

TEST_F(ConnectionTest, AConnectionTakesRequestAfterRequest) {
  const auto client = ConnectToEcho();
  for (const size_t size : {0u, 1u, 5000u, 100'000u, 3u, 70'000u}) {
    const std::string body(size, 'x');
    const RawAnswer answer = client->Ask(Post("/n" + std::to_string(size), body));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.headers.at("connection"), "keep-alive");
    EXPECT_EQ(answer.body, "POST /n" + std::to_string(size) + " " + body);
  }
  EXPECT_EQ(listener_->num_connections(), 1u);
}

TEST_F(ConnectionTest, WhoAsksToCloseIsClosed) {
  for (const char* const request :
       {"GET /a HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n", "GET /a HTTP/1.0\r\n\r\n"}) {
    const auto client = ConnectToEcho();
    const RawAnswer answer = client->Ask(request);
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.headers.at("connection"), "close");
    EXPECT_EQ(answer.body, "GET /a ");
    EXPECT_TRUE(client->AtEnd()) << request;
  }
}

TEST_F(ConnectionTest, RequestsMayComeAllAtOnce) {
  const auto client = ConnectToEcho();
  std::string all;
  constexpr size_t kCount = 300;
  for (size_t i = 0; i < kCount; ++i) all += Post("/" + std::to_string(i), std::string(i, 'b'));
  std::thread sender([&] { EXPECT_TRUE(client->Send(all)); });
  for (size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(client->ReadAnswer().body, "POST /" + std::to_string(i) + " " + std::string(i, 'b'));
  }
  sender.join();
}

TEST_F(ConnectionTest, AnswersComeInTheOrderOfRequests) {
  const auto client = Connect();
  client->Send(Post("/1", "") + Post("/2", "") + Post("/3", ""));
  for (const char* const path : {"/1", "/2", "/3"}) {
    const Exchanges::Exchange exchange = exchanges_.Next();
    ASSERT_NE(exchange.request, nullptr);
    EXPECT_EQ(exchange.request->path, path) << "one at a time";
    exchange.responder->Send({.body = path});
    exchange.responder->Send({.body = "a second answer is none"});
  }
  for (const char* const path : {"/1", "/2", "/3"}) EXPECT_EQ(client->ReadAnswer().body, path);
}

TEST_F(ConnectionTest, RequestsMayComeByteByByte) {
  const auto client = ConnectToEcho();
  for (const char c : Post("/slow", "body") + kGet) client->Send({&c, 1});
  EXPECT_EQ(client->ReadAnswer().body, "POST /slow body");
  EXPECT_EQ(client->ReadAnswer().body, "GET /a ");
}

TEST_F(ConnectionTest, BodiesInChunksAreJoined) {
  const auto client = ConnectToEcho();
  const std::string head = "POST /c HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(client->Ask(head + "3\r\nabc\r\nA;ext=1\r\n0123456789\r\n0\r\n\r\n").body,
            "POST /c abc0123456789");
  EXPECT_EQ(client->Ask(kGet).body, "GET /a ") << "nothing is left over";
}

TEST_F(ConnectionTest, EmptyLinesBetweenRequestsArePassedOver) {
  const auto client = ConnectToEcho();
  EXPECT_EQ(client->Ask("\r\n" + std::string(kGet)).status, 200);
  EXPECT_EQ(client->Ask(Post("/b", "x") + "\r\n").body, "POST /b x");
  EXPECT_EQ(client->Ask(kGet).body, "GET /a ");
}

TEST_F(ConnectionTest, AHeadHasNoBody) {
  const auto client = Connect();
  client->Send("HEAD /a HTTP/1.1\r\nHost: test\r\n\r\n");
  Exchanges::Exchange exchange = exchanges_.Next();
  ASSERT_NE(exchange.request, nullptr);
  EXPECT_EQ(exchange.request->method, "HEAD");
  exchange.responder->Send({.body = "0123456789"});
  const RawAnswer answer = client->ReadAnswer(/*head_only=*/true);
  EXPECT_EQ(answer.headers.at("content-length"), "10");
  // Nor of a stream.
  client->Send("HEAD /b HTTP/1.1\r\nHost: test\r\n\r\n");
  exchange = exchanges_.Next();
  ASSERT_NE(exchange.responder, nullptr);
  exchange.responder->Begin({.body = "first"});
  exchange.responder->Write("second");
  exchange.responder->End();
  EXPECT_EQ(client->ReadAnswer(/*head_only=*/true).status, 200);
  client->Send(kGet);
  exchange = exchanges_.Next();
  ASSERT_NE(exchange.responder, nullptr);
  exchange.responder->Send({.body = "next"});
  EXPECT_EQ(client->ReadAnswer().body, "next") << "nothing came in between";
}

TEST_F(ConnectionTest, WhoExpects100IsToldToContinue) {
  const auto client = ConnectToEcho();
  client->Send(
      "POST /e HTTP/1.1\r\nHost: test\r\nExpect: 100-Continue\r\nContent-Length: 4\r\n\r\n");
  EXPECT_EQ(client->ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client->Send("bo");
  client->Send("dy");
  EXPECT_EQ(client->ReadAnswer().body, "POST /e body");
  EXPECT_EQ(client->Ask(kGet).body, "GET /a ");
}

TEST_F(ConnectionTest, WhoExpects100ForTooMuchIsRefused) {
  options_.max_body_bytes = 100;
  const auto client = ConnectToEcho();
  EXPECT_EQ(client
                ->Ask("POST /e HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\n"
                      "Content-Length: 101\r\n\r\n")
                .status,
            413);
}

TEST_F(ConnectionTest, BodiesThatAreTooLongAreRefused) {
  options_.max_body_bytes = 1000;
  const auto client = ConnectToEcho();
  EXPECT_EQ(client->Ask(Post("/", std::string(1000, 'x'))).status, 200);
  const RawAnswer answer = client->Ask(Post("/", std::string(1001, 'x')));
  EXPECT_EQ(answer.status, 413);
  EXPECT_THAT(answer.body, HasSubstr("1000 B"));
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_TRUE(client->AtEnd());

  const auto chunked = ConnectToEcho();
  std::string body;
  for (int i = 0; i < 3; ++i) body += "190\r\n" + std::string(400, 'x') + "\r\n";
  EXPECT_EQ(
      chunked->Ask("POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
          .status,
      413);
}

// Closed at once, its connection would be reset, and the answer lost.
TEST_F(ConnectionTest, WhoIsStillSendingGetsTheRefusal) {
  options_.max_body_bytes = 1000;
  const auto client = ConnectToEcho();
  EXPECT_TRUE(client->Send(Post("/", std::string(8 << 20, 'x'))));
  EXPECT_EQ(client->ReadAnswer().status, 413);
}

TEST_F(ConnectionTest, HeadersThatAreTooLongAreRefused) {
  options_.max_header_bytes = 1000;
  const auto get = [](size_t size) {
    return "GET / HTTP/1.1\r\nHost: test\r\nX-Long: " + std::string(size, 'x') + "\r\n\r\n";
  };
  const auto client = ConnectToEcho();
  EXPECT_EQ(client->Ask(get(900)).status, 200);
  EXPECT_EQ(client->Ask(get(1000)).status, 431);
  EXPECT_TRUE(client->AtEnd());
  const auto endless = ConnectToEcho();
  endless->Send(get(100'000).substr(0, 50'000));
  EXPECT_EQ(endless->ReadAnswer().status, 431) << "before its end has come";
}

// The parser counts the fields that it has not taken yet, and takes one at a time.
TEST_F(ConnectionTest, HeadersThatComeOneByOneAreLimitedTogether) {
  options_.max_header_bytes = 1000;
  const auto client = Connect();
  client->Send("GET /a HTTP/1.1\r\nX");
  std::atomic<bool> refused = false;
  std::thread sender([&] {
    for (int i = 0; i < 3000 && !refused; ++i) {  // Each in a read of its own, or nearly so.
      if (!client->Send(": y\r\nX")) return;
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  EXPECT_EQ(client->ReadAnswer().status, 431);
  refused = true;
  sender.join();
}

TEST_F(ConnectionTest, LinesOfChunksAndTrailersAreLimited) {
  options_.max_header_bytes = 1000;
  const std::string head = "POST /c HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string& begun :
       {std::string("3;"), std::string("3\r\nabc\r\n0\r\nX: "), std::string("3\r\nabc\r\n0\r\n")}) {
    const auto client = ConnectToEcho();
    std::string more;
    while (more.size() < 50'000) more += begun.ends_with("\n") ? "X: y\r\n" : "xyxyxy";
    client->Send(head + begun + more);
    EXPECT_EQ(client->ReadAnswer().status, 431) << begun;
  }
}

TEST_F(ConnectionTest, TrailersAreNoHeaders) {
  const auto client = Connect();
  client->Send(
      "POST /c HTTP/1.1\r\nHost: test\r\nX-Api-Key: mine\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n0\r\nX-Api-Key: another\r\nX-More: z\r\n\r\n");
  const Exchanges::Exchange exchange = exchanges_.Next();
  ASSERT_NE(exchange.request, nullptr);
  EXPECT_EQ(exchange.request->body, "abc");
  EXPECT_EQ(exchange.request->Header("x-api-key"), "mine");
  EXPECT_EQ(exchange.request->Header("x-more"), "");
  exchange.responder->Send({.body = "ok"});
  EXPECT_EQ(client->ReadAnswer().body, "ok");
}

TEST_F(ConnectionTest, LimitsOfLongHeadersAreReached) {
  options_.max_header_bytes = 200'000;
  const auto client = ConnectToEcho();
  std::string request = "GET /a HTTP/1.1\r\nHost: test\r\n";
  for (int i = 0; i < 30; ++i) {
    request += "X-" + std::to_string(i) + ": " + std::string(5000, 'x') + "\r\n";
  }
  EXPECT_EQ(client->Ask(request + "\r\n").status, 200);
}

TEST_F(ConnectionTest, WhatIsNoRequestIsRefused) {
  for (const char* const text :
       {"hello\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nbad header\r\n\r\n", "GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "\x16\x03\x01\x02\x00\x01\x00", "GET * HTTP/1.1\r\nHost: test\r\n\r\n",
        "GET /%zz HTTP/1.1\r\nHost: test\r\n\r\n"}) {
    const auto client = ConnectToEcho();
    const RawAnswer answer = client->Ask(text);
    EXPECT_EQ(answer.status, 400) << text;
    EXPECT_THAT(answer.body, StartsWith(R"({"error":{"message":")")) << text;
    EXPECT_TRUE(client->AtEnd()) << text;
  }
}

// A proxy in front that reads them otherwise would let one request hide within another's body.
TEST_F(ConnectionTest, ABodyOfTwoLengthsHidesNoRequest) {
  const auto client = ConnectToEcho();
  client->Send(
      "POST /outer HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n"
      "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: test\r\n\r\n");
  EXPECT_EQ(client->ReadAnswer().status, 400);
  EXPECT_THAT(client->ReadAll(), Not(HasSubstr("/hidden")));
}

TEST_F(ConnectionTest, ABodyOfAnUnknownEncodingHidesNoRequest) {
  for (const char* const encoding : {"xchunked", "identity", "chunked, gzip"}) {
    const auto client = ConnectToEcho();
    client->Send("POST /outer HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: " +
                 std::string(encoding) + "\r\n\r\nGET /hidden HTTP/1.1\r\nHost: test\r\n\r\n");
    EXPECT_EQ(client->ReadAnswer().status, 400) << encoding;
    EXPECT_THAT(client->ReadAll(), Not(HasSubstr("/hidden"))) << encoding;
  }
}

TEST_F(ConnectionTest, HalfARequestTimesOut) {
  options_.request_timeout = seconds(1);
  for (const std::string& half : {std::string("GET /a HT"), std::string("GET /a HTTP/1.1\r\nHo"),
                                  Post("/", "12345").substr(0, Post("/", "12345").size() - 1)}) {
    const auto client = ConnectToEcho();
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(client->Ask(half).status, 408) << half;
    EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(900));
    EXPECT_TRUE(client->AtEnd());
  }
}

TEST_F(ConnectionTest, AByteNowAndThenDoesNotPutItOff) {
  options_.request_timeout = seconds(1);
  const auto client = ConnectToEcho();
  EXPECT_EQ(client->Ask(kGet).status, 200);
  client->Send("GET /a HTTP/1.1\r\nX: ");
  std::atomic<bool> refused = false;
  std::thread sender([&] {
    while (!refused && client->Send("x")) std::this_thread::sleep_for(milliseconds(100));
  });
  EXPECT_EQ(client->ReadAnswer().status, 408);
  refused = true;
  sender.join();
}

TEST_F(ConnectionTest, AConnectionWithoutARequestIsClosedAfterAWhile) {
  options_.idle_timeout = seconds(1);
  const auto client = ConnectToEcho();
  EXPECT_TRUE(client->AtEnd()) << "without a word";
  const auto later = ConnectToEcho();
  EXPECT_EQ(later->Ask(kGet).status, 200);
  EXPECT_TRUE(later->AtEnd());
}

TEST_F(ConnectionTest, TimeoutsAreNotOfTheAnswer) {
  options_.request_timeout = seconds(1);
  options_.idle_timeout = seconds(1);
  const auto client = Connect();
  client->Send(kGet);
  const Exchanges::Exchange exchange = exchanges_.Next();
  ASSERT_NE(exchange.responder, nullptr);
  EXPECT_TRUE(Connect()->AtEnd()) << "a later client times out";
  exchange.responder->Send({.body = "late"});
  EXPECT_EQ(client->ReadAnswer().body, "late");
}

TEST_F(ConnectionTest, AStreamComesAsItIsWritten) {
  const auto client = Connect();
  client->Send(kGet);
  Exchanges::Exchange exchange = exchanges_.Next();
  ASSERT_NE(exchange.responder, nullptr);
  exchange.responder->Begin({.content_type = "text/plain", .body = "first"});
  EXPECT_THAT(client->ReadUntil("\r\n\r\n"), HasSubstr("\r\nTransfer-Encoding: chunked\r\n"));
  EXPECT_EQ(client->ReadUntil("first\r\n"), "5\r\nfirst\r\n");
  exchange.responder->Write("a\r\n");
  exchange.responder->Write("");  // An empty piece would be the end.
  EXPECT_EQ(client->ReadUntil("a\r\n\r\n"), "3\r\na\r\n\r\n");
  exchange.responder->Send({.body = "too late"});
  exchange.responder->End();
  EXPECT_EQ(client->ReadUntil("0\r\n\r\n"), "0\r\n\r\n");
  exchange.responder->Write("behind the end");
  client->Send(kGet);
  exchange = exchanges_.Next();
  ASSERT_NE(exchange.responder, nullptr);
  exchange.responder->Send({.body = "next"});
  EXPECT_EQ(client->ReadAnswer().body, "next") << "the connection goes on";
}

TEST_F(ConnectionTest, ClientsOfHttp10GetNoChunks) {
  options_.ping_interval = seconds(1);
  const auto client = Connect();
  client->Send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const Exchanges::Exchange exchange = exchanges_.Next();
  ASSERT_NE(exchange.responder, nullptr);
  exchange.responder->Begin({.content_type = "text/event-stream", .body = "first,"});
  const RawAnswer head = client->ReadAnswer(/*head_only=*/true);
  EXPECT_FALSE(head.headers.contains("transfer-encoding"));
  EXPECT_EQ(head.headers.at("connection"), "close");
  EXPECT_EQ(client->ReadUntil(":\n\n"), "first,:\n\n") << "pings neither";
  exchange.responder->Write("second,");
  exchange.responder->End();
  std::string rest = client->ReadAll();
  while (rest.starts_with(":\n\n")) rest.erase(0, 3);  // More pings, if the piece came late.
  EXPECT_THAT(rest, StartsWith("second,"));
  EXPECT_THAT(rest, Not(HasSubstr("\r\n")));
}

TEST_F(ConnectionTest, EventStreamsThatHaveNothingToSayArePinged) {
  options_.ping_interval = seconds(1);
  const auto client = Connect();
  client->Send(kGet);
  Exchanges::Exchange exchange = exchanges_.Next();
  ASSERT_NE(exchange.responder, nullptr);
  exchange.responder->Begin({.content_type = "text/event-stream"});
  client->ReadUntil("\r\n\r\n");
  EXPECT_EQ(client->ReadUntil(":\n\n\r\n"), "3\r\n:\n\n\r\n");
  EXPECT_EQ(client->ReadUntil(":\n\n\r\n"), "3\r\n:\n\n\r\n") << "again and again";
  exchange.responder->End();
  EXPECT_THAT(client->ReadUntil("0\r\n\r\n"), EndsWith("0\r\n\r\n"));
  // Bytes of another kind would be damaged by a ping.
  client->Send(kGet);
  exchange = exchanges_.Next();
  ASSERT_NE(exchange.responder, nullptr);
  exchange.responder->Begin({.content_type = "application/octet-stream"});
  const auto later = Connect();
  later->Send(kGet);
  const Exchanges::Exchange of_later = exchanges_.Next();
  ASSERT_NE(of_later.responder, nullptr);
  of_later.responder->Begin({.content_type = "text/event-stream"});
  EXPECT_THAT(later->ReadUntil(":\n\n\r\n"), EndsWith(":\n\n\r\n")) << "a later stream is pinged";
  exchange.responder->End();
  EXPECT_THAT(client->ReadAnswer().body, IsEmpty());
}

TEST_F(ConnectionTest, AClientThatGoesIsSeenWhileItsAnswerIsMade) {
  for (const std::string& more : {std::string(), std::string("\r\n"), std::string(kGet)}) {
    auto client = Connect();
    client->Send(kGet + more);
    const Exchanges::Exchange exchange = exchanges_.Next();
    ASSERT_NE(exchange.responder, nullptr);
    std::atomic<int> num_calls = 0;
    exchange.responder->OnClosed([&num_calls] { ++num_calls; });
    EXPECT_FALSE(exchange.responder->closed());
    client.reset();
    EXPECT_TRUE(Eventually([&] { return num_calls > 0; })) << "behind it: " << more;
    EXPECT_TRUE(exchange.responder->closed());
    bool at_once = false;
    exchange.responder->OnClosed([&at_once] { at_once = true; });
    EXPECT_TRUE(at_once);
    exchange.responder->Send({.body = "nobody listens"});
    EXPECT_TRUE(Eventually([this] { return listener_->num_connections() == 0; }));
    EXPECT_EQ(num_calls, 1);
  }
}

TEST_F(ConnectionTest, AClientThatGoesIsSeenInTheMiddleOfAStream) {
  auto client = Connect();
  client->Send(kGet);
  const Exchanges::Exchange exchange = exchanges_.Next();
  ASSERT_NE(exchange.responder, nullptr);
  exchange.responder->Begin({.body = "first"});
  client->ReadUntil("first\r\n");
  std::atomic<bool> gone = false;
  exchange.responder->OnClosed([&gone] { gone = true; });
  client.reset();
  EXPECT_TRUE(Eventually([&] { return gone.load(); }));
  exchange.responder->Write("more");
  exchange.responder->End();
}

TEST_F(ConnectionTest, AClientThatGoesBehindItsAnswerWasServed) {
  auto client = Connect();
  client->Send(kGet);
  const Exchanges::Exchange exchange = exchanges_.Next();
  ASSERT_NE(exchange.responder, nullptr);
  std::atomic<bool> gone = false;
  exchange.responder->OnClosed([&gone] { gone = true; });
  exchange.responder->Send({.body = "all"});
  EXPECT_EQ(client->ReadAnswer().body, "all");
  client.reset();
  EXPECT_TRUE(Eventually([this] { return listener_->num_connections() == 0; }));
  EXPECT_FALSE(gone);
}

TEST_F(ConnectionTest, AStreamsReaderThatDoesNotKeepUpIsLetGo) {
  options_.max_unsent_bytes = 256 << 10;
  const auto client = Connect({.receive_buffer = 64 << 10});
  client->Send(kGet);
  const Exchanges::Exchange exchange = exchanges_.Next();
  ASSERT_NE(exchange.responder, nullptr);
  exchange.responder->Begin({});
  const std::string piece(64 << 10, 'x');
  int num_pieces = 0;
  EXPECT_TRUE(Eventually([&] {
    exchange.responder->Write(piece);
    ++num_pieces;
    return exchange.responder->closed();
  }));
  EXPECT_GT(num_pieces, 4) << "some is held for it";
  EXPECT_TRUE(Eventually([this] { return listener_->num_connections() == 0; }));
}

TEST_F(ConnectionTest, FiftyReadersThatTakeNothingHoldUpNobody) {
  options_.max_unsent_bytes = 512 << 10;
  std::vector<std::unique_ptr<RawClient>> slow;
  std::vector<std::shared_ptr<Responder>> replies;
  for (int i = 0; i < 50; ++i) {
    slow.push_back(Connect(RawClient::Narrow()));
    slow.back()->Send(kGet);
    replies.push_back(exchanges_.Next().responder);
    ASSERT_NE(replies.back(), nullptr);
    replies.back()->Begin({});
    replies.back()->Write(std::string(options_.max_unsent_bytes / 2, 'x'));
  }
  const auto client = Connect();
  for (int i = 0; i < 100; ++i) {
    client->Send(kGet);
    const Exchanges::Exchange exchange = exchanges_.Next();
    ASSERT_NE(exchange.responder, nullptr);
    exchange.responder->Send({.body = "next"});
    EXPECT_EQ(client->ReadAnswer().body, "next");
  }
  // Had the kernel taken what came before, so much more would be held for them.
  for (const auto& reply : replies) {
    EXPECT_FALSE(reply->closed());
    reply->Write(std::string(options_.max_unsent_bytes, 'x'));
    EXPECT_TRUE(Eventually([&] { return reply->closed(); })) << "no write was waited for";
  }
}

TEST_F(ConnectionTest, OneAnswerMayBeLongerThanWhatIsHeld) {
  options_.max_unsent_bytes = 64 << 10;
  const auto client = Connect({.receive_buffer = 64 << 10});
  client->Send(kGet);
  const Exchanges::Exchange exchange = exchanges_.Next();
  ASSERT_NE(exchange.responder, nullptr);
  const std::string body(8 << 20, 'x');
  exchange.responder->Send({.body = body});
  const auto other = Connect();
  other->Send(kGet);
  const Exchanges::Exchange later = exchanges_.Next();
  ASSERT_NE(later.responder, nullptr);
  later.responder->Send({.body = "later"});
  EXPECT_EQ(other->ReadAnswer().body, "later") << "the long answer is held by then";
  EXPECT_EQ(client->ReadAnswer().body.size(), body.size());
}

TEST_F(ConnectionTest, AReaderThatTakesNothingIsLetGo) {
  options_.write_timeout = seconds(1);
  const auto client = Connect({.receive_buffer = 64 << 10});
  client->Send(kGet);
  const Exchanges::Exchange exchange = exchanges_.Next();
  ASSERT_NE(exchange.responder, nullptr);
  exchange.responder->Send({.body = std::string(32 << 20, 'x')});
  EXPECT_TRUE(Eventually([this] { return listener_->num_connections() == 0; }));
}

// A loaded machine may stop the reader or the server for longer than the timeout. Then a slower
// reader tries again with a longer timeout.
TEST_F(ConnectionTest, AReaderThatIsSlowIsWaitedFor) {
  constexpr size_t kBytes = 16 << 20;
  size_t num_read = 0;
  for (int timeout = 1; timeout <= 16 && num_read < kBytes; timeout *= 2) {
    num_read = ReadSlowly(kBytes, seconds(timeout));
  }
  EXPECT_EQ(num_read, kBytes) << "it took something before each timeout";
}

TEST_F(ConnectionTest, ARequestThatIsLetGoOfIsAnswered500) {
  const auto client = Connect();
  client->Send(kGet);
  exchanges_.Next().responder.reset();
  const RawAnswer answer = client->ReadAnswer();
  EXPECT_EQ(answer.status, 500);
  EXPECT_THAT(answer.body, HasSubstr("\"error\""));
}

TEST_F(ConnectionTest, AStreamThatIsLetGoOfIsCutOff) {
  const auto client = Connect();
  client->Send(kGet);
  {
    const Exchanges::Exchange exchange = exchanges_.Next();
    ASSERT_NE(exchange.responder, nullptr);
    exchange.responder->Begin({.body = "first"});
    client->ReadUntil("first\r\n");
    exchange.responder->Send({.status = 500});  // It failed on the way: too late for a status.
  }
  EXPECT_THAT(client->ReadAll(), IsEmpty()) << "no end that a client could take for the whole";
}

TEST_F(ConnectionTest, RespondersOutliveTheirConnectionAndListener) {
  auto client = Connect();
  client->Send(kGet);
  const Exchanges::Exchange exchange = exchanges_.Next();
  ASSERT_NE(exchange.responder, nullptr);
  listener_.reset();
  EXPECT_TRUE(client->AtEnd());
  EXPECT_TRUE(exchange.responder->closed());
  exchange.responder->Begin({});
  exchange.responder->Write("x");
  exchange.responder->End();
}

}  // namespace
}  // namespace attndb::server
