#include "engines/llama/chat/chat_frames.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>

namespace attndb::llama {
namespace {

using Clock = std::chrono::steady_clock;

void AppendSized(std::string_view bytes, std::string* to) {
  const auto size = static_cast<uint32_t>(bytes.size());
  to->append(reinterpret_cast<const char*>(&size), sizeof(size));
  to->append(bytes);
}

// Takes a byte string off the front of `body`; nullopt if it does not hold one.
std::optional<std::string_view> TakeSized(std::string_view* body) {
  uint32_t size = 0;
  if (body->size() < sizeof(size)) return std::nullopt;
  std::memcpy(&size, body->data(), sizeof(size));
  body->remove_prefix(sizeof(size));
  if (body->size() < size) return std::nullopt;
  const std::string_view bytes = body->substr(0, size);
  body->remove_prefix(size);
  return bytes;
}

Status Failed(std::string_view what) {
  return Status::IoError(std::string(what) + ": " + std::strerror(errno));
}

Status TooLong(size_t bytes) {
  return Status::ResourceExhausted("a chat of " + std::to_string(bytes) +
                                   " bytes, of which at most " + std::to_string(kMaxFrameBytes) +
                                   " go to the program that renders chat templates");
}

// Milliseconds until `deadline`; -1 = no deadline.
int MsUntil(const std::optional<Clock::time_point>& deadline) {
  if (!deadline) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
  return static_cast<int>(std::max<int64_t>(0, left.count()));
}

using Deadline = std::optional<Clock::time_point>;

Deadline After(int timeout_ms) {
  if (timeout_ms < 0) return std::nullopt;
  return Clock::now() + std::chrono::milliseconds(timeout_ms);
}

// Waits until bytes can be read (POLLIN) or written (POLLOUT).
Status WaitFor(int16_t events, int socket, Deadline deadline) {
  while (true) {
    pollfd waited = {.fd = socket, .events = events, .revents = 0};
    const int ready = poll(&waited, 1, MsUntil(deadline));
    if (ready > 0) return Status::Ok();
    if (ready == 0) return Status::ResourceExhausted("no answer in time");
    if (errno != EINTR) return Failed("poll");
  }
}

Status ReadBytes(int socket, Deadline deadline, size_t size, char* bytes) {
  while (size > 0) {
    ATTNDB_RETURN_IF_ERROR(WaitFor(POLLIN, socket, deadline));
    const ssize_t length = recv(socket, bytes, size, MSG_DONTWAIT);
    if (length < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (length < 0) return Failed("recv");
    if (length == 0) return Status::IoError("the other end has closed");
    bytes += length;
    size -= static_cast<size_t>(length);
  }
  return Status::Ok();
}

}  // namespace

std::string PackFields(const ChatFields& fields) {
  std::string body;
  for (const auto& [name, value] : fields) {
    AppendSized(name, &body);
    AppendSized(value, &body);
  }
  return body;
}

std::string PackFrame(const ChatFields& fields) {
  std::string frame;
  AppendSized(PackFields(fields), &frame);
  return frame;
}

Result<ChatFields> UnpackFields(std::string_view body) {
  ChatFields fields;
  while (!body.empty()) {
    const auto name = TakeSized(&body);
    const auto value = name ? TakeSized(&body) : std::nullopt;
    if (!value) return Status::Corruption("a frame's fields are longer than the frame");
    if (!fields.emplace(*name, *value).second) {
      return Status::Corruption("a frame has the field '" + std::string(*name) + "' twice");
    }
  }
  return fields;
}

Status CheckFrame(const ChatFields& fields) {
  size_t bytes = 0;
  for (const auto& [name, value] : fields) bytes += 8 + name.size() + value.size();
  return bytes > kMaxFrameBytes ? TooLong(bytes) : Status::Ok();
}

Status WriteFrame(int socket, const ChatFields& fields, int timeout_ms) {
  const Deadline deadline = After(timeout_ms);
  ATTNDB_RETURN_IF_ERROR(CheckFrame(fields));
  const std::string frame = PackFrame(fields);
  for (size_t sent = 0; sent < frame.size();) {
    ATTNDB_RETURN_IF_ERROR(WaitFor(POLLOUT, socket, deadline));
    const ssize_t length =
        send(socket, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (length < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (length < 0) return Failed("send");
    sent += static_cast<size_t>(length);
  }
  return Status::Ok();
}

Result<ChatFields> ReadFrame(int socket, int timeout_ms) {
  const Deadline deadline = After(timeout_ms);
  uint32_t size = 0;
  ATTNDB_RETURN_IF_ERROR(ReadBytes(socket, deadline, sizeof(size), reinterpret_cast<char*>(&size)));
  if (size > kMaxFrameBytes) return TooLong(size);
  std::string body(size, '\0');
  ATTNDB_RETURN_IF_ERROR(ReadBytes(socket, deadline, size, body.data()));
  return UnpackFields(body);
}

}  // namespace attndb::llama
