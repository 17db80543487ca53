#include "engines/llama/gguf_file.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <utility>

namespace attndb::llama {
namespace {

constexpr uint32_t kVersionMin = 2;  // llama.cpp reads 2 and 3.
constexpr uint32_t kVersionMax = 3;
constexpr uint64_t kKeyBytesMax = 65535;   // As the format says.
constexpr uint64_t kTensorNameMax = 63;    // GGML_MAX_NAME with its end.
constexpr uint32_t kDimsMax = 4;           // GGML_MAX_DIMS
constexpr uint64_t kArrayMax = 1u << 30;   // Elements; llama.cpp's limit.
constexpr uint64_t kStringMax = 1u << 30;  // Bytes; llama.cpp's limit.
constexpr uint64_t kAlignment = 32;        // Where a file names none; what ggml's buffers need.
constexpr uint64_t kAlignmentMax = 1u << 20;
constexpr size_t kQuotedMax = 60;
constexpr const char* kAlignmentKey = "general.alignment";

constexpr std::array<std::string_view, 13> kTypeNames = {
    "uint8", "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
    "bool",  "string", "array",  "uint64", "int64",  "float64"};

// 0 of strings and arrays.
constexpr std::array<uint8_t, 13> kTypeBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

template <typename T>
T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

std::string Text(uint64_t number) { return std::to_string(number); }

}  // namespace

std::string_view GgufTypeName(GgufType type) { return kTypeNames[static_cast<size_t>(type)]; }

std::string QuoteBytes(std::string_view bytes) {
  std::string text;
  for (const char c : bytes.substr(0, kQuotedMax)) {
    if (c >= ' ' && c <= '~') {
      text += c;
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\x%02x", static_cast<unsigned char>(c));
      text += escaped;
    }
  }
  return bytes.size() > kQuotedMax ? text + "..." : text;
}

Status DamagedGguf(std::string_view file, std::string_view field, std::string_view found,
                   std::string_view expected) {
  std::string text = "'" + std::string(file) + "': ";
  text.append(field).append(" is ").append(found).append(", expected ").append(expected);
  text += ". The file is damaged, or its converter was wrong: download or convert it again";
  return Status::InvalidArgument(text);
}

bool GgufValue::is_integer() const {
  return type != GgufType::kString && type != GgufType::kBool && !is_float();
}

int64_t GgufValue::Integer(uint64_t i) const {
  const std::byte* const at = bytes.data() + i * kTypeBytes[static_cast<size_t>(type)];
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kBool:
      return Load<uint8_t>(at);
    case GgufType::kInt8:
      return Load<int8_t>(at);
    case GgufType::kUint16:
      return Load<uint16_t>(at);
    case GgufType::kInt16:
      return Load<int16_t>(at);
    case GgufType::kUint32:
      return Load<uint32_t>(at);
    case GgufType::kInt32:
      return Load<int32_t>(at);
    case GgufType::kUint64:
      return static_cast<int64_t>(
          std::min(Load<uint64_t>(at), uint64_t{std::numeric_limits<int64_t>::max()}));
    case GgufType::kInt64:
      return Load<int64_t>(at);
    case GgufType::kFloat32:
    case GgufType::kFloat64:
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return 0;
}

double GgufValue::Float(uint64_t i) const {
  if (type == GgufType::kFloat32) return double{Load<float>(bytes.data() + i * sizeof(float))};
  return Load<double>(bytes.data() + i * sizeof(double));
}

std::vector<std::string_view> GgufValue::Strings() const {
  std::vector<std::string_view> strings;
  strings.reserve(count);
  const std::byte* at = bytes.data();
  for (uint64_t i = 0; i < count; ++i) {
    const auto length = Load<uint64_t>(at);  // The reader checked it.
    strings.emplace_back(reinterpret_cast<const char*>(at + sizeof(length)), length);
    at += sizeof(length) + length;
  }
  return strings;
}

std::string GgufValue::TypeName() const {
  return (is_array ? "array of " : "") + std::string(GgufTypeName(type));
}

const GgufValue* GgufFile::Find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto found = tensor_idx_.find(name);
  return found == tensor_idx_.end() ? nullptr : &tensors_[found->second];
}

std::string_view GgufFile::Text(std::string_view key) const {
  const GgufValue* const value = Find(key);
  return value != nullptr && value->Is(GgufType::kString) ? value->Strings()[0] : "";
}

// Reads from the front to the back; what it has read is in bounds.
class GgufReader {
 public:
  GgufReader(std::span<const std::byte> bytes, std::span<const TensorForm> forms, std::string name)
      : bytes_(bytes), forms_(forms), file_(std::move(name)) {}

