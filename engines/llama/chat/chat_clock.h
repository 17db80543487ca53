// The time that chat templates see. Some write the date into the prompt (strftime_now), and
// llama.cpp asks the system for it. A stored prompt would then be unknown a day later. The program
// attndb-chat is linked so that llama.cpp's calls of time() come here (-Wl,--wrap=time).
//
// Threads: one thread at a time.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_CHAT_CLOCK_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_CHAT_CLOCK_H_

#include <cstdint>

namespace attndb::llama {

// Sets the time, in seconds since 1970 in UTC, until the next call.
void SetChatClock(int64_t seconds);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_CHAT_CLOCK_H_
