// Goal:   a client asks as it is told, and takes from a server what is an answer within its limits;
//         whatever else comes is an error that names the server, and none waits for ever.
// Method: the listener of ours, with TLS too; a bare socket that sends what no server should.
#include "server/http/client.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "server/http/http_test_util.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<Client> ClientOf(uint16_t port, ClientOptions options = {}) {
  options.url = "http://127.0.0.1:" + std::to_string(port);
  Result<std::unique_ptr<Client>> client = Client::Make(std::move(options));
  EXPECT_THAT(client, test::IsOk());
  return client.ok() ? *std::move(client) : nullptr;
}

// A socket on a free port of 127.0.0.1.
int BindAnyPort(uint16_t* port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), length), 0);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  *port = ntohs(address.sin_port);
  return fd;
}

// Answers each connection with the same bytes, whatever it is asked.
class RudeServer {
 public:
  explicit RudeServer(std::string answer, bool closes = true)
      : answer_(std::move(answer)), closes_(closes) {
    socket_ = BindAnyPort(&port_);
    EXPECT_EQ(listen(socket_, 8), 0);
    thread_ = std::thread([this] { Serve(); });
  }
  ~RudeServer() {
    stopping_ = true;
    shutdown(socket_, SHUT_RDWR);
    thread_.join();
    close(socket_);
  }

  uint16_t port() const { return port_; }

 private:
  void Serve() {
    while (true) {
      const int client = accept(socket_, nullptr, nullptr);
      if (client < 0) return;
      char request[4096];
      (void)!recv(client, request, sizeof(request), 0);
      (void)!send(client, answer_.data(), answer_.size(), MSG_NOSIGNAL);
      // Until the client goes, or the test ends.
      const timeval step = {.tv_sec = 0, .tv_usec = 20'000};
      setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &step, sizeof(step));
      while (!closes_ && !stopping_ && recv(client, request, sizeof(request), 0) != 0) {
      }
      close(client);
    }
  }

  const std::string answer_;
  const bool closes_;
  std::atomic<bool> stopping_ = false;
  int socket_ = -1;
  uint16_t port_ = 0;
  std::thread thread_;
};

TEST(ClientTest, UrlsAreTakenApart) {
  const auto text_of = [](std::string_view text) {
    const Result<Url> url = ParseUrl(text);
    if (!url.ok()) return std::string("none");
    return std::string(url->tls ? "tls " : "") + url->host + " " + std::to_string(url->port) + " " +
           url->prefix;
  };
  EXPECT_EQ(text_of("http://127.0.0.1:8080"), "127.0.0.1 8080 ");
  EXPECT_EQ(text_of("http://127.0.0.1:8080/v1"), "127.0.0.1 8080 ");
  EXPECT_EQ(text_of("https://attn.example"), "tls attn.example 443 ");
  EXPECT_EQ(text_of("https://attn.example/store/v1/"), "tls attn.example 443 /store");
  EXPECT_EQ(text_of("localhost:9000"), "localhost 9000 ");
  EXPECT_EQ(text_of("http://[::1]:8080"), "::1 8080 ");
  EXPECT_EQ(text_of("http://[::1]"), "::1 80 ");
  for (const char* const wrong :
       {"", "http://", "http://:80", "http://a:0", "http://a:65536", "http://a:", "http://a:8x",
        "http://[::1", "http://[::1]x", "http://me@a", "http://a/?q", "http://a/#f", "a b",
        "http://a\r\nX: y", "http://a\\b"}) {
    EXPECT_EQ(text_of(wrong), "none") << wrong;
    EXPECT_THAT(ParseUrl(wrong), FailsWith(StatusCode::kInvalidArgument, HasSubstr("no URL")));
  }
}

TEST(ClientTest, NamesAreSafeInPaths) {
  EXPECT_EQ(EscapeForPath("turn-0_a.b~"), "turn-0_a.b~");
  EXPECT_EQ(EscapeForPath("#12"), "%2312");
  EXPECT_EQ(EscapeForPath("a/b?c d\xC3\xBC%"), "a%2Fb%3Fc%20d%C3%BC%25");
}

TEST(ClientTest, WhatIsAskedComesAndWhatIsAnsweredIsRead) {
  Exchanges exchanges;
  const auto listener = Listen({}, exchanges.handler());
  ASSERT_NE(listener, nullptr);
  const auto client = ClientOf(listener->port(), {.key = "secret"});
  std::thread server([&] {
    const Exchanges::Exchange exchange = exchanges.Next();
    ASSERT_NE(exchange.request, nullptr);
    EXPECT_EQ(exchange.request->method, "POST");
    EXPECT_EQ(exchange.request->path, "/a/#1");
    EXPECT_EQ(exchange.request->Header("authorization"), "Bearer secret");
    EXPECT_EQ(exchange.request->body, "{}");
    exchange.responder->Send({.status = 409, .headers = {{"X-Note", "seen"}}, .body = "no"});
  });
  const Result<ClientAnswer> answer =
      client->Send({.method = "POST", .path = "/a/%231", .body = "{}"});
  server.join();
  ATTNDB_ASSERT_OK(answer);
  EXPECT_EQ(answer->status, 409);
  EXPECT_EQ(answer->body, "no");
  EXPECT_EQ(answer->headers.at("x-note"), "seen");
}