  Result<GgufFile> Read() {
    ATTNDB_RETURN_IF_ERROR(ReadMagic());
    ATTNDB_ASSIGN_OR_RETURN(const uint64_t num_tensors, Number<uint64_t>("number of tensors"));
    ATTNDB_ASSIGN_OR_RETURN(const uint64_t num_values, Number<uint64_t>("number of keys"));
    // A key with its value takes 13 bytes and more, a tensor 24: no need for a limit besides.
    for (uint64_t i = 0; i < num_values; ++i) ATTNDB_RETURN_IF_ERROR(ReadEntry(i));
    ATTNDB_RETURN_IF_ERROR(ReadAlignment());
    for (uint64_t i = 0; i < num_tensors; ++i) ATTNDB_RETURN_IF_ERROR(ReadTensor(i));
    file_.data_begin_ = Aligned(at_);
    ATTNDB_RETURN_IF_ERROR(CheckExtents());
    return std::move(file_);
  }

 private:
  uint64_t left() const { return bytes_.size() - at_; }

  Status Damaged(std::string_view field, std::string_view found, std::string_view expected) const {
    return DamagedGguf(file_.name_, field, found, expected);
  }

  Status Ends(std::string_view field) const {
    return Damaged(field, "cut off",
                   "a file that goes on after its " + Text(bytes_.size()) + " bytes");
  }

  template <typename T>
  Result<T> Number(std::string_view field) {
    if (left() < sizeof(T)) return Ends(field);
    const T value = Load<T>(bytes_.data() + at_);
    at_ += sizeof(T);
    return value;
  }

