// What a fuzzer does to a connection of `attndb serve`: hostile bytes, in pieces of any length.
//
// Method:  a connection on one end of a socket pair, in this thread: after each piece it does all
//          that it can do. Its handler answers at once.
// Input:   any bytes. How they are cut is drawn from the first; the rest are the bytes themselves,
//          or choose among pieces of requests: whole ones, lines of their heads, chunks.
// Found:   a sanitizer's report, an exception, a request beyond its limits, an answer that is not
//          well-formed or not to a request, requests that depend on how the bytes are cut, or a
//          connection that outlives its client: the process ends.
// Threads: any.
#ifndef ATTNDB_FUZZ_CONNECTION_BYTES_H_
#define ATTNDB_FUZZ_CONNECTION_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace attndb::fuzz {

// How many requests were found in the bytes.
size_t FuzzConnection(std::span<const uint8_t> input);

}  // namespace attndb::fuzz

#endif  // ATTNDB_FUZZ_CONNECTION_BYTES_H_
