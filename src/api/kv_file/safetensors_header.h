// The header of a safetensors file: JSON text from and to names, types, shapes and places.
//
// Hostile: the input may come from anyone. The text is read once and never held as a tree; counts
//          and lengths are limited during the read; sizes are multiplied with overflow checks.
//          Tensors must cover the data from its first byte to its last, without gaps or overlap.
//
// Errors:  kInvalidArgument naming the tensor or field, what is expected and what was found.
// Threads: pure functions.
// Source:  the format as huggingface/safetensors 0.8 writes and checks it.
#ifndef ATTNDB_API_KV_FILE_SAFETENSORS_HEADER_H_
#define ATTNDB_API_KV_FILE_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"

namespace attndb::internal {

inline constexpr uint64_t kSafetensorsLengthBytes = 8;  // In front of the header: its length.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // "F32", "I64", ...
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // Bytes from the first one behind the header.
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsEntry> tensors;  // In the order of the data.
};

// Bytes of an element; 0 for an unknown type.
uint64_t SafetensorsElementBytes(std::string_view dtype);

// For example "[2, 3]".
std::string ShapeText(const std::vector<uint64_t>& shape);

// `json` is the header without its length; `data_bytes` is the size of the rest of the file.
Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, uint64_t data_bytes);

// Returns length and text, padded with spaces to a multiple of 8.
// REQUIRES: the tensors cover the data.
// Errors: kInvalidArgument: a name, or a text of the metadata, is not UTF-8.
Result<std::string> FormatSafetensorsHeader(const SafetensorsHeader& header);

}  // namespace attndb::internal

#endif  // ATTNDB_API_KV_FILE_SAFETENSORS_HEADER_H_
