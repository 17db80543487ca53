#include "api/kv_file/safetensors_header.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <tuple>
#include <utility>

#include "common/checked_math.h"
#include "common/coding.h"
#include "common/json.h"
#include "common/json_text.h"
#include "common/quote.h"
#include "common/utf8.h"

namespace attndb::internal {
namespace {

constexpr std::string_view kMetadataName = "__metadata__";

// Enough for the largest model that ModelSpec takes; far below harmful sizes.
constexpr size_t kMaxTensors = 4096;
constexpr size_t kMaxMetadata = 256;
constexpr size_t kMaxNameBytes = 256;
constexpr size_t kMaxValueBytes = size_t{4} << 20;
constexpr size_t kMaxDims = 8;

// Takes the header's text as events, and refuses invalid ones.
class HeaderHandler final : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderHandler(SafetensorsHeader* header) : header_(header) {}

  const Status& status() const { return status_; }

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("true or false"); }
  bool number_integer(number_integer_t value) override { return Unexpected(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override {
    return Unexpected(Quoted(text));
  }
  bool binary(binary_t&) override { return Unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::kOffsets && num_offsets_ < 2) {
      (num_offsets_++ == 0 ? tensor_.begin : tensor_.end) = value;
      return true;
    }
    if (place_ == Place::kOffsets) return Fail("data_offsets has more than 2 numbers");
    if (place_ != Place::kShape) return Unexpected(std::to_string(value));
    if (tensor_.shape.size() == kMaxDims) {
      return Fail("shape has more than " + std::to_string(kMaxDims) + " numbers");
    }
    tensor_.shape.push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      if (value.size() > kMaxValueBytes) return TooLong("value of " + Quoted(key_), value.size());
      header_->metadata[key_] = std::move(value);
      return true;
    }
    if (place_ != Place::kTensor || key_ != "dtype") return Unexpected("the text " + Quoted(value));
    tensor_.dtype = value;
    return true;
  }

  bool start_object(size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop && key_ == kMetadataName) {
      place_ = Place::kMetadata;
    } else if (place_ == Place::kTop) {
      if (header_->tensors.size() == kMaxTensors) {
        return Fail("has more than " + std::to_string(kMaxTensors) + " tensors");
      }
      tensor_ = {.name = key_};
      fields_.clear();
      place_ = Place::kTensor;
    } else {
      return Unexpected("an object");
    }
    return true;
  }

  bool key(string_t& key) override {
    if (key.size() > kMaxNameBytes) return TooLong("name", key.size());
    key_ = key;
    switch (place_) {
      case Place::kTop:
        return names_.insert(key).second || Fail("has " + Quoted(key) + " twice");
      case Place::kMetadata:
        if (header_->metadata.size() == kMaxMetadata) {
          return Fail("has more than " + std::to_string(kMaxMetadata) + " keys");
        }
        return header_->metadata.emplace(key, "").second || Fail("has " + Quoted(key) + " twice");
      default:
        if (key != "dtype" && key != "shape" && key != "data_offsets") {
          return Fail("has the unknown field " + Quoted(key));
        }
        return fields_.insert(key).second || Fail("has " + key + " twice");
    }
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      for (const char* field : {"dtype", "shape", "data_offsets"}) {
        if (!fields_.contains(field)) return Fail(std::string("has no ") + field);
      }
      header_->tensors.push_back(std::move(tensor_));
    }
    place_ = place_ == Place::kTop ? Place::kEnd : Place::kTop;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::kTensor || key_ == "dtype") return Unexpected("an array");
    place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
    num_offsets_ = 0;
    return true;
  }

  bool end_array() override {
    if (place_ == Place::kOffsets && num_offsets_ != 2) {
      return Fail("data_offsets has " + std::to_string(num_offsets_) + " numbers, expected 2");
    }
    place_ = Place::kTensor;
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    place_ = Place::kStart;
    return Fail("is no valid JSON at byte " + std::to_string(position));
  }

 private:
  enum class Place { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };

  bool Fail(const std::string& message) {
    std::string where = "header";
    if (place_ == Place::kMetadata) where = kMetadataName;
    if (place_ == Place::kTensor || place_ == Place::kShape || place_ == Place::kOffsets) {
      where = "tensor " + Quoted(tensor_.name);
    }
    status_ = Status::InvalidArgument(where + " " + message);
    return false;
  }
  bool TooLong(const std::string& what, size_t num_bytes) {
    return Fail("has a " + what + " of " + std::to_string(num_bytes) + " bytes");
  }
  bool Unexpected(const std::string& found) {
    switch (place_) {
      case Place::kStart:
        return Fail("is " + found + ", expected an object");
      case Place::kShape:
      case Place::kOffsets:
        return Fail((place_ == Place::kShape ? "shape has " : "data_offsets has ") + found +
                    ", expected whole numbers of 0 or more");
      case Place::kTensor:
        return Fail(key_ + " is " + found + ", expected " +
                    (key_ == "dtype" ? "a text" : "an array of numbers"));
      case Place::kMetadata:
        return Fail("has " + Quoted(key_) + " as " + found + ", expected a text");
      default:
        return Fail("has " + Quoted(key_) + " as " + found + ", expected an object");
    }
  }

  SafetensorsHeader* const header_;
  Status status_;
  Place place_ = Place::kStart;
  std::string key_;  // Key whose value comes next.
  std::set<std::string> names_;
  std::set<std::string> fields_;  // Fields of tensor_ that were there.
  SafetensorsEntry tensor_;
  size_t num_offsets_ = 0;
};

