// What fuzzers do to the texts that `attndb serve` is sent, to those that it makes of them, and to
// those that its clients read.
//
// Input:   any bytes. A request's body or a keys file: the bytes themselves, or edits of one that
//          says all that there is to say; missing bytes are 0.
// Found:   a sanitizer's report, an exception, or a request, an error or a message that is not what
//          its header promises: the process ends.
// Threads: any.
#ifndef ATTNDB_FUZZ_SERVER_TEXTS_H_
#define ATTNDB_FUZZ_SERVER_TEXTS_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace attndb::fuzz {

// ParseJson, then ParseChat, ParseCompletion, ParseTokenize, ParseEmbedding and the parsers for
// llama.cpp's routes. How many of them took it.
int FuzzServerRequest(std::span<const uint8_t> input);
inline constexpr int kNumTextRequests = 8;  // What FuzzServerRequest says of a whole body.
// ParseJson, then ParseResponse. Whether it took it.
bool FuzzResponseRequest(std::span<const uint8_t> input);
// ParseJson, then ParseMessages and ParseTokenCount. How many took it.
int FuzzMessagesRequest(std::span<const uint8_t> input);
inline constexpr int kNumMessagesRequests = 2;  // What FuzzMessagesRequest says of a whole body.
// ParseJson, then ParseChat of a body with tools. Whether it took it.
bool FuzzToolRequest(std::span<const uint8_t> input);
// ParseJson, then what each route of /attndb/v1 that has a body makes of it. How many took it.
int FuzzStoreRequest(std::span<const uint8_t> input);
inline constexpr int kNumStoreRequests = 9;  // What FuzzStoreRequest says of a whole body.
// ParseKeysFile. Whether it took it.
bool FuzzKeysFile(std::span<const uint8_t> input);
// PathOf of the bytes, HeadOf and ChunkOf with them. Whether they are a path.
bool FuzzHttpText(std::span<const uint8_t> input);
// An EventReader takes the bytes in pieces, whose lengths are drawn from them, and finds what it
// finds in the whole; what it finds is parsed. How many events there are.
size_t FuzzEventStream(std::span<const uint8_t> input);

}  // namespace attndb::fuzz

#endif  // ATTNDB_FUZZ_SERVER_TEXTS_H_
