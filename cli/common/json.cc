#include "cli/common/json.h"

#include <utility>

namespace attndb::cli {

Json JsonValue::Tree() const {
  switch (kind_) {
    case Kind::kBool:
      return bool_;
    case Kind::kSigned:
      return signed_;
    case Kind::kUnsigned:
      return unsigned_;
    case Kind::kReal:
      return real_;
    case Kind::kText:
      return text_;
    case Kind::kTexts:
      return *texts_;
    case Kind::kTree:
      return *tree_;
  }
  return nullptr;
}

Json JsonObject(std::initializer_list<JsonField> fields) {
  Json object = Json::object();
  for (const JsonField& field : fields) object[field.name] = field.value.Tree();
  return object;
}

std::optional<Json> ReadJson(std::string_view text) {
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  return json.is_discarded() ? std::nullopt : std::make_optional(std::move(json));
}

Json ReadOwnJson(std::string_view text) { return Json::parse(text.begin(), text.end()); }

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace attndb::cli
