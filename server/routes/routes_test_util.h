// Shared by tests of routes: calls, and a responder that keeps what it is sent.
//
// Threads: one.
#ifndef ATTNDB_SERVER_ROUTES_ROUTES_TEST_UTIL_H_
#define ATTNDB_SERVER_ROUTES_ROUTES_TEST_UTIL_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "server/http/exchange.h"
#include "server/service.h"

namespace attndb::server {

class KeepingResponder final : public Responder {
 public:
  void Send(Response response) override { sent = std::move(response); }
  void Begin(Response /*response*/) override {}
  void Write(std::string /*piece*/) override {}
  void End() override {}
  bool closed() const override { return gone; }
  void OnClosed(std::function<void()> then) override { when_closed = std::move(then); }

  Response sent;
  bool gone = false;  // Whether the client is.
  std::function<void()> when_closed;
};

// A call of the default tenant. `responder` is given the answer.
inline Call CallWith(std::shared_ptr<Responder> responder, const std::string& body,
                     const std::string& method = "POST") {
  const auto request = std::make_shared<Request>();
  request->method = method;
  request->body = body;
  Call call;
  call.request = request;
  call.body_bytes = body.size();
  call.responder = std::move(responder);
  return call;
}

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_ROUTES_TEST_UTIL_H_
