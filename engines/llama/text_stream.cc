#include "engines/llama/text_stream.h"

#include <algorithm>
#include <utility>

#include "engines/llama/utf8_bytes.h"

namespace attndb::llama {
namespace {

// Length of the longest end of `text` that `stop` begins with.
size_t OverlapWith(std::string_view text, std::string_view stop) {
  for (size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length) {
    if (stop.starts_with(text.substr(text.size() - length))) return length;
  }
  return 0;
}

}  // namespace

TextStream::TextStream(std::vector<std::string> stop) : stop_(std::move(stop)) {
  std::erase_if(stop_, [](const std::string& s) { return s.empty(); });
}

std::string TextStream::Emit(size_t num_bytes) {
  std::string out = pending_.substr(0, num_bytes);
  pending_.erase(0, num_bytes);
  text_ += out;
  return out;
}

size_t TextStream::SafeBytes() const {
  size_t held = 0;
  for (const std::string& stop : stop_) held = std::max(held, OverlapWith(pending_, stop));
  return WholeUtf8Bytes(std::string_view(pending_).substr(0, pending_.size() - held));
}

std::string TextStream::Push(std::string_view piece) {
  if (stopped_) return "";
  pending_ += piece;
  size_t end = std::string::npos;
  for (const std::string& stop : stop_) {
    const size_t begin = pending_.find(stop);
    if (begin >= end) continue;
    end = begin;
    found_ = stop;
  }
  if (end == std::string::npos) return Emit(SafeBytes());
  stopped_ = true;
  std::string out = Emit(end);
  pending_.clear();
  return out;
}

std::string TextStream::Finish() {
  const size_t whole = WholeUtf8Bytes(pending_);
  if (whole < pending_.size()) pending_.replace(whole, std::string::npos, "\xEF\xBF\xBD");
  return Emit(pending_.size());
}

}  // namespace attndb::llama
