// Goal:   a listener opens, or says why it can't; takes so many connections and no more, with TLS
//         if there is a certificate; and drains: who waits for an answer gets it.
// Method: real ports; clients of bare sockets and of OpenSSL's; a certificate made on the spot.
#include "server/http/listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/http/http_test_util.h"
#include "testing/event.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr const char* kGet = "GET /a HTTP/1.1\r\nHost: test\r\n\r\n";

// Drain calls this function at its deadline, which a test must not reach.
void WasInTime() { ADD_FAILURE() << "a connection was open until the deadline"; }

// Returns a client that was answered and is idle now. Drain closes it first of all, so its end
// shows that Drain has begun.
std::unique_ptr<RawClient> IdleClient(const Listener& listener, Exchanges* exchanges) {
  auto client = std::make_unique<RawClient>(listener.port());
  client->Send(kGet);
  const Exchanges::Exchange exchange = exchanges->Next();
  if (exchange.responder != nullptr) exchange.responder->Send({});
  EXPECT_EQ(client->ReadAnswer().status, 200);
  return client;
}

TEST(ListenerTest, SaysWhyItCantListen) {
  for (const char* const address : {"", "localhost", "127.0.0.1:80", "256.0.0.1"}) {
    EXPECT_THAT(Listener::Open({.address = address, .port = 0}, Echo),
                FailsWith(StatusCode::kInvalidArgument,
                          HasSubstr("'" + std::string(address) + "' is no IP address")));
  }
  const auto listener = Listen({}, Echo);
  ASSERT_NE(listener, nullptr);
  EXPECT_GT(listener->port(), 0);
  EXPECT_THAT(Listener::Open({.port = listener->port()}, Echo),
              FailsWith(StatusCode::kIoError, HasSubstr(std::to_string(listener->port()))));
}