Status CheckEntry(const SafetensorsEntry& entry) {
  const uint64_t element_bytes = SafetensorsElementBytes(entry.dtype);
  const std::string where = "tensor " + Quoted(entry.name);
  if (element_bytes == 0) {
    return Status::InvalidArgument(where + " has the unknown dtype " + Quoted(entry.dtype));
  }
  CheckedSize num_bytes = element_bytes;
  for (const uint64_t size : entry.shape) num_bytes = CheckedMul(num_bytes, size);
  if (!num_bytes) {
    return Status::InvalidArgument(where + " has shape " + ShapeText(entry.shape) +
                                   ", beyond 2^64 bytes");
  }
  if (entry.begin > entry.end || entry.end - entry.begin != *num_bytes) {
    return Status::InvalidArgument(where + " has bytes [" + std::to_string(entry.begin) + ", " +
                                   std::to_string(entry.end) + "), expected " +
                                   std::to_string(*num_bytes) + " bytes for " + entry.dtype + " " +
                                   ShapeText(entry.shape));
  }
  return Status::Ok();
}

// JSON holds UTF-8 only: other bytes would be written as U+FFFD, and read as another text.
Status CheckUtf8(const SafetensorsHeader& header) {
  const auto not_utf8 = [](const std::string& what) {
    return Status::InvalidArgument(what + " is not UTF-8");
  };
  for (const auto& [key, value] : header.metadata) {
    if (!IsUtf8(key)) return not_utf8("the key " + Quoted(key) + " of __metadata__");
    if (!IsUtf8(value)) return not_utf8("__metadata__: the value of " + Quoted(key));
  }
  for (const SafetensorsEntry& entry : header.tensors) {
    if (!IsUtf8(entry.name)) return not_utf8("the name of tensor " + Quoted(entry.name));
  }
  return Status::Ok();
}

}  // namespace

std::string ShapeText(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (const uint64_t size : shape) text += (text == "[" ? "" : ", ") + std::to_string(size);
  return text + "]";
}

uint64_t SafetensorsElementBytes(std::string_view dtype) {
  constexpr std::array<std::pair<std::string_view, uint64_t>, 14> kTypes = {{{"BOOL", 1},
                                                                             {"U8", 1},
                                                                             {"I8", 1},
                                                                             {"F8_E4M3", 1},
                                                                             {"F8_E5M2", 1},
                                                                             {"U16", 2},
                                                                             {"I16", 2},
                                                                             {"F16", 2},
                                                                             {"BF16", 2},
                                                                             {"U32", 4},
                                                                             {"I32", 4},
                                                                             {"F32", 4},
                                                                             {"I64", 8},
                                                                             {"F64", 8}}};
  for (const auto& [name, bytes] : kTypes) {
    if (name == dtype) return bytes;
  }
  return 0;
}

Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, uint64_t data_bytes) {
  // The parser takes one for the end of the text.
  if (json.find('\0') != std::string_view::npos) {
    return Status::InvalidArgument("header is no valid JSON: it has a NUL");
  }
  SafetensorsHeader header;
  HeaderHandler handler(&header);
  if (!ReadJsonEvents(json, &handler)) return handler.status();
  std::sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t next = 0;
  for (const SafetensorsEntry& entry : header.tensors) {
    ATTNDB_RETURN_IF_ERROR(CheckEntry(entry));
    if (entry.begin != next) {
      return Status::InvalidArgument("tensor " + Quoted(entry.name) + " begins at byte " +
                                     std::to_string(entry.begin) + " of the data, expected " +
                                     std::to_string(next) + ", where the one before it ends");
    }
    next = entry.end;
  }
  if (next != data_bytes) {
    return Status::InvalidArgument("the tensors take " + std::to_string(next) +
                                   " bytes, but the file has " + std::to_string(data_bytes) +
                                   " behind its header");
  }
  return header;
}

Result<std::string> FormatSafetensorsHeader(const SafetensorsHeader& header) {
  ATTNDB_RETURN_IF_ERROR(CheckUtf8(header));
  JsonMembers json;
  if (!header.metadata.empty()) {
    JsonMembers metadata;
    for (const auto& [name, value] : header.metadata) metadata.Add({name, value});
    json.Add({kMetadataName, metadata.Text()});
  }
  for (const SafetensorsEntry& entry : header.tensors) {
    const uint64_t offsets[] = {entry.begin, entry.end};
    json.Add({entry.name, JsonObject({{"dtype", entry.dtype},
                                      {"shape", entry.shape},
                                      {"data_offsets", std::span<const uint64_t>(offsets)}})});
  }
  std::string text = json.Text().text;
  text.resize(RoundUp(text.size(), 8), ' ');
  ByteWriter length;
  length.U64(text.size());
  return std::string(reinterpret_cast<const char*>(length.bytes().data()), length.size()) + text;
}

}  // namespace attndb::internal
