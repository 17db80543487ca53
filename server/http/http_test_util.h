// What tests of the listener share: a client of bare sockets, which can do what no HTTP client
// does, and handlers whose answers the test gives.
//
// Errors:  what the system refuses, and what does not come within kPatience, fails the test.
// Threads: each object is of one thread, but for Exchanges, which is thread-safe.
#ifndef ATTNDB_SERVER_HTTP_HTTP_TEST_UTIL_H_
#define ATTNDB_SERVER_HTTP_HTTP_TEST_UTIL_H_

#include <openssl/ssl.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/exchange.h"
#include "server/http/listener.h"
#include "testing/event.h"

namespace attndb::server {

using ::attndb::test::Eventually;
using ::attndb::test::kPatience;

struct RawAnswer {
  int status = 0;                              // 0: there was none.
  std::map<std::string, std::string> headers;  // Names in lower case.
  std::string body;
};

class RawClient {
 public:
  struct Options {
    bool tls = false;
    int receive_buffer = 0;  // Bytes; 0 = the system's.
    int max_segment =
        0;  // Bytes; 0 = the system's. With short ones the sender's kernel holds less.
  };
  // A client whose kernel and whose server's together hold some 20 KB that it does not read.
  static Options Narrow() { return {.receive_buffer = 1, .max_segment = 256}; }

  // Connects to 127.0.0.1.
  explicit RawClient(uint16_t port) : RawClient(port, Options()) {}
  RawClient(uint16_t port, const Options& options);
  ~RawClient() { Close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return socket_ >= 0; }
  // False: the server does not take it any more.
  bool Send(std::string_view bytes);
  // What came and was not given yet: up to and with `end`; all until the server closes.
  std::string ReadUntil(std::string_view end);
  std::string ReadAll();
  // The next `num_bytes`, or fewer if the server closes.
  std::string ReadBytes(size_t num_bytes);
  // The next answer; of a HEAD, without a body.
  RawAnswer ReadAnswer(bool head_only = false);
  RawAnswer Ask(std::string_view request);
  // Whether the server has closed, and all that it sent was read.
  bool AtEnd();
  void Close();

 private:
  // Waits for more. False: the server closed.
  bool ReadMore();

  int socket_ = -1;
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_{nullptr, SSL_CTX_free};
  std::unique_ptr<SSL, void (*)(SSL*)> ssl_{nullptr, SSL_free};
  std::string unread_;
};

// Requests that wait for the test to answer them.
class Exchanges {
 public:
  struct Exchange {
    std::shared_ptr<const Request> request;
    std::shared_ptr<Responder> responder;
  };

  Handler handler();
  // The next one; it has no request, and the test fails, if none comes.
  Exchange Next();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Exchange> waiting_;  // Guarded by mutex_.
};

// Answers with the method, the path and the body.
void Echo(const std::shared_ptr<const Request>& request,
          const std::shared_ptr<Responder>& responder);

// A listener on a free port; null, and the test fails, if there is none.
std::unique_ptr<Listener> Listen(ListenerOptions options, Handler handler);

// "POST /path HTTP/1.1", and the body with its length.
std::string Post(const std::string& path, const std::string& body);

// Writes a new key and a certificate of 127.0.0.1 that it signed itself, in PEM.
void WriteCertificate(const std::string& certificate_file, const std::string& key_file);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_HTTP_HTTP_TEST_UTIL_H_