TEST(ListenerTest, KnowsWhichAddressesOnlyThisMachineReaches) {
  for (const char* const address : {"127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(IsLoopback(address)) << address;
  }
  for (const char* const address : {"0.0.0.0", "::", "192.0.2.7", "128.0.0.1", "::ffff:0.0.0.0",
                                    "2001:db8::1", "localhost", ""}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
  }
}

// Another process may take a port meanwhile. So the test tries several ports, and one must be free.
TEST(ListenerTest, APortIsFreeAgainAtOnce) {
  const auto is_free_again = [] {
    uint16_t port = 0;
    for (int round = 0; round < 3; ++round) {
      const auto listener = Listener::Open({.port = port}, Echo);
      if (!listener.ok()) return false;
      port = (*listener)->port();
      EXPECT_EQ(RawClient(port).Ask(kGet).status, 200);
    }
    return true;
  };
  bool is_free = false;
  for (int attempt = 0; attempt < 5 && !is_free; ++attempt) is_free = is_free_again();
  EXPECT_TRUE(is_free);
}

TEST(ListenerTest, MoreThanSoManyConnectionsAreRefused) {
  std::atomic<int> refused = 0;
  const auto listener = Listen(
      {.max_connections = 2, .on_refused = [&refused](int status) { refused = status; }}, Echo);
  ASSERT_NE(listener, nullptr);
  auto first = std::make_unique<RawClient>(listener->port());
  RawClient second(listener->port());
  EXPECT_EQ(first->Ask(kGet).status, 200);
  EXPECT_EQ(second.Ask(kGet).status, 200);
  EXPECT_EQ(listener->num_connections(), 2u);
  {
    RawClient third(listener->port());
    const RawAnswer answer = third.ReadAnswer();
    EXPECT_EQ(answer.status, 503);
    EXPECT_TRUE(answer.headers.contains("retry-after"));
    EXPECT_THAT(answer.body, HasSubstr("too many connections"));
    EXPECT_EQ(refused, 503);
    EXPECT_TRUE(third.AtEnd());
  }
  first.reset();
  EXPECT_TRUE(Eventually([&] { return listener->num_connections() == 1; }));
  EXPECT_EQ(RawClient(listener->port()).Ask(kGet).status, 200);
}

TEST(ListenerTest, ManyClientsGetTheirOwnAnswers) {
  std::vector<std::thread> answering;
  std::mutex mutex;
  // Answers from threads of its own, as the scheduler does.
  const auto handler = [&](const std::shared_ptr<const Request>& request,
                           const std::shared_ptr<Responder>& responder) {
    const std::lock_guard<std::mutex> lock(mutex);
    answering.emplace_back([request, responder] {
      if (request->id % 2 == 0) return Echo(request, responder);
      responder->Begin({.content_type = "text/plain", .body = request->method + " "});
      responder->Write(request->path + " ");
      responder->Write(request->body);
      responder->End();
    });
  };
  const auto listener = Listen({.io_threads = 3}, handler);
  ASSERT_NE(listener, nullptr);
  std::vector<std::thread> clients;
  for (int c = 0; c < 6; ++c) {
    clients.emplace_back([&listener, c] {
      RawClient client(listener->port());
      for (int i = 0; i < 30; ++i) {
        const std::string path = "/" + std::to_string(c) + "/" + std::to_string(i);
        const std::string body(static_cast<size_t>(i) * 997, static_cast<char>('a' + c));
        EXPECT_EQ(client.Ask(Post(path, body)).body, "POST " + path + " " + body);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  for (std::thread& thread : answering) thread.join();
}

TEST(ListenerTest, DrainClosesWhatIsIdleAtOnce) {
  const auto listener = Listen({}, Echo);
  ASSERT_NE(listener, nullptr);
  RawClient fresh(listener->port());
  RawClient used(listener->port());
  EXPECT_EQ(used.Ask(kGet).status, 200);
  EXPECT_EQ(listener->num_connections(), 2u);
  listener->Drain(kPatience, WasInTime);
  EXPECT_TRUE(fresh.AtEnd());
  EXPECT_TRUE(used.AtEnd());
  EXPECT_EQ(listener->num_connections(), 0u);
  EXPECT_TRUE(Eventually([&] { return !RawClient(listener->port()).connected(); }))
      << "nobody listens any more";
}

TEST(ListenerTest, DrainWaitsForAnswers) {
  Exchanges exchanges;
  const auto listener = Listen({}, exchanges.handler());
  ASSERT_NE(listener, nullptr);
  RawClient whole(listener->port());
  whole.Send(kGet);
  const Exchanges::Exchange waiting = exchanges.Next();
  RawClient stream(listener->port());
  stream.Send(kGet);
  const Exchanges::Exchange streaming = exchanges.Next();
  ASSERT_NE(waiting.responder, nullptr);
  ASSERT_NE(streaming.responder, nullptr);
  streaming.responder->Begin({.body = "first"});
  const auto idle = IdleClient(*listener, &exchanges);
  std::atomic<bool> drained = false;
  std::thread drain([&] {
    listener->Drain(kPatience, WasInTime);
    drained = true;
  });
  EXPECT_TRUE(idle->AtEnd()) << "it drains";
  EXPECT_FALSE(drained);
  waiting.responder->Send({.body = "all"});
  const RawAnswer answer = whole.ReadAnswer();
  EXPECT_EQ(answer.body, "all");
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_TRUE(whole.AtEnd());
  streaming.responder->Write(",second");
  streaming.responder->End();
  EXPECT_EQ(stream.ReadAnswer().body, "first,second");
  EXPECT_TRUE(stream.AtEnd());
  drain.join();
}

// Stops each connection between the moment when it counts and the moment when the listener knows
// it.
class AcceptedListenerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    listener_ = Listen({.io_threads = 2,
                        .on_accepted =
                            [this] {
                              if (!stops_) return;
                              accepted_.Set();
                              go_on_.Await();
                            }},
                       exchanges_.handler());
    ASSERT_NE(listener_, nullptr);
    idle_ = IdleClient(*listener_, &exchanges_);
    stops_ = true;
    client_.emplace(listener_->port());
    accepted_.Await();
    EXPECT_EQ(listener_->num_connections(), 2u);
  }
  void TearDown() override { go_on_.Set(); }

  std::atomic<bool> stops_ = false;
  ::attndb::test::Event accepted_, go_on_;
  Exchanges exchanges_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<RawClient> idle_;
  std::optional<RawClient> client_;
};

TEST_F(AcceptedListenerTest, ADrainThatBeginsBeforeAConnectionIsKnownClosesIt) {
  std::thread drain([this] { listener_->Drain(kPatience, WasInTime); });
  EXPECT_TRUE(idle_->AtEnd()) << "it drains";
  go_on_.Set();
  EXPECT_TRUE(client_->AtEnd());
  drain.join();
  EXPECT_EQ(listener_->num_connections(), 0u);
}

TEST_F(AcceptedListenerTest, AConnectionThatIsKnownBehindADrainIsClosedAtOnce) {
  listener_->Drain(milliseconds(0));
  EXPECT_EQ(listener_->num_connections(), 1u);
  go_on_.Set();
  EXPECT_TRUE(client_->AtEnd());
  EXPECT_TRUE(Eventually([this] { return listener_->num_connections() == 0; }));
}

// A listener that one client has asked, which waits for its answer.
class AskedListenerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    listener_ = Listen({}, exchanges_.handler());
    ASSERT_NE(listener_, nullptr);
    client_.emplace(listener_->port());
    client_->Send(kGet);
    exchange_ = exchanges_.Next();
    ASSERT_NE(exchange_.responder, nullptr);
  }

  Exchanges exchanges_;
  std::unique_ptr<Listener> listener_;
  std::optional<RawClient> client_;
  Exchanges::Exchange exchange_;
};

TEST_F(AskedListenerTest, DrainEndsAtItsDeadline) {
  std::atomic<bool> gone = false;
  exchange_.responder->OnClosed([&gone] { gone = true; });
  listener_->Drain(milliseconds(200));
  EXPECT_TRUE(client_->AtEnd());
  EXPECT_TRUE(Eventually([&] { return gone.load(); }));
  EXPECT_TRUE(Eventually([this] { return listener_->num_connections() == 0; }));
}

TEST_F(AskedListenerTest, AnswersThatAreCutAtTheDeadlineHaveTheirLastWords) {
  exchange_.responder->Begin({.body = "first"});
  listener_->Drain(milliseconds(50), [&] {
    exchange_.responder->Write(",last");
    exchange_.responder->End();
  });
  EXPECT_EQ(client_->ReadAnswer().body, "first,last");
  EXPECT_TRUE(client_->AtEnd());
  EXPECT_TRUE(Eventually([this] { return listener_->num_connections() == 0; }));
  listener_->Drain(milliseconds(50), [] { ADD_FAILURE() << "nothing is left to cut"; });
}

TEST(ListenerTest, WhoComesWhileItDrainsIsAnsweredAndClosed) {
  Exchanges exchanges;
  const auto listener =
      Listen({}, [handler = exchanges.handler()](const auto& request, const auto& responder) {
        if (request->path == "/late") return responder->Send({.status = 503});
        handler(request, responder);
      });
  ASSERT_NE(listener, nullptr);
  RawClient first(listener->port());
  first.Send(kGet);
  const Exchanges::Exchange waiting = exchanges.Next();
  ASSERT_NE(waiting.responder, nullptr);
  const auto before = IdleClient(*listener, &exchanges);
  // An idle client delays no other client.
  std::thread drain([&] { listener->Drain(kPatience, WasInTime); });
  EXPECT_TRUE(before->AtEnd()) << "it drains";
  RawClient idle(listener->port());
  RawAnswer answer;
  EXPECT_TRUE(Eventually([&] {  // On a loaded machine one client may ask too late.
    RawClient late(listener->port());
    if (late.Send("GET /late HTTP/1.1\r\nHost: test\r\n\r\n")) answer = late.ReadAnswer();
    return answer.status != 0 && late.AtEnd();
  }));
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.headers["connection"], "close");
  waiting.responder->Send({});
  drain.join();
  EXPECT_TRUE(idle.AtEnd());
}

