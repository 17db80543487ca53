#include "common/json_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "common/json.h"

namespace attndb {
namespace {

constexpr size_t kMaxNumberBytes = 64;

template <typename Number>
void AppendWhole(Number number, std::string* text) {
  std::array<char, kMaxNumberBytes> digits;
  const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  text->append(digits.data(), static_cast<size_t>(end - digits.data()));
}

// Writes nlohmann's digits, not the standard library's: "1.0" and "1e-05", as files have them.
void AppendReal(double number, std::string* text) {
  if (!std::isfinite(number)) {
    text->append("null");
    return;
  }
  std::array<char, kMaxNumberBytes> digits;
  const char* const end =
      nlohmann::detail::to_chars(digits.data(), digits.data() + digits.size(), number);
  text->append(digits.data(), static_cast<size_t>(end - digits.data()));
}

void AppendString(std::string_view string, std::string* text) {
  text->append(DumpJson(Json(std::string(string))));
}

template <typename Items, typename AppendItem>
void AppendList(const Items& items, std::string* text, AppendItem append) {
  text->push_back('[');
  bool is_first = true;
  for (const auto& item : items) {
    if (!std::exchange(is_first, false)) text->push_back(',');
    append(item, text);
  }
  text->push_back(']');
}

}  // namespace

void JsonValue::AppendTo(std::string* text) const {
  switch (kind_) {
    case Kind::kNull:
      text->append("null");
      break;
    case Kind::kBool:
      text->append(bool_ ? "true" : "false");
      break;
    case Kind::kSigned:
      AppendWhole(signed_, text);
      break;
    case Kind::kUnsigned:
      AppendWhole(unsigned_, text);
      break;
    case Kind::kReal:
      AppendReal(real_, text);
      break;
    case Kind::kString:
      AppendString({static_cast<const char*>(array_.data), array_.size}, text);
      break;
    case Kind::kText:
      text->append(static_cast<const char*>(array_.data), array_.size);
      break;
    case Kind::kSizes:
      AppendList(Items<uint64_t>(), text, AppendWhole<uint64_t>);
      break;
    case Kind::kReals:
      AppendList(Items<double>(), text, AppendReal);
      break;
    case Kind::kFloats:
      AppendList(Items<float>(), text, AppendReal);
      break;
    case Kind::kStrings:
      AppendList(Items<std::string>(), text, AppendString);
      break;
    case Kind::kMap: {
      JsonMembers members;
      for (const auto& [name, value] : *map_) members.Add({name, value});
      text->append(members.Text().text);
      break;
    }
  }
}

JsonText JsonObject(std::initializer_list<JsonField> fields) { return JsonMembers(fields).Text(); }

void JsonList::Add(const JsonValue& value) {
  if (text_.size() > 1) text_.push_back(',');
  value.AppendTo(&text_);
}

void JsonMembers::Add(const JsonField& field) {
  if (text_.size() > 1) text_.push_back(',');
  AppendString(field.name, &text_);
  text_.push_back(':');
  field.value.AppendTo(&text_);
}

}  // namespace attndb
