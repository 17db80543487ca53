// Frames between attndb and attndb-chat, the program that renders chat templates: a list of named
// byte strings, which may hold any bytes.
//
//   bytes of the body   uint32, this machine's byte order
//   body                for each field: uint32 bytes of the name, the name, uint32 bytes of the
//                       value, the value
//
// A frame is hostile until it is read: a count that does not fit is an error, and no frame is
// longer than kMaxFrameBytes.
//
// Errors:  kCorruption (a body that is no list of fields); kResourceExhausted (a frame that is too
//          long); kIoError (the other end closed, or the system's own error).
// Threads: stateless; one thread at a time for each file descriptor.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_CHAT_FRAMES_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_CHAT_FRAMES_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "attndb/result.h"

namespace attndb::llama {

using ChatFields = std::map<std::string, std::string>;

inline constexpr size_t kMaxFrameBytes = size_t{64} << 20;

std::string PackFields(const ChatFields& fields);
// A whole frame.
std::string PackFrame(const ChatFields& fields);
Result<ChatFields> UnpackFields(std::string_view body);

// Ok if the fields make a frame that may be sent. Errors: kResourceExhausted.
Status CheckFrame(const ChatFields& fields);

// Sends a frame, and waits for that at most `timeout_ms`; -1: without end. A peer that is gone is
// an error and no signal. kResourceExhausted: nothing was sent, or the time was over.
Status WriteFrame(int socket, const ChatFields& fields, int timeout_ms = -1);

// Waits for a frame, at most `timeout_ms`; -1: without end. kResourceExhausted: the time was over.
Result<ChatFields> ReadFrame(int socket, int timeout_ms = -1);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_CHAT_FRAMES_H_
