#include "server/http/client.h"

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cctype>
#include <charconv>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "server/http/message_text.h"

namespace attndb::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::milliseconds kLook{50};  // Between looks at ClientOptions::stops.
constexpr int kOk = 200;

Status WrongUrl(std::string_view text) {
  return Status::InvalidArgument("'" + std::string(text) +
                                 "' is no URL of a server, expected one as http://127.0.0.1:8080");
}

bool HasControlCharacter(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '\x7f') return true;
  }
  return false;
}

bool ParsePort(std::string_view text, uint16_t* port) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *port);
  return error == std::errc() && end == text.data() + text.size() && *port != 0;
}

// A TCP connection, with or without TLS: one type, with one type of handler. The templates that
// read and write messages are then compiled once. Compiled for each stream and each lambda, they
// took 18 s.
class Wire {
 public:
  using executor_type = Tcp::socket::executor_type;
  using Done = std::function<void(error_code, size_t)>;

  // Without TLS if `tls` is null.
  Wire(asio::io_context* io, asio::ssl::context* tls) : plain_(*io) {
    if (tls != nullptr) tls_.emplace(*io, *tls);
  }

  executor_type get_executor() { return plain_.get_executor(); }
  Tcp::socket& socket() { return tls_ ? tls_->next_layer() : plain_; }
  asio::ssl::stream<Tcp::socket>* tls() { return tls_ ? &*tls_ : nullptr; }

  // Asio requires a stream to have functions of these names and forms.
  template <typename Handler>
  void async_read_some(const asio::mutable_buffer& buffer, Handler handler) {
    Done done = Shared(std::move(handler));
    tls_ ? tls_->async_read_some(buffer, std::move(done))
         : plain_.async_read_some(buffer, std::move(done));
  }
  template <typename Handler>
  void async_write_some(const asio::const_buffer& buffer, Handler handler) {
    Done done = Shared(std::move(handler));
    tls_ ? tls_->async_write_some(buffer, std::move(done))
         : plain_.async_write_some(buffer, std::move(done));
  }

 private:
  // std::function takes only handlers that can be copied. Asio's can't.
  template <typename Handler>
  static Done Shared(Handler handler) {
    return [shared = std::make_shared<Handler>(std::move(handler))](
               error_code error, size_t num_bytes) { (*shared)(error, num_bytes); };
  }

  Tcp::socket plain_;
  std::optional<asio::ssl::stream<Tcp::socket>> tls_;
};

// One connection, from its making to the end of one answer.
class Exchange {
 public:
  // Without TLS if `tls` is null.
  Exchange(const ClientOptions& options, const Url& url, asio::io_context* io,
           asio::ssl::context* tls)
      : options_(options), url_(url), io_(io), resolver_(*io), wire_(io, tls) {}

  Result<ClientAnswer> Run(const ClientRequest& request);

 private:
  Status Connect();
  Status Write(const ClientRequest& request);
  Status ReadBody(const ClientRequest& request, ClientAnswer* answer);
  // Runs what `begin` starts to its end. `begin` is given the handler that ends it.
  using Handler = std::function<void(error_code, size_t)>;
  Status Await(std::chrono::milliseconds patience, const std::function<void(Handler)>& begin);
  // Ends what is under way.
  void Abort();
  Status Failed(const std::string& what) const {
    return Status::IoError("the server at " + url_.host + " port " + std::to_string(url_.port) +
                           ": " + what);
  }

  const ClientOptions& options_;
  const Url& url_;
  asio::io_context* const io_;
  Tcp::resolver resolver_;
  Wire wire_;
  boost::beast::flat_buffer buffer_;
  http::response_parser<http::string_body> parser_;
};

Status Exchange::Await(std::chrono::milliseconds patience,
                       const std::function<void(Handler)>& begin) {
  bool done = false;
  error_code error;
  begin([&done, &error](error_code ended, size_t) {
    error = ended;
    done = true;
  });
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!done) {
    io_->restart();
    io_->run_one_for(kLook);
    if (done) break;
    if (options_.stops && options_.stops()) {
      Abort();
      return Status::Cancelled("interrupted");
    }
    if (std::chrono::steady_clock::now() < end) continue;
    Abort();
    return Failed("no answer in " + std::to_string(patience.count()) + " ms");
  }
  return error ? Failed(error.message()) : Status::Ok();
}

void Exchange::Abort() {
  error_code ignored;
  resolver_.cancel();
  wire_.socket().close(ignored);
  io_->restart();
  io_->run();  // Handlers refer to what is about to go.
}

Status Exchange::Connect() {
  Tcp::resolver::results_type found;
  ATTNDB_RETURN_IF_ERROR(Await(options_.connect_timeout, [&](const Handler& handler) {
    resolver_.async_resolve(url_.host, std::to_string(url_.port),
                            [&found, handler](error_code error, const auto& results) {
                              found = results;
                              handler(error, 0);
                            });
  }));
  ATTNDB_RETURN_IF_ERROR(Await(options_.connect_timeout, [&](const Handler& handler) {
    asio::async_connect(wire_.socket(), found,
                        [handler](error_code error, const auto&) { handler(error, 0); });
  }));
  error_code ignored;
  wire_.socket().set_option(Tcp::no_delay(true), ignored);
  auto* const tls = wire_.tls();
  if (tls == nullptr) return Status::Ok();
  SSL_set_tlsext_host_name(tls->native_handle(), url_.host.c_str());
  tls->set_verify_mode(asio::ssl::verify_peer);
  tls->set_verify_callback(asio::ssl::host_name_verification(url_.host));
  return Await(options_.connect_timeout, [&](const Handler& handler) {
    tls->async_handshake(asio::ssl::stream_base::client,
                         [handler](error_code error) { handler(error, 0); });
  });
}

