// An HTTP/1.1 server: listens, reads requests within limits, and hands them to one handler.
//
//   auto listener = Listener::Open({.address = "127.0.0.1", .port = 8080}, handler);
//   ... (*listener)->Drain(deadline);
//
// Method:  Boost.Beast on Asio; a connection costs a socket and some kilobytes while it is idle,
//          and no thread. A client that closes its connection is seen while its answer is made.
//          What a slow reader has not taken is held, up to max_unsent_bytes.
// Limits:  ListenerOptions. Beyond them: 413, 431, 408, 503, or the connection is closed.
// Errors:  kInvalidArgument (address; certificate); kIoError (the port is in use).
// Threads: thread-safe; has io_threads of its own. TLS by OpenSSL if there is a certificate.
#ifndef ATTNDB_SERVER_HTTP_LISTENER_H_
#define ATTNDB_SERVER_HTTP_LISTENER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "attndb/result.h"
#include "server/http/exchange.h"

namespace attndb::server {

// Whether only this machine reaches the address: 127.0.0.0/8, also within IPv6, and ::1. False for
// text that is no address.
bool IsLoopback(const std::string& address);

struct ListenerOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 8080;          // 0 = any that is free: Listener::port says which.
  std::string certificate_file;  // PEM; empty = no TLS.
  std::string private_key_file;
  uint32_t io_threads = 1;
  uint32_t max_connections = 4096;
  uint64_t max_body_bytes = uint64_t{16} << 20;
  uint32_t max_header_bytes = 16 << 10;
  uint64_t max_unsent_bytes = uint64_t{4} << 20;  // On one connection.
  std::chrono::seconds request_timeout{30};       // From a request's first byte to its last.
  std::chrono::seconds idle_timeout{120};         // Between requests.
  std::chrono::seconds write_timeout{60};         // In which a reader must take something.
  std::chrono::seconds ping_interval{15};  // A comment in event streams that have nothing to say.
  // Told the status of what is answered without a handler: what is no request, comes too late or is
  // too long, and connections beyond max_connections. May be null; from any thread.
  std::function<void(int)> on_refused;
  // Gives the body of an answer to a request of this path that no handler sees. `path` is empty if
  // it is not known, the body if it is to be that of RefusalOf. May be null; from any thread.
  std::function<std::string(std::string_view path, int status, std::string_view why)> refusal_body;
  // Called for each connection when it counts, before it is served. May be null; from any thread.
  // Tests wait in it.
  std::function<void()> on_accepted;
};

class Listener {
 public:
  // Listens when it returns. `handler` is called until the destructor has returned.
  static Result<std::unique_ptr<Listener>> Open(const ListenerOptions& options, Handler handler);
  virtual ~Listener() = default;

  virtual uint16_t port() const = 0;
  virtual uint64_t num_connections() const = 0;

  // Each connection is closed behind its next answer, or when it has none to wait for; new ones are
  // answered until there are none left, or the deadline has come. If it has, calls `cut`, which may
  // end answers that are under way, and gives these a moment to be sent. Returns when all
  // connections are closed.
  virtual void Drain(std::chrono::milliseconds deadline, const std::function<void()>& cut = {}) = 0;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_HTTP_LISTENER_H_