TEST_F(AskedListenerTest, ADestructorClosesAll) {
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    exchange_.responder->Begin({});
    while (!stop) exchange_.responder->Write("x");
  });
  EXPECT_THAT(client_->ReadUntil("x"), HasSubstr("x")) << "it writes";
  listener_.reset();
  stop = true;
  writer.join();
  client_->ReadAll();
}

class TlsListenerTest : public ::testing::Test {
 protected:
  TlsListenerTest() {
    options_.certificate_file = directory_.File("certificate.pem");
    options_.private_key_file = directory_.File("key.pem");
    WriteCertificate(options_.certificate_file, options_.private_key_file);
    options_.port = 0;
  }

  ::attndb::test::TempDir directory_;
  ListenerOptions options_;
};

TEST_F(TlsListenerTest, ServesTls) {
  const auto listener = Listen(options_, Echo);
  ASSERT_NE(listener, nullptr);
  RawClient client(listener->port(), {.tls = true});
  ASSERT_TRUE(client.connected());
  const std::string body(200'000, 'x');
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.Ask(Post("/t", body)).body, "POST /t " + body);
}

TEST_F(TlsListenerTest, AClientThatGoesIsSeen) {
  Exchanges exchanges;
  const auto listener = Listen(options_, exchanges.handler());
  ASSERT_NE(listener, nullptr);
  auto client = std::make_unique<RawClient>(listener->port(), RawClient::Options{.tls = true});
  client->Send(kGet);
  const Exchanges::Exchange exchange = exchanges.Next();
  ASSERT_NE(exchange.responder, nullptr);
  exchange.responder->Begin({.body = "first"});
  client->ReadUntil("first\r\n");
  client.reset();
  EXPECT_TRUE(Eventually([&] { return exchange.responder->closed(); }));
}

