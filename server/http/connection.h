// One connection: reads a request, waits for its answer, and so on, until either side closes.
//
// Threads: each connection has a strand; its Responders post to it.
#ifndef ATTNDB_SERVER_HTTP_CONNECTION_H_
#define ATTNDB_SERVER_HTTP_CONNECTION_H_

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "server/http/exchange.h"
#include "server/http/listener.h"

namespace attndb::server {

// Lets Responders pass until the listener goes, which they may outlive.
class Gate {
 public:
  // Runs `step`, unless it is shut; Shut then waits for it.
  template <typename Step>
  void Pass(Step step) {
    const std::shared_lock<std::shared_mutex> lock(mutex_);
    if (is_open_) step();
  }
  void Shut() {
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    is_open_ = false;
  }

 private:
  std::shared_mutex mutex_;
  bool is_open_ = true;  // Guarded by mutex_.
};

// What all connections of a listener share; it outlives them.
struct ConnectionSetup {
  const std::shared_ptr<Gate> gate = std::make_shared<Gate>();
  ListenerOptions options;
  Handler handler;
  boost::asio::ssl::context* tls = nullptr;  // Null: no TLS.
  std::atomic<uint64_t> num_requests = 0;
  std::atomic<uint64_t> num_connections = 0;
  std::atomic<bool> draining = false;
};

class Connection {
 public:
  virtual ~Connection() = default;
  // Reads requests from here on. Called once, unless the connection is closed before.
  virtual void Serve() = 0;
  // Closes it, at once if nobody waits for an answer, or else behind the answer.
  virtual void CloseWhenIdle() = 0;
  virtual void CloseNow() = 0;
};

// Makes a connection, which counts from here on and keeps itself alive once it serves. The socket's
// executor is a strand.
std::shared_ptr<Connection> MakeConnection(boost::asio::ip::tcp::socket socket,
                                           ConnectionSetup* setup);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_HTTP_CONNECTION_H_