Status Exchange::Write(const ClientRequest& request) {
  const bool is_ipv6 = url_.host.find(':') != std::string::npos;
  std::string message = request.method + " " + url_.prefix + request.path + " HTTP/1.1\r\n";
  message += "Host: " + (is_ipv6 ? "[" + url_.host + "]" : url_.host) + ":" +
             std::to_string(url_.port) + "\r\nConnection: close\r\nUser-Agent: attndb\r\n";
  if (!options_.key.empty()) message += "Authorization: Bearer " + options_.key + "\r\n";
  if (!request.body.empty()) message += "Content-Type: application/json\r\n";
  // A method with a body also tells the length of an empty body (RFC 9110, 8.6).
  if (!request.body.empty() || request.method == "POST" || request.method == "PUT") {
    message += "Content-Length: " + std::to_string(request.body.size()) + "\r\n";
  }
  message += "\r\n" + request.body;
  return Await(options_.silence_timeout, [&](const Handler& handler) {
    asio::async_write(wire_, asio::buffer(message), handler);
  });
}

Status Exchange::ReadBody(const ClientRequest& request, ClientAnswer* answer) {
  const bool in_pieces = request.on_piece && answer->status == kOk;
  parser_.eager(false);  // It would keep a chunk until the next one begins.
  while (true) {
    std::string piece = std::exchange(parser_.get().body(), {});
    if (!piece.empty() && in_pieces && !request.on_piece(piece)) {
      return Status::Cancelled("interrupted");
    }
    if (!in_pieces) answer->body += piece;
    if (parser_.is_done()) return Status::Ok();
    ATTNDB_RETURN_IF_ERROR(Await(options_.silence_timeout, [&](const Handler& handler) {
      http::async_read_some(wire_, buffer_, parser_, handler);
    }));
  }
}

Result<ClientAnswer> Exchange::Run(const ClientRequest& request) {
  ATTNDB_RETURN_IF_ERROR(Connect());
  // A server that refuses a request while it is sent has said why.
  const Status written = Write(request);
  if (written.code() == StatusCode::kCancelled) return written;
  parser_.header_limit(options_.max_header_bytes);
  parser_.body_limit(options_.max_body_bytes);
  const Status read = Await(options_.silence_timeout, [&](const Handler& handler) {
    http::async_read_header(wire_, buffer_, parser_, handler);
  });
  if (!read.ok()) return written.ok() ? read : written;
  ClientAnswer answer;
  answer.status = static_cast<int>(parser_.get().result_int());
  for (const auto& field : parser_.get()) {
    answer.headers[LowerCase(field.name_string())] = std::string(field.value());
  }
  ATTNDB_RETURN_IF_ERROR(ReadBody(request, &answer));
  return answer;
}

class BeastClient final : public Client {
 public:
  BeastClient(ClientOptions options, Url url)
      : options_(std::move(options)), url_(std::move(url)) {}

  Result<ClientAnswer> Send(const ClientRequest& request) override {
    asio::io_context io;
    if (!url_.tls) return Exchange(options_, url_, &io, nullptr).Run(request);
    asio::ssl::context tls(asio::ssl::context::tls_client);
    error_code error;
    tls.set_default_verify_paths(error);
    if (error) {
      return Status::IoError("the system's certificates can't be read: " + error.message());
    }
    return Exchange(options_, url_, &io, &tls).Run(request);
  }

 private:
  const ClientOptions options_;
  const Url url_;
};

}  // namespace

Result<Url> ParseUrl(std::string_view text) {
  constexpr std::string_view kHttp = "http://";
  constexpr std::string_view kHttps = "https://";
  constexpr std::string_view kApi = "/v1";
  constexpr uint16_t kHttpsPort = 443;
  std::string_view rest = text;
  Url url;
  if (rest.starts_with(kHttps)) {
    url.tls = true;
    url.port = kHttpsPort;
    rest.remove_prefix(kHttps.size());
  } else if (rest.starts_with(kHttp)) {
    rest.remove_prefix(kHttp.size());
  }
  if (HasControlCharacter(rest) || rest.find_first_of("@?#\\") != std::string_view::npos) {
    return WrongUrl(text);
  }
  const size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view prefix = rest.substr(slash);
  std::string_view place = rest.substr(0, slash);
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  if (prefix.ends_with(kApi)) prefix.remove_suffix(kApi.size());
  url.prefix = prefix;
  std::string_view port;
  if (place.starts_with('[')) {
    const size_t end = place.find(']');
    if (end == std::string_view::npos) return WrongUrl(text);
    url.host = place.substr(1, end - 1);
    port = place.substr(end + 1);
  } else {
    const size_t colon = std::min(place.find(':'), place.size());
    url.host = place.substr(0, colon);
    port = place.substr(colon);
  }
  const bool has_port = port.starts_with(':');
  if (url.host.empty() || has_port == port.empty()) return WrongUrl(text);
  if (has_port && !ParsePort(port.substr(1), &url.port)) return WrongUrl(text);
  return url;
}

std::string EscapeForPath(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || std::string_view("-._~").find(c) != std::string_view::npos) {
      escaped += c;
    } else {
      escaped += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return escaped;
}

Result<std::unique_ptr<Client>> Client::Make(ClientOptions options) {
  ATTNDB_ASSIGN_OR_RETURN(Url url, ParseUrl(options.url));
  if (HasControlCharacter(options.key)) {
    return Status::InvalidArgument("the key has a space or a control character in it");
  }
  return std::unique_ptr<Client>(std::make_unique<BeastClient>(std::move(options), std::move(url)));
}

}  // namespace attndb::server