TEST(ClientTest, ABodyComesInPiecesAsTheyAreSent) {
  Exchanges exchanges;
  const auto listener = Listen({}, exchanges.handler());
  ASSERT_NE(listener, nullptr);
  const auto client = ClientOf(listener->port());
  std::atomic<size_t> num_seen = 0;
  std::thread server([&] {
    const Exchanges::Exchange exchange = exchanges.Next();
    ASSERT_NE(exchange.request, nullptr);
    exchange.responder->Begin({.content_type = "text/event-stream"});
    for (size_t i = 1; i <= 3; ++i) {
      exchange.responder->Write("piece");
      EXPECT_TRUE(Eventually([&] { return num_seen == i; }));
    }
    exchange.responder->End();
  });
  std::string text;
  const Result<ClientAnswer> answer = client->Send({.path = "/", .on_piece = [&](auto piece) {
                                                      text += piece;
                                                      ++num_seen;
                                                      return true;
                                                    }});
  server.join();
  ATTNDB_ASSERT_OK(answer);
  EXPECT_EQ(text, "piecepiecepiece");
  EXPECT_EQ(answer->body, "");
}

TEST(ClientTest, WhoStopsReadingIsGone) {
  Exchanges exchanges;
  const auto listener = Listen({}, exchanges.handler());
  ASSERT_NE(listener, nullptr);
  const auto client = ClientOf(listener->port());
  std::thread server([&] {
    const Exchanges::Exchange exchange = exchanges.Next();
    ASSERT_NE(exchange.request, nullptr);
    exchange.responder->Begin({.body = "piece"});
    EXPECT_TRUE(Eventually([&] { return exchange.responder->closed(); }));
  });
  EXPECT_THAT(client->Send({.path = "/", .on_piece = [](auto) { return false; }}),
              FailsWith(StatusCode::kCancelled, HasSubstr("interrupted")));
  server.join();
}

TEST(ClientTest, ASignalEndsTheWait) {
  const RudeServer server("", /*closes=*/false);
  const auto client = ClientOf(server.port(), {.stops = [] { return true; }});
  EXPECT_THAT(client->Send({.path = "/"}), FailsWith(StatusCode::kCancelled, HasSubstr("")));
}

TEST(ClientTest, NoServerIsSaidByItsPlace) {
  uint16_t port = 0;
  const int bound = BindAnyPort(&port);  // No process listens there, and no other can.
  EXPECT_THAT(ClientOf(port)->Send({.path = "/"}),
              FailsWith(StatusCode::kIoError,
                        AllOf(HasSubstr("127.0.0.1"), HasSubstr(std::to_string(port)))));
  close(bound);
}

TEST(ClientTest, WhatIsNoAnswerIsAnError) {
  const std::string head = "HTTP/1.1 200 OK\r\n";
  for (const std::string& rude :
       {std::string(), std::string("what?\r\n\r\n"), std::string(1 << 20, 'x'), head,
        head + "Content-Length: 10\r\n\r\nshort", head + "Content-Length: -1\r\n\r\n",
        head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        head + "Transfer-Encoding: chunked\r\n\r\n5\r\nab", head + "X: " + std::string(70'000, 'y'),
        head + "Content-Length: 99999999999\r\n\r\n", std::string("HTTP/1.1 20x OK\r\n\r\n")}) {
    const RudeServer server(rude);
    const auto client = ClientOf(server.port(), {.max_body_bytes = 1000});
    EXPECT_THAT(client->Send({.path = "/"}), FailsWith(StatusCode::kIoError, HasSubstr("port")))
        << rude.substr(0, 60);
  }
}

TEST(ClientTest, ABodyBeyondTheLimitIsNotRead) {
  const auto listener = Listen({}, [](const auto&, const auto& responder) {
    responder->Send({.body = std::string(2000, 'x')});
  });
  ASSERT_NE(listener, nullptr);
  EXPECT_THAT(ClientOf(listener->port(), {.max_body_bytes = 1999})->Send({.path = "/"}),
              FailsWith(StatusCode::kIoError, HasSubstr("limit")));
  EXPECT_THAT(ClientOf(listener->port(), {.max_body_bytes = 2000})->Send({.path = "/"}),
              test::IsOk());
}

TEST(ClientTest, SilenceIsNotWaitedForForEver) {
  for (const char* const begun : {"", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"}) {
    const RudeServer server(begun, /*closes=*/false);
    const auto client =
        ClientOf(server.port(), {.silence_timeout = std::chrono::milliseconds(100)});
    EXPECT_THAT(client->Send({.path = "/"}),
                FailsWith(StatusCode::kIoError, HasSubstr("no answer in 100 ms")));
  }
}

TEST(ClientTest, KeysCantSmuggleHeaders) {
  EXPECT_THAT(Client::Make({.url = "localhost", .key = "a\r\nX: y"}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("key")));
}

TEST(ClientTest, TlsTrustsWhomTheSystemTrusts) {
  const test::TempDir directory;
  const std::string certificate = directory.File("cert.pem");
  const std::string key = directory.File("key.pem");
  WriteCertificate(certificate, key);
  const auto listener =
      Listen({.certificate_file = certificate, .private_key_file = key},
             [](const auto&, const auto& responder) { responder->Send({.body = "hi"}); });
  ASSERT_NE(listener, nullptr);
  const std::string url = "https://127.0.0.1:" + std::to_string(listener->port());
  const auto ask = [&]() -> Result<ClientAnswer> {
    ATTNDB_ASSIGN_OR_RETURN(const auto client, Client::Make({.url = url}));
    return client->Send({.path = "/"});
  };
  EXPECT_THAT(ask(), FailsWith(StatusCode::kIoError, HasSubstr("certificate")));
  setenv("SSL_CERT_FILE", certificate.c_str(), 1);
  const Result<ClientAnswer> answer = ask();
  unsetenv("SSL_CERT_FILE");
  ATTNDB_ASSERT_OK(answer);
  EXPECT_EQ(answer->body, "hi");
  // Who asks for a server without TLS at this port gets no answer.
  EXPECT_FALSE(ClientOf(listener->port())->Send({.path = "/"}).ok());
}

}  // namespace
}  // namespace attndb::server
