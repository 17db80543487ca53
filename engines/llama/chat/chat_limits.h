// Limits of the program that renders chat templates: templates, schemas and messages come from
// others, and llama.cpp's Jinja counts neither steps nor bytes.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_CHAT_LIMITS_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_CHAT_LIMITS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace attndb::llama {

inline constexpr int kChatCpuSeconds = 1;  // CPU time of a request: a busy machine makes none fail.
// Templates walk over all messages: a chat of many gets more.
inline constexpr size_t kChatBytesPerSecond = size_t{64} << 10;
inline constexpr size_t kMostChatCpuSeconds = 10;
inline int ChatCpuSeconds(size_t message_bytes) {
  const size_t seconds = kChatCpuSeconds + message_bytes / kChatBytesPerSecond;
  return static_cast<int>(std::min(seconds, kMostChatCpuSeconds));
}
inline constexpr uint64_t kChatMemoryBytes = uint64_t{256} << 20;
inline constexpr int kChatOutOfMemoryCode = 3;  // Exit code of the program that had no more memory.
// A request that takes longer is given up, whatever it waits for.
inline constexpr int kChatWaitMs = 120'000;

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_CHAT_LIMITS_H_
