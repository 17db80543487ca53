#include "server/http/message_text.h"

#include <algorithm>
#include <cctype>
#include <cstdio>

namespace attndb::server {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void AddField(std::string_view name, std::string_view value, std::string* head) {
  if (value.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos) return;
  head->append(name).append(": ").append(value).append("\r\n");
}

}  // namespace

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

std::string_view ReasonPhrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Payload Too Large";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 507:
      return "Insufficient Storage";
    default:
      return "Unknown";
  }
}

std::string HeadOf(const Response& response, size_t length, bool keep_alive) {
  std::string head = "HTTP/1.1 " + std::to_string(response.status) + " ";
  head.append(ReasonPhrase(response.status)).append("\r\n");
  AddField("Content-Type", response.content_type, &head);
  for (const auto& [name, value] : response.headers) AddField(name, value, &head);
  if (length == kInChunks) {
    AddField("Transfer-Encoding", "chunked", &head);
  } else if (length != kToItsEnd) {
    AddField("Content-Length", std::to_string(length), &head);
  }
  AddField("Connection", keep_alive ? "keep-alive" : "close", &head);
  return head + "\r\n";
}

Response RefusalOf(int status, std::string_view why) {
  std::string text(why);
  std::replace(text.begin(), text.end(), '"', '\'');
  Response response = {.status = status};
  response.body = R"({"error":{"message":")" + text +
                  R"(","type":"invalid_request_error","code":)" + std::to_string(status) + "}}";
  return response;
}

std::string ChunkOf(std::string_view piece) {
  char length[20];
  const int digits = std::snprintf(length, sizeof(length), "%zx\r\n", piece.size());
  std::string chunk(length, static_cast<size_t>(digits));
  return chunk.append(piece).append("\r\n");
}

std::optional<std::string> PathOf(std::string_view target) {
  target = target.substr(0, target.find_first_of("?#"));
  if (target.empty() || target.front() != '/') return std::nullopt;
  std::string path;
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] != '%') {
      path += target[i];
      continue;
    }
    if (i + 2 >= target.size()) return std::nullopt;
    const int high = HexDigit(target[i + 1]);
    const int low = HexDigit(target[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    path += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return path;
}

}  // namespace attndb::server
