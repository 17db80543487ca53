#include "common/json.h"

namespace attndb {

Json ParseJson(std::string_view text, const Json::parser_callback_t& callback) {
  return Json::parse(text.begin(), text.end(), callback, /*allow_exceptions=*/false);
}

bool ReadJsonEvents(std::string_view text, nlohmann::json_sax<Json>* events) {
  return Json::sax_parse(text.begin(), text.end(), events);
}

std::string DumpJson(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace attndb
