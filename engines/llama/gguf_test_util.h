// GGUF files byte by byte, right or wrong, without ggml: what tests and fuzzers of the readers
// share.
//
// Threads: thread-compatible.
#ifndef ATTNDB_ENGINES_LLAMA_GGUF_TEST_UTIL_H_
#define ATTNDB_ENGINES_LLAMA_GGUF_TEST_UTIL_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/llama/gguf_file.h"

namespace attndb::llama {

// Values as they stand in a file: type and bytes.
std::string GgufUint32(uint32_t value);
std::string GgufInt32(int32_t value);
std::string GgufUint64(uint64_t value);
std::string GgufUint16(uint16_t value);
std::string GgufFloat32(float value);
std::string GgufBool(bool value);
std::string GgufText(std::string_view value);
std::string GgufTexts(std::span<const std::string> values);
std::string GgufUint32s(std::span<const uint32_t> values);
std::string GgufInt32s(std::span<const int32_t> values);
std::string GgufFloat32s(std::span<const float> values);

struct GgufParts {
  struct Tensor {
    std::string name;
    std::vector<uint64_t> shape;
    uint32_t type = 0;
    uint64_t offset = 0;
  };

  uint32_t version = 3;
  std::vector<std::pair<std::string, std::string>> values;  // Key, value as above.
  std::vector<Tensor> tensors;
  std::string data;  // Of all tensors.

  // The parts of a file. REQUIRES: `file` was read from `bytes`.
  static GgufParts Of(const GgufFile& file, std::string_view bytes);

  // Replaces the value, or appends it.
  void Set(std::string_view key, std::string value);
  void Remove(std::string_view key);
  // Appends a tensor of float32 zeros.
  void AddTensor(const std::string& name, std::vector<uint64_t> shape);

  std::string Bytes() const;
};

// A small decoder that is in order: two layers, a vocabulary of 16 tokens, four experts.
GgufParts SmallModel();

// Types 0 (float32), 1 (float16), 8 (blocks of 32) and 24 (int8) as ggml has them, for readers that
// are tried without ggml.
std::vector<TensorForm> FewTensorForms();

std::span<const std::byte> AsBytes(std::string_view text);

// Values that no such key should have, of its own type and of others, each with a name.
std::vector<std::pair<std::string, std::string>> HostileValues(const GgufValue& value);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_GGUF_TEST_UTIL_H_
