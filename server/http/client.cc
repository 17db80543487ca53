#include "server/http/client.h"

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <cctype>
#include <charconv>
#include <type_traits>
#include <utility>

#include "server/http/message_text.h"

namespace attndb::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;
using boost::system::error_code;
using TlsStream = asio::ssl::stream<Tcp::socket>;

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

// One connection, from its making to the end of one answer.
template <typename Stream>
class Exchange {
 public:
  template <typename... StreamArgs>
  Exchange(const ClientOptions& options, const Url& url, asio::io_context* io, StreamArgs&&... args)
      : options_(options),
        url_(url),
        io_(io),
        resolver_(*io),
        stream_(*io, std::forward<StreamArgs>(args)...) {}

  Result<ClientAnswer> Run(const ClientRequest& request);

 private:
  Status Connect();
  Status Write(const ClientRequest& request);
  Status ReadBody(const ClientRequest& request, ClientAnswer* answer);
  // What `begin` begins, to its end. It is given the handler that ends it.
  template <typename Begin>
  Status Await(std::chrono::milliseconds patience, Begin begin);
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
  Stream stream_;
  boost::beast::flat_buffer buffer_;
  http::response_parser<http::string_body> parser_;
};

template <typename Stream>
template <typename Begin>
Status Exchange<Stream>::Await(std::chrono::milliseconds patience, Begin begin) {
  bool done = false;
  error_code error;
  begin([&done, &error](error_code ended, auto&&...) {
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

template <typename Stream>
void Exchange<Stream>::Abort() {
  error_code ignored;
  resolver_.cancel();
  stream_.lowest_layer().close(ignored);
  io_->restart();
  io_->run();  // Handlers refer to what is about to go.
}

template <typename Stream>
Status Exchange<Stream>::Connect() {
  Tcp::resolver::results_type found;
  ATTNDB_RETURN_IF_ERROR(Await(options_.connect_timeout, [&](auto handler) {
    resolver_.async_resolve(url_.host, std::to_string(url_.port),
                            [&found, handler](error_code error, auto results) mutable {
                              found = std::move(results);
                              handler(error);
                            });
  }));
  ATTNDB_RETURN_IF_ERROR(Await(options_.connect_timeout, [&](auto handler) {
    asio::async_connect(stream_.lowest_layer(), found, handler);
  }));
  error_code ignored;
  stream_.lowest_layer().set_option(Tcp::no_delay(true), ignored);
  if constexpr (std::is_same_v<Stream, TlsStream>) {
    SSL_set_tlsext_host_name(stream_.native_handle(), url_.host.c_str());
    stream_.set_verify_mode(asio::ssl::verify_peer);
    stream_.set_verify_callback(asio::ssl::host_name_verification(url_.host));
    return Await(options_.connect_timeout, [&](auto handler) {
      stream_.async_handshake(asio::ssl::stream_base::client, handler);
    });
  }
  return Status::Ok();
}

template <typename Stream>
Status Exchange<Stream>::Write(const ClientRequest& request) {
  constexpr unsigned kHttp11 = 11;
  http::request<http::string_body> message;
  message.version(kHttp11);
  message.method_string(request.method);
  message.target(url_.prefix + request.path);
  const bool is_ipv6 = url_.host.find(':') != std::string::npos;
  message.set(http::field::host,
              (is_ipv6 ? "[" + url_.host + "]" : url_.host) + ":" + std::to_string(url_.port));
  message.set(http::field::connection, "close");
  message.set(http::field::user_agent, "attndb");
  if (!options_.key.empty()) message.set(http::field::authorization, "Bearer " + options_.key);
  if (!request.body.empty()) message.set(http::field::content_type, "application/json");
  message.body() = request.body;
  message.prepare_payload();
  return Await(options_.silence_timeout,
               [&](auto handler) { http::async_write(stream_, message, handler); });
}

template <typename Stream>
Status Exchange<Stream>::ReadBody(const ClientRequest& request, ClientAnswer* answer) {
  const bool in_pieces = request.on_piece && answer->status == kOk;
  parser_.eager(false);  // It would keep a chunk until the next one begins.
  while (true) {
    std::string piece = std::exchange(parser_.get().body(), {});
    if (!piece.empty() && in_pieces && !request.on_piece(piece)) {
      return Status::Cancelled("interrupted");
    }
    if (!in_pieces) answer->body += piece;
    if (parser_.is_done()) return Status::Ok();
    ATTNDB_RETURN_IF_ERROR(Await(options_.silence_timeout, [&](auto handler) {
      http::async_read_some(stream_, buffer_, parser_, handler);
    }));
  }
}

template <typename Stream>
Result<ClientAnswer> Exchange<Stream>::Run(const ClientRequest& request) {
  ATTNDB_RETURN_IF_ERROR(Connect());
  // A server that refuses a request while it is sent has said why.
  const Status written = Write(request);
  if (written.code() == StatusCode::kCancelled) return written;
  parser_.header_limit(options_.max_header_bytes);
  parser_.body_limit(options_.max_body_bytes);
  const Status read = Await(options_.silence_timeout, [&](auto handler) {
    http::async_read_header(stream_, buffer_, parser_, handler);
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
    if (!url_.tls) return Exchange<Tcp::socket>(options_, url_, &io).Run(request);
    asio::ssl::context tls(asio::ssl::context::tls_client);
    error_code error;
    tls.set_default_verify_paths(error);
    return Exchange<TlsStream>(options_, url_, &io, tls).Run(request);
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
