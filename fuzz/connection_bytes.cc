#include "fuzz/connection_bytes.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/random.h"
#include "server/http/connection.h"
#include "server/http/message_text.h"
#include "server/json.h"

namespace attndb::fuzz {
namespace {

namespace asio = boost::asio;
using server::Request;

constexpr std::string_view kBody = "ok";  // Each answer is this.

// Limits that no input comes near, and such that many go beyond.
constexpr uint32_t kWideHead = 1 << 20;
constexpr uint32_t kTightHead = 64;
constexpr uint64_t kWideBody = 1 << 20;
constexpr uint64_t kTightBody = 4;

constexpr std::string_view kPieces[] = {
    "GET /a HTTP/1.1\r\nHost: t\r\n\r\n",
    "POST /b HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
    "POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;e=f\r\nabc\r\n0\r\nX: t\r\n\r\n",
    "POST /d HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
    "HEAD /e HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "GET /f%20g?h=i HTTP/1.1\r\n",
    "PUT /j HTTP/1.1\r\n",
    "GET * HTTP/1.0\r\n",
    "Host: t\r\n",
    "Content-Length: 3\r\n",
    "Content-Length: 18446744073709551616\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: xchunked\r\n",
    "Connection: close\r\n",
    "X-Key: y\r\n z\r\n",
    "\r\n",
    "\r\n\r\n",
    "\r",
    "\n",
    "abc",
    "3\r\nabc\r\n",
    "ffffffffffffffff\r\n",
    "0\r\n\r\n",
    "0\r\n",
    ";",
    ":",
    " ",
};

struct Outcome {
  std::vector<std::shared_ptr<const Request>> requests;
  std::string answers;
};

// One connection and its client.
class Talk {
 public:
  Talk(uint32_t max_head, uint64_t max_body) {
    setup_.options.max_header_bytes = max_head;
    setup_.options.max_body_bytes = max_body;
    setup_.handler = [this](std::shared_ptr<const Request> request,
                            const std::shared_ptr<server::Responder>& responder) {
      outcome_.requests.push_back(std::move(request));
      responder->Send({.content_type = "text/plain", .body = std::string(kBody)});
    };
    int ends[2];
    ATTNDB_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    client_ = ends[0];
    ATTNDB_CHECK(fcntl(client_, F_SETFL, O_NONBLOCK) == 0);
    asio::ip::tcp::socket socket(asio::make_strand(io_));
    socket.assign(asio::ip::tcp::v4(), ends[1]);  // It reads and writes as one of TCP does.
    server::MakeConnection(std::move(socket), &setup_)->Serve();
    Step();
  }
  Talk(const Talk&) = delete;
  Talk& operator=(const Talk&) = delete;

  void Say(std::string_view piece) {
    // Refused or closed, it may not take it.
    (void)!send(client_, piece.data(), piece.size(), MSG_NOSIGNAL);
    Step();
  }

  // The client goes, and the connection with it.
  Outcome End() {
    close(client_);
    io_.restart();
    io_.poll();
    ATTNDB_CHECK(setup_.num_connections == 0);
    ATTNDB_CHECK(setup_.num_requests >= outcome_.requests.size());
    return std::move(outcome_);
  }

 private:
  // Does all that can be done now, and takes what is answered.
  void Step() {
    char buffer[4096];
    for (bool goes_on = true; goes_on;) {
      io_.restart();
      io_.poll();
      goes_on = false;  // Unless there is room again for what it has to say.
      while (true) {
        const ssize_t num_read = recv(client_, buffer, sizeof(buffer), 0);
        if (num_read <= 0) break;
        outcome_.answers.append(buffer, static_cast<size_t>(num_read));
        goes_on = true;
      }
    }
  }

