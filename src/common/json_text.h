// Writes JSON as text: fields in the order given, bytes that are not UTF-8 as U+FFFD.
//
//   JsonList list;
//   for (const Head& head : heads) list.Add(JsonObject({{"id", head.id}, {"plan", head.plan}}));
//   return JsonObject({{"name", name}, {"heads", list.Text()}}).text;
//
// The text is byte for byte that of nlohmann::ordered_json. This header includes no header of
// nlohmann's: a table of 13 fields takes 0.05 s to compile, and 2 s as a tree that is dumped.
//
// Threads: stateless; a JsonList belongs to one thread.
#ifndef ATTNDB_COMMON_JSON_TEXT_H_
#define ATTNDB_COMMON_JSON_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace attndb {

// A value that is written already.
struct JsonText {
  std::string text;
};

// A value to be written. Refers to texts and lists, which must outlive it. Its destructor is
// trivial, so the compiler emits no clean-up for the fields of a table.
class JsonValue {
 public:
  // NOLINTBEGIN(google-explicit-constructor): a field is written as {"name", value}.
  JsonValue(std::nullptr_t) : kind_(Kind::kNull), unsigned_(0) {}
  template <typename Number>
  requires(std::is_arithmetic_v<Number>) JsonValue(Number number) {
    if constexpr (std::is_same_v<Number, bool>) {
      kind_ = Kind::kBool;
      bool_ = number;
    } else if constexpr (std::is_floating_point_v<Number>) {
      kind_ = Kind::kReal;
      real_ = number;
    } else if constexpr (std::is_signed_v<Number>) {
      kind_ = Kind::kSigned;
      signed_ = number;
    } else {
      kind_ = Kind::kUnsigned;
      unsigned_ = number;
    }
  }
  JsonValue(std::string_view text) : kind_(Kind::kString), array_{text.data(), text.size()} {}
  JsonValue(const char* text) : JsonValue(std::string_view(text)) {}
  JsonValue(const std::string& text) : JsonValue(std::string_view(text)) {}
  JsonValue(const JsonText& json)
      : kind_(Kind::kText), array_{json.text.data(), json.text.size()} {}
  JsonValue(std::span<const uint64_t> list)
      : kind_(Kind::kSizes), array_{list.data(), list.size()} {}
  JsonValue(std::span<const double> list) : kind_(Kind::kReals), array_{list.data(), list.size()} {}
  JsonValue(std::span<const float> list) : kind_(Kind::kFloats), array_{list.data(), list.size()} {}
  JsonValue(std::span<const std::string> list)
      : kind_(Kind::kStrings), array_{list.data(), list.size()} {}
  template <typename T>
  JsonValue(const std::vector<T>& list) : JsonValue(std::span<const T>(list)) {}
  JsonValue(const std::map<std::string, uint64_t>& map) : kind_(Kind::kMap), map_(&map) {}
  // NOLINTEND(google-explicit-constructor)

  void AppendTo(std::string* text) const;

 private:
  enum class Kind : uint8_t {
    kNull,
    kBool,
    kSigned,
    kUnsigned,
    kReal,
    kString,
    kText,
    kSizes,
    kReals,
    kFloats,
    kStrings,
    kMap
  };
  struct Array {
    const void* data;
    size_t size;
  };

  template <typename T>
  std::span<const T> Items() const {
    return {static_cast<const T*>(array_.data), array_.size};
  }

  Kind kind_;
  // clang-tidy takes members of an anonymous union for public ones.
  // NOLINTBEGIN(readability-identifier-naming)
  union {
    bool bool_;
    int64_t signed_;
    uint64_t unsigned_;
    double real_;
    Array array_;
    const std::map<std::string, uint64_t>* map_;  // Not owned.
  };
  // NOLINTEND(readability-identifier-naming)
};

struct JsonField {
  std::string_view name;
  JsonValue value;
};

JsonText JsonObject(std::initializer_list<JsonField> fields);

// Writes a list item by item.
class JsonList {
 public:
  void Add(const JsonValue& value);
  JsonText Text() const { return {text_ + "]"}; }

 private:
  std::string text_ = "[";
};

// Writes an object field by field.
class JsonMembers {
 public:
  JsonMembers(std::initializer_list<JsonField> fields = {}) {
    for (const JsonField& field : fields) Add(field);
  }

  void Add(const JsonField& field);
  JsonText Text() const { return {text_ + "}"}; }

 private:
  std::string text_ = "{";
};

}  // namespace attndb

#endif  // ATTNDB_COMMON_JSON_TEXT_H_
