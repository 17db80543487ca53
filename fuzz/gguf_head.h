// What fuzzers do to the head of a GGUF file (engines/llama/gguf_file.h, gguf_check.h): a small
// model is changed as the input says, or the input is the file, and what the reader lets through is
// read.
//
// Input:   any bytes. The first one says which: even, edits of the model; odd, the file's bytes.
// Found:   a sanitizer's report, or a value or tensor that is not within the file: the process
//          ends.
// Threads: any.
#ifndef ATTNDB_FUZZ_GGUF_HEAD_H_
#define ATTNDB_FUZZ_GGUF_HEAD_H_

#include <cstdint>
#include <span>

namespace attndb::fuzz {

enum class GgufVerdict : uint8_t { kNoGguf, kRefused, kTaken };  // By reader, check, none.
GgufVerdict FuzzGguf(std::span<const uint8_t> input);

}  // namespace attndb::fuzz

#endif  // ATTNDB_FUZZ_GGUF_HEAD_H_
