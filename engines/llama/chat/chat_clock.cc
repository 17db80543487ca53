#include "engines/llama/chat/chat_clock.h"

#include <ctime>

namespace attndb::llama {
namespace {

std::time_t clock_seconds = 0;

}  // namespace

void SetChatClock(int64_t seconds) { clock_seconds = static_cast<std::time_t>(seconds); }

}  // namespace attndb::llama

// The name that the linker gives to time().
// NOLINTNEXTLINE(bugprone-reserved-identifier, readability-identifier-naming)
extern "C" std::time_t __wrap_time(std::time_t* out) {
  if (out != nullptr) *out = attndb::llama::clock_seconds;
  return attndb::llama::clock_seconds;
}