  server::ConnectionSetup setup_;
  asio::io_context io_;  // Lets go of the connection before its setup goes.
  Outcome outcome_;
  int client_ = -1;
};

// What the input's bytes choose: a byte is itself, or one of the pieces.
std::string TextOf(std::span<const uint8_t> bytes, bool is_raw) {
  constexpr uint8_t kFirstLiteral = 216;
  std::string text;
  for (const uint8_t byte : bytes) {
    if (is_raw || byte >= kFirstLiteral) {
      text += static_cast<char>(byte);
    } else {
      text += kPieces[byte % std::size(kPieces)];
    }
  }
  return text;
}

// Takes `prefix` off the text, which begins with it.
void Take(std::string_view prefix, std::string_view* text) {
  ATTNDB_CHECK(text->starts_with(prefix));
  text->remove_prefix(prefix.size());
}

// Takes the head of an answer off the text; its status, and the length of its body.
int TakeHead(std::string_view* text, size_t* length) {
  int status = 0;
  const std::string head(text->substr(0, text->find("\r\n\r\n") + 4));
  ATTNDB_CHECK(head.ends_with("\r\n\r\n"));
  ATTNDB_CHECK(std::sscanf(head.c_str(), "HTTP/1.1 %d ", &status) == 1);
  const size_t at = head.find("\r\nContent-Length: ");
  ATTNDB_CHECK(at != std::string::npos);
  ATTNDB_CHECK(std::sscanf(head.c_str() + at, "\r\nContent-Length: %zu", length) == 1);
  text->remove_prefix(head.size());
  return status;
}

void TakeContinues(std::string_view* text) {
  constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  while (text->starts_with(kContinue)) text->remove_prefix(kContinue.size());
}

// Each request has its answer, and behind the last may come one refusal, whole.
void CheckAnswers(const Outcome& outcome) {
  std::string_view text = outcome.answers;
  size_t length = 0;
  for (const auto& request : outcome.requests) {
    TakeContinues(&text);
    ATTNDB_CHECK(TakeHead(&text, &length) == 200 && length == kBody.size());
    if (request->method != "HEAD") Take(kBody, &text);
  }
  TakeContinues(&text);
  if (text.empty()) return;
  const int status = TakeHead(&text, &length);
  ATTNDB_CHECK(status == 400 || status == 413 || status == 431);
  ATTNDB_CHECK(text.size() == length && server::ParseJson(text).ok());
}

void CheckRequest(const Request& request, uint32_t max_head, uint64_t max_body) {
  ATTNDB_CHECK(!request.method.empty() && request.path.starts_with('/'));
  ATTNDB_CHECK(request.body.size() <= max_body);
  size_t num_bytes = request.method.size() + request.path.size();
  for (const auto& [name, value] : request.headers) {
    ATTNDB_CHECK(!name.empty() && name == server::LowerCase(name));
    ATTNDB_CHECK(value.find_first_of("\r\n") == std::string::npos);
    num_bytes += name.size() + value.size();
  }
  ATTNDB_CHECK(num_bytes <= max_head);
}

bool AreSame(const Request& a, const Request& b) {
  return a.method == b.method && a.path == b.path && a.headers == b.headers && a.body == b.body;
}

// Says `text` in pieces of at most `num_most` bytes; 0 = all at once.
Outcome Hear(std::string_view text, size_t num_most, Random random, uint32_t max_head,
             uint64_t max_body) {
  Talk talk(max_head, max_body);
  while (!text.empty()) {
    const std::string_view piece =
        num_most == 0 ? text : text.substr(0, 1 + random.Uniform(num_most));
    talk.Say(piece);
    text.remove_prefix(piece.size());
  }
  Outcome outcome = talk.End();
  CheckAnswers(outcome);
  for (const auto& request : outcome.requests) CheckRequest(*request, max_head, max_body);
  return outcome;
}

}  // namespace

size_t FuzzConnection(std::span<const uint8_t> input) {
  if (input.empty()) return 0;
  const uint8_t how = input.front();
  const std::string text = TextOf(input.subspan(1), how % 4 == 0);
  const Random random(how);
  const size_t num_most = size_t{1} + how / 4;
  const Outcome whole = Hear(text, 0, random, kWideHead, kWideBody);
  const Outcome cut = Hear(text, num_most, random, kWideHead, kWideBody);
  ATTNDB_CHECK(std::ranges::equal(whole.requests, cut.requests,
                                  [](const auto& a, const auto& b) { return AreSame(*a, *b); }));
  Hear(text, num_most, random, kTightHead, kTightBody);
  return whole.requests.size();
}

}  // namespace attndb::fuzz
