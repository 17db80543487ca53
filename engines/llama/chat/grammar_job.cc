#include "engines/llama/chat/grammar_job.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "engines/llama/chat/chat_limits.h"
#include "engines/llama/chat/chat_process.h"

namespace attndb::llama {
namespace {

constexpr char kDidNot[] = "the grammar of the reply was not applied";
constexpr uint32_t kMostAnswerBytes = 1 << 20;  // A vocabulary of 8 million tokens.

std::string BytesOf(std::span<const TokenId> tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()};
}

}  // namespace

GrammarJob::GrammarJob(int socket, const ChatFields& grammar) : socket_(socket) { Send(grammar); }

GrammarJob::~GrammarJob() { close(socket_); }

Status GrammarJob::AwaitStart() {
  MoveUntil([this] { return is_started_; }, kChatWaitMs);
  return failed_;
}

void GrammarJob::Ask(TokenId token) {
  ChatFields request = {{"check", BytesOf({&token, 1})}};
  if (!came_.empty()) request["accept"] = BytesOf(came_);
  asked_ = token;
  came_.clear();
  answer_.reset();
  Send(request);
}

Result<std::optional<GrammarVerdict>> GrammarJob::Take(int wait_ms) {
  MoveUntil([this] { return answer_.has_value(); }, wait_ms);
  if (!failed_.ok()) return failed_;
  std::optional<GrammarVerdict> verdict = std::exchange(answer_, std::nullopt);
  if (verdict && verdict->is_allowed) came_.push_back(*asked_);
  return verdict;
}

void GrammarJob::Accept(TokenId token) { came_.push_back(token); }

pollfd GrammarJob::awaited() const {
  const auto events = static_cast<int16_t>(unsent_.empty() ? POLLIN : POLLIN | POLLOUT);
  return {.fd = socket_, .events = events, .revents = 0};
}

void GrammarJob::Send(const ChatFields& request) {
  unsent_ += PackFrame(request);
  deadline_ = Clock::now() + std::chrono::milliseconds(kChatWaitMs);
  SendSome();
}

template <typename IsDone>
void GrammarJob::MoveUntil(IsDone is_done, int wait_ms) {
  const Clock::time_point end =
      std::min(deadline_, Clock::now() + std::chrono::milliseconds(wait_ms));
  while (true) {
    Move();
    if (!failed_.ok() || is_done()) return;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) break;
    pollfd waited = awaited();
    poll(&waited, 1, static_cast<int>(left));
  }
  if (Clock::now() >= deadline_) Fail(EndReason(kDidNot, std::nullopt));
}

void GrammarJob::Move() {
  SendSome();
  ReceiveSome();
  uint32_t size = 0;
  while (failed_.ok() && received_.size() >= sizeof(size)) {
    std::memcpy(&size, received_.data(), sizeof(size));
    if (size > kMostAnswerBytes) return Fail(EndReason(kDidNot, std::nullopt));
    if (received_.size() < sizeof(size) + size) break;
    const auto frame = UnpackFields(std::string_view(received_).substr(sizeof(size), size));
    if (!frame.ok()) return Fail(EndReason(kDidNot, std::nullopt));
    TakeFrame(*frame);
    received_.erase(0, sizeof(size) + size);
  }
  if (is_closed_) Fail(EndReason(kDidNot, std::nullopt));
}

void GrammarJob::SendSome() {
  while (!unsent_.empty()) {
    const ssize_t length =
        send(socket_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0 && errno != EAGAIN) unsent_.clear();  // What it sent last says why.
    if (length < 0) return;
    unsent_.erase(0, static_cast<size_t>(length));
  }
}

void GrammarJob::ReceiveSome() {
  std::array<char, 16384> buffer;
  while (!is_closed_) {
    const ssize_t length = recv(socket_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0 && errno == EAGAIN) return;
    if (length > 0) {
      received_.append(buffer.data(), static_cast<size_t>(length));
      if (static_cast<size_t>(length) < buffer.size()) return;
      continue;
    }
    is_closed_ = true;
    return;
  }
}

void GrammarJob::TakeFrame(const ChatFields& frame) {
  const auto field = [&frame](const char* name) {
    const auto found = frame.find(name);
    return found == frame.end() ? nullptr : &found->second;
  };
  if (const std::string* const error = field("error")) {
    Fail(Status::InvalidArgument(*error));
  } else if (const std::string* const failed = field("failed")) {
    Fail(Status::IoError(std::string(kDidNot) + ": " + *failed));
  } else if (const std::string* const ended = field("ended")) {
    Fail(EndReason(kDidNot, std::atoi(ended->c_str())));
  } else if (field("allowed") != nullptr) {
    answer_ = {.in_force = field("waits") == nullptr, .mask = {}};
  } else if (const std::string* const mask = field("mask")) {
    answer_ = {.is_allowed = false, .mask = *mask};
  } else {
    is_started_ = true;
  }
}

void GrammarJob::Fail(Status status) {
  if (failed_.ok()) failed_ = std::move(status);
}

}  // namespace attndb::llama
