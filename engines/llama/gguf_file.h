// The head of a GGUF file, read without trust: keys with their values, and what tensors there are.
// llama.cpp ends the process over much of what can be wrong in one; this says what it is.
//
// Format:  GGUF versions 2 and 3 (github.com/ggml-org/ggml/blob/master/docs/gguf.md): a head, keys
//          with values, tensors with name, shape, type and offset, all little endian; the tensors'
//          bytes, aligned, back to back.
// Errors:  kInvalidArgument, naming file, field, what was expected and what was found.
// Threads: values; thread-compatible.
#ifndef ATTNDB_ENGINES_LLAMA_GGUF_FILE_H_
#define ATTNDB_ENGINES_LLAMA_GGUF_FILE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"

namespace attndb::llama {

enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// "uint32", "string", ...
std::string_view GgufTypeName(GgufType type);

// One value, or an array of values of one type. Points into the file's bytes.
struct GgufValue {
  GgufType type = GgufType::kUint8;  // Of the elements, if it is an array; never kArray.
  bool is_array = false;
  uint64_t count = 1;                // Of elements.
  std::span<const std::byte> bytes;  // Elements back to back; strings with 8 bytes of length first.

  bool is_integer() const;  // Not of bool.
  bool is_float() const { return type == GgufType::kFloat32 || type == GgufType::kFloat64; }
  bool Is(GgufType scalar) const { return !is_array && type == scalar; }

  // Element `i`; integers of any width, a uint64 above the range as the largest int64.
  // REQUIRES: i < count; is_integer() or bool for Integer, is_float() for Float.
  int64_t Integer(uint64_t i = 0) const;
  double Float(uint64_t i = 0) const;
  // All elements. REQUIRES: type is kString.
  std::vector<std::string_view> Strings() const;

  // "uint32", "array of string": for messages.
  std::string TypeName() const;
};

struct GgufTensor {
  std::string name;
  uint32_t num_dims = 0;
  std::array<uint64_t, 4> shape = {1, 1, 1, 1};  // The fastest dimension first; each at least 1.
  uint32_t type = 0;                             // A ggml_type that `forms` has.
  uint64_t offset = 0;                           // In the part of the file that holds tensors.
  uint64_t num_bytes = 0;
};

// How a type of tensors lies in memory. block_elements is 0 where there is no such type.
struct TensorForm {
  uint32_t block_elements = 0;
  uint32_t block_bytes = 0;
  bool is_weight = false;  // It can be multiplied with.
};

class GgufFile {
 public:
  // `bytes`: the whole file, which outlives this. `forms`: by ggml_type. `name`: for messages.
  static Result<GgufFile> Parse(std::span<const std::byte> bytes, std::span<const TensorForm> forms,
                                std::string name);

  const std::string& name() const { return name_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const std::map<std::string, GgufValue, std::less<>>& values() const { return values_; }

  // Where the tensors' bytes begin in the file; offsets count from here.
  uint64_t data_begin() const { return data_begin_; }

  // Null if there is none of this name.
  const GgufValue* Find(std::string_view key) const;
  const GgufTensor* FindTensor(std::string_view name) const;

  // The value of a string; "" if there is none.
  std::string_view Text(std::string_view key) const;

 private:
  explicit GgufFile(std::string name) : name_(std::move(name)) {}

  std::string name_;
  std::map<std::string, GgufValue, std::less<>> values_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, size_t, std::less<>> tensor_idx_;  // By name.
  uint64_t data_begin_ = 0;

  friend class GgufReader;
};

// "'PATH': FIELD is FOUND, expected EXPECTED; <what to do>".
Status DamagedGguf(std::string_view file, std::string_view field, std::string_view found,
                   std::string_view expected);

// Text of a file, as it is safe to print: at most 60 characters, others than ASCII as \xNN.
std::string QuoteBytes(std::string_view bytes);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_GGUF_FILE_H_