TEST_F(TlsListenerTest, WhoSpeaksNoTlsIsClosed) {
  options_.request_timeout = seconds(1);
  const auto listener = Listen(options_, Echo);
  ASSERT_NE(listener, nullptr);
  RawClient plain(listener->port());
  plain.Send(kGet);
  EXPECT_THAT(plain.ReadAll(), ::testing::Not(HasSubstr("HTTP/1.1")));
  RawClient silent(listener->port());
  EXPECT_TRUE(silent.AtEnd()) << "who says nothing, too";
  EXPECT_TRUE(Eventually([&] { return listener->num_connections() == 0; }));
}

TEST_F(TlsListenerTest, DrainsWhatIsInTheMiddleOfAHandshake) {
  const auto listener = Listen(options_, Echo);
  ASSERT_NE(listener, nullptr);
  RawClient silent(listener->port());
  EXPECT_TRUE(Eventually([&] { return listener->num_connections() == 1; }));
  listener->Drain(milliseconds(100));
  EXPECT_TRUE(silent.AtEnd());
}

TEST_F(TlsListenerTest, FilesThatAreNoneAreNamed) {
  ListenerOptions wrong = options_;
  wrong.certificate_file = directory_.File("missing.pem");
  EXPECT_THAT(Listener::Open(wrong, Echo),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("missing.pem: no certificate")));
  wrong = options_;
  wrong.private_key_file = directory_.File("missing.pem");
  EXPECT_THAT(Listener::Open(wrong, Echo),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("missing.pem: no private key")));
  wrong.private_key_file = directory_.File("other.pem");
  WriteCertificate(directory_.File("other-certificate.pem"), wrong.private_key_file);
  EXPECT_THAT(Listener::Open(wrong, Echo),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("other.pem: no private key")));
  wrong.certificate_file = directory_.File("text.pem");
  std::ofstream(wrong.certificate_file) << "no PEM";
  EXPECT_THAT(Listener::Open(wrong, Echo),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("text.pem: no certificate")));
}

}  // namespace
}  // namespace attndb::server
