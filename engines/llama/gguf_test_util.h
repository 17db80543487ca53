// GGUF files byte by byte, right or wrong, and what plain llama.cpp does with them: what tests of
// the checks share.
//
// Threads: one thread.
#ifndef ATTNDB_ENGINES_LLAMA_GGUF_TEST_UTIL_H_
#define ATTNDB_ENGINES_LLAMA_GGUF_TEST_UTIL_H_

#include <cstdint>
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
  std::string data;  // The bytes of all tensors.

  static GgufParts Of(const GgufFile& file);

  // Replaces the value, or appends it.
  void Set(std::string_view key, std::string value);
  void Remove(std::string_view key);
  // Makes zeros of this shape and type of the tensors whose name ends with `ending`.
  // REQUIRES: there is one.
  void Replace(std::string_view ending, const std::vector<uint64_t>& shape, uint32_t type = 0);

  std::string Bytes() const;
};

// How plain llama.cpp ends, in a child process, that loads a model (and an adapter, if that is not
// ""), makes tokens of a text and texts of tokens, and runs nine tokens.
enum class PlainEnd : uint8_t {
  kRan,
  kRefused,  // An error of its own.
  kDied,     // By a signal, or after 30 seconds.
  kWrong,    // Its logits are not numbers.
};
struct PlainTrial {
  PlainEnd end;
  std::string words;  // What the child wrote last.
};
PlainTrial TryPlainLlama(const std::string& model, const std::string& adapter);

// Values that key `id` should not have, of its own type and of others, each with a name.
std::vector<std::pair<std::string, std::string>> HostileValues(const GgufFile& file, int64_t id);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_GGUF_TEST_UTIL_H_
