// An HTTP/1.1 client: requests to one server, one after the other, whose answers are read within
// limits.
//
//   auto client = Client::Make({.url = "http://127.0.0.1:8080", .key = key});
//   auto answer = (*client)->Send({.method = "GET", .path = "/attndb/v1/contexts"});
//
// Method:  Boost.Beast on Asio, a connection for each request. https by OpenSSL: the certificate
//          must be of the URL's host, and one that the system trusts (SSL_CERT_FILE names others).
// Trust:   what a server sends is hostile: ClientOptions limits its head, its body and its silence.
// Errors:  kInvalidArgument (URL, key); kIoError (no server, no HTTP, beyond the limits, cut
//          short); kCancelled (ClientOptions::stops).
// Threads: one thread at a time; has none of its own.
#ifndef ATTNDB_SERVER_HTTP_CLIENT_H_
#define ATTNDB_SERVER_HTTP_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "attndb/result.h"

namespace attndb::server {

struct ClientOptions {
  std::string url;  // As ParseUrl takes it.
  std::string key;  // Sent as "Authorization: Bearer KEY"; empty = none.
  uint64_t max_body_bytes = uint64_t{256} << 20;
  uint32_t max_header_bytes = 16 << 10;
  // For each of: looking up the name, connecting, the handshake of TLS. The system's look-up of a
  // name can't be interrupted: a Send that gives it up returns when the system does, which may be
  // half a minute later where no name server answers.
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds silence_timeout{300'000};  // Without a byte of the answer.
  std::function<bool()> stops;  // Asked several times a second: true ends the request.
};

struct Url {
  bool tls = false;
  std::string host;  // An IPv6 address without its brackets.
  uint16_t port = 80;
  std::string prefix;  // Comes before the paths of requests: "/attn", or empty.
};

// "http://host:port", "https://host/prefix", "host:port". The "/v1" at its end, with which other
// clients want the URL, is no part of the prefix.
Result<Url> ParseUrl(std::string_view text);

// A piece of a path in which no character has a meaning of its own: "#12" -> "%2312".
std::string EscapeForPath(std::string_view text);

struct ClientRequest {
  std::string method = "GET";
  std::string path;
  std::string body;  // JSON; empty = none.
  // Takes the body of an answer of status 200 as it comes; false ends the request with kCancelled.
  std::function<bool(std::string_view piece)> on_piece;
};

struct ClientAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // Names in lower case.
  std::string body;                            // What on_piece did not take.
};

class Client {
 public:
  static Result<std::unique_ptr<Client>> Make(ClientOptions options);
  virtual ~Client() = default;

  virtual Result<ClientAnswer> Send(const ClientRequest& request) = 0;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_HTTP_CLIENT_H_
