#include "server/http/http_test_util.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "server/http/message_text.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

constexpr size_t kReadBytes = 16 << 10;

}  // namespace

RawClient::RawClient(uint16_t port, const Options& options) {
  socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience = {.tv_sec = kPatience.count(), .tv_usec = 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (options.receive_buffer > 0) {
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &options.receive_buffer,
               sizeof(options.receive_buffer));
  }
  if (options.max_segment > 0) {
    setsockopt(socket_, IPPROTO_TCP, TCP_MAXSEG, &options.max_segment, sizeof(options.max_segment));
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    Close();
    return;
  }
  if (!options.tls) return;
  context_.reset(SSL_CTX_new(TLS_client_method()));
  ssl_.reset(SSL_new(context_.get()));
  SSL_set_fd(ssl_.get(), socket_);
  if (SSL_connect(ssl_.get()) != 1) Close();
}

bool RawClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t num_sent =
        ssl_ != nullptr ? SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()))
                        : send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (num_sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(num_sent));
  }
  return true;
}

bool RawClient::ReadMore() {
  char buffer[kReadBytes];
  const ssize_t num_read = ssl_ != nullptr
                               ? SSL_read(ssl_.get(), buffer, static_cast<int>(sizeof(buffer)))
                               : recv(socket_, buffer, sizeof(buffer), 0);
  EXPECT_FALSE(num_read < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      << "the server says nothing";
  if (num_read <= 0) return false;
  unread_.append(buffer, static_cast<size_t>(num_read));
  return true;
}

std::string RawClient::ReadUntil(std::string_view end) {
  size_t at = 0;
  while ((at = unread_.find(end)) == std::string::npos) {
    if (!ReadMore()) return std::exchange(unread_, "");
  }
  std::string text = unread_.substr(0, at + end.size());
  unread_.erase(0, text.size());
  return text;
}

std::string RawClient::ReadAll() {
  while (ReadMore()) {
  }
  return std::exchange(unread_, "");
}

std::string RawClient::ReadBytes(size_t num_bytes) {
  while (unread_.size() < num_bytes && ReadMore()) {
  }
  std::string text = unread_.substr(0, num_bytes);
  unread_.erase(0, text.size());
  return text;
}

RawAnswer RawClient::ReadAnswer(bool head_only) {
  RawAnswer answer;
  std::string head = ReadUntil("\r\n\r\n");
  if (std::sscanf(head.c_str(), "HTTP/1.1 %d ", &answer.status) != 1) {
    answer.body = std::move(head);
    return answer;
  }
  for (size_t at = head.find("\r\n") + 2; at + 2 < head.size();) {
    const size_t end = head.find("\r\n", at);
    const std::string line = head.substr(at, end - at);
    const size_t colon = line.find(": ");
    EXPECT_NE(colon, std::string::npos) << line;
    if (colon == std::string::npos) break;
    EXPECT_TRUE(
        answer.headers.emplace(LowerCase(line.substr(0, colon)), line.substr(colon + 2)).second)
        << "twice: " << line;
    at = end + 2;
  }
  if (head_only) return answer;
  if (answer.headers.contains("content-length")) {
    answer.body = ReadBytes(std::stoul(answer.headers["content-length"]));
  } else if (answer.headers.contains("transfer-encoding")) {
    for (size_t length = 1; length > 0;) {
      const std::string line = ReadUntil("\r\n");
      if (!line.ends_with("\r\n")) break;  // It was cut off.
      length = std::stoul(line, nullptr, 16);
      answer.body += ReadBytes(length);
      EXPECT_EQ(ReadBytes(2), "\r\n");
    }
  } else {
    answer.body = ReadAll();
  }
  return answer;
}

RawAnswer RawClient::Ask(std::string_view request) {
  EXPECT_TRUE(Send(request));
  return ReadAnswer();
}

bool RawClient::AtEnd() { return unread_.empty() && !ReadMore(); }

void RawClient::Close() {
  ssl_.reset();
  if (socket_ >= 0) close(std::exchange(socket_, -1));
}

Handler Exchanges::handler() {
  return [this](std::shared_ptr<const Request> request, std::shared_ptr<Responder> responder) {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back({std::move(request), std::move(responder)});
    changed_.notify_one();
  };
}

Exchanges::Exchange Exchanges::Next() {
  std::unique_lock<std::mutex> lock(mutex_);
  const bool there = changed_.wait_for(lock, kPatience, [this] { return !waiting_.empty(); });
  EXPECT_TRUE(there) << "no request came";
  if (!there) return {};
  Exchange exchange = std::move(waiting_.front());
  waiting_.pop_front();
  return exchange;
}

void Echo(const std::shared_ptr<const Request>& request,
          const std::shared_ptr<Responder>& responder) {
  responder->Send({.content_type = "text/plain",
                   .body = request->method + " " + request->path + " " + request->body});
}

std::unique_ptr<Listener> Listen(ListenerOptions options, Handler handler) {
  options.port = 0;
  Result<std::unique_ptr<Listener>> listener = Listener::Open(options, std::move(handler));
  EXPECT_THAT(listener, ::attndb::test::IsOk());
  return listener.ok() ? *std::move(listener) : nullptr;
}

std::string Post(const std::string& path, const std::string& body) {
  return "POST " + path +
         " HTTP/1.1\r\nHost: test\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         body;
}

void WriteCertificate(const std::string& certificate_file, const std::string& key_file) {
  constexpr int64_t kDaySeconds = 86400;
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -kDaySeconds);
  X509_gmtime_adj(X509_getm_notAfter(certificate), kDaySeconds);
  X509_set_pubkey(certificate, key);
  X509_NAME* const name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("127.0.0.1"), -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  X509_set_version(certificate, X509_VERSION_3);
  X509_EXTENSION* const place =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1");
  EXPECT_EQ(X509_add_ext(certificate, place, -1), 1);
  X509_EXTENSION_free(place);
  EXPECT_GT(X509_sign(certificate, key, EVP_sha256()), 0);
  FILE* const certificate_out = std::fopen(certificate_file.c_str(), "w");
  FILE* const key_out = std::fopen(key_file.c_str(), "w");
  EXPECT_EQ(PEM_write_X509(certificate_out, certificate), 1);
  EXPECT_EQ(PEM_write_PrivateKey(key_out, key, nullptr, nullptr, 0, nullptr, nullptr), 1);
  std::fclose(certificate_out);
  std::fclose(key_out);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

}  // namespace attndb::server