  Result<std::string_view> String(std::string_view field, uint64_t length_max) {
    ATTNDB_ASSIGN_OR_RETURN(const uint64_t length, Number<uint64_t>(field));
    if (length > length_max) {
      return Damaged(field, "a text of " + Text(length) + " bytes", "at most " + Text(length_max));
    }
    if (length > left()) return Ends(field);
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data() + at_), length);
    at_ += length;
    return text;
  }

  Status ReadMagic() {
    const size_t length = std::min<size_t>(bytes_.size(), 8);
    const std::string_view head(reinterpret_cast<const char*>(bytes_.data()), length);
    if (length < 8 || !head.starts_with("GGUF")) {
      return Status::InvalidArgument("'" + file_.name_ + "' is not a GGUF model: expected it to " +
                                     "begin with 'GGUF', found '" + QuoteBytes(head) + "'");
    }
    const auto version = Load<uint32_t>(bytes_.data() + 4);
    if (version < kVersionMin || version > kVersionMax) {
      return Status::InvalidArgument("'" + file_.name_ + "' is a GGUF of version " + Text(version) +
                                     ", expected 2 or 3");
    }
    at_ = 8;
    return Status::Ok();
  }

  Result<GgufType> ReadType(std::string_view field) {
    ATTNDB_ASSIGN_OR_RETURN(const uint32_t type, Number<uint32_t>(field));
    if (type >= kTypeNames.size()) return Damaged(field, "of type " + Text(type), "type 0 to 12");
    return static_cast<GgufType>(type);
  }

  Status ReadEntry(uint64_t i) {
    ATTNDB_ASSIGN_OR_RETURN(const std::string_view raw,
                            String("key " + Text(i) + "'s name", kKeyBytesMax));
    // llama.cpp takes names for C strings, so that "a" and "a\0b" would be the same.
    if (raw.empty() || raw.find('\0') != std::string_view::npos) {
      return Damaged("key " + Text(i) + "'s name", "'" + QuoteBytes(raw) + "'", "a text");
    }
    const std::string key(raw);
    const std::string shown = QuoteBytes(key);
    GgufValue value;
    ATTNDB_ASSIGN_OR_RETURN(value.type, ReadType(shown));
    value.is_array = value.type == GgufType::kArray;
    if (value.is_array) {
      ATTNDB_ASSIGN_OR_RETURN(value.type, ReadType(shown));
      ATTNDB_ASSIGN_OR_RETURN(value.count, Number<uint64_t>(shown));
      if (value.type == GgufType::kArray) {
        return Damaged(shown, "an array of arrays", "an array of values");
      }
    }
    ATTNDB_RETURN_IF_ERROR(ReadElements(shown, &value));
    if (!file_.values_.emplace(key, value).second) {
      return Damaged(shown, "there twice", "each key once");
    }
    return Status::Ok();
  }

  Status ReadElements(const std::string& key, GgufValue* value) {
    const size_t begin = at_;
    const uint64_t element_bytes = kTypeBytes[static_cast<size_t>(value->type)];
    const uint64_t least_bytes = element_bytes == 0 ? sizeof(uint64_t) : element_bytes;
    if (value->count > kArrayMax || value->count * least_bytes > left()) {
      if (!value->is_array) return Ends(key);
      return Damaged(key, "an array of " + Text(value->count) + " elements",
                     "at most what the file's " + Text(left()) + " bytes after it can hold");
    }
    if (value->type == GgufType::kString) {
      for (uint64_t i = 0; i < value->count; ++i) {
        ATTNDB_RETURN_IF_ERROR(String(key, kStringMax).status());
      }
    } else {
      at_ += value->count * element_bytes;
    }
    value->bytes = bytes_.subspan(begin, at_ - begin);
    return Status::Ok();
  }

  Status ReadAlignment() {
    const GgufValue* const value = file_.Find(kAlignmentKey);
    if (value == nullptr) return Status::Ok();
    if (!value->Is(GgufType::kUint32)) {
      return Damaged(kAlignmentKey, "of type " + value->TypeName(), "uint32");
    }
    alignment_ = static_cast<uint64_t>(value->Integer());
    if (alignment_ < kAlignment || alignment_ > kAlignmentMax ||
        (alignment_ & (alignment_ - 1)) != 0) {
      return Damaged(kAlignmentKey, Text(alignment_), "a power of two from 32 to 1048576");
    }
    return Status::Ok();
  }

  Status ReadTensor(uint64_t i) {
    GgufTensor tensor;
    const std::string nth = "tensor " + Text(i);
    ATTNDB_ASSIGN_OR_RETURN(const std::string_view raw, String(nth + "'s name", kTensorNameMax));
    tensor.name = std::string(raw);
    if (raw.empty() || raw.find('\0') != std::string_view::npos) {
      return Damaged(nth + "'s name", "'" + QuoteBytes(raw) + "'", "a text");
    }
    const std::string field = "tensor '" + QuoteBytes(raw) + "'";
    ATTNDB_ASSIGN_OR_RETURN(tensor.num_dims, Number<uint32_t>(field));
    if (tensor.num_dims < 1 || tensor.num_dims > kDimsMax) {
      return Damaged(field, "of " + Text(tensor.num_dims) + " dimensions", "1 to 4");
    }
    for (uint32_t d = 0; d < tensor.num_dims; ++d) {
      ATTNDB_ASSIGN_OR_RETURN(tensor.shape[d], Number<uint64_t>(field));
    }
    ATTNDB_ASSIGN_OR_RETURN(tensor.type, Number<uint32_t>(field));
    ATTNDB_ASSIGN_OR_RETURN(tensor.offset, Number<uint64_t>(field));
    ATTNDB_RETURN_IF_ERROR(MeasureTensor(field, &tensor));
    if (!file_.tensor_idx_.emplace(tensor.name, file_.tensors_.size()).second) {
      return Damaged(field, "there twice", "each tensor once");
    }
    file_.tensors_.push_back(std::move(tensor));
    return Status::Ok();
  }

  // Fills in num_bytes; sizes that overflow are larger than any file.
  Status MeasureTensor(const std::string& field, GgufTensor* tensor) const {
    if (tensor->type >= forms_.size() || forms_[tensor->type].block_elements == 0) {
      return Damaged(field, "of type " + Text(tensor->type), "a type that llama.cpp knows");
    }
    const TensorForm& form = forms_[tensor->type];
    uint64_t num_elements = 1;
    for (const uint64_t size : tensor->shape) {
      if (size == 0 || size > bytes_.size() * form.block_elements ||
          num_elements > bytes_.size() * form.block_elements / size) {
        return Damaged(field, "of shape " + ShapeText(*tensor),
                       "what the file's " + Text(bytes_.size()) + " bytes can hold");
      }
      num_elements *= size;
    }
    if (tensor->shape[0] % form.block_elements != 0) {
      return Damaged(field, "of shape " + ShapeText(*tensor),
                     "a first dimension in multiples of " + Text(form.block_elements));
    }
    tensor->num_bytes = num_elements / form.block_elements * form.block_bytes;
    return Status::Ok();
  }

  static std::string ShapeText(const GgufTensor& tensor) {
    std::string text;
    for (uint32_t d = 0; d < tensor.num_dims; ++d) {
      text += (d == 0 ? "" : " x ") + Text(tensor.shape[d]);
    }
    return text;
  }

  uint64_t Aligned(uint64_t size) const {
    return (size + alignment_ - 1) / alignment_ * alignment_;
  }

  // Each tensor begins where the one before it ends, and the last ends in the file.
  Status CheckExtents() const {
    const uint64_t begin = file_.data_begin_;
    uint64_t offset = 0;
    for (const GgufTensor& tensor : file_.tensors_) {
      const std::string field = "tensor '" + QuoteBytes(tensor.name) + "'";
      if (tensor.offset != offset) {
        return Damaged(field, "at offset " + Text(tensor.offset),
                       Text(offset) + ", where the one before it ends");
      }
      if (begin > bytes_.size() || tensor.num_bytes > bytes_.size() - begin ||
          offset > bytes_.size() - begin - tensor.num_bytes) {
        return Damaged(field, "not within the file",
                       "a file of at least " + Text(begin + offset + tensor.num_bytes) +
                           " bytes, not " + Text(bytes_.size()));
      }
      offset += Aligned(tensor.num_bytes);
    }
    return Status::Ok();
  }

  std::span<const std::byte> bytes_;
  std::span<const TensorForm> forms_;
  GgufFile file_;
  size_t at_ = 0;  // At most the file's size.
  uint64_t alignment_ = kAlignment;
};

Result<GgufFile> GgufFile::Parse(std::span<const std::byte> bytes,
                                 std::span<const TensorForm> forms, std::string name) {
  return GgufReader(bytes, forms, std::move(name)).Read();
}

}  // namespace attndb::llama
