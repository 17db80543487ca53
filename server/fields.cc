#include "server/fields.h"

#include <cmath>

namespace attndb::server {

std::string PlaceOf(const std::string& place, size_t index) {
  return PlaceOf(place, std::to_string(index));
}

std::string EntryOf(const std::string& place, size_t index) {
  return place + "[" + std::to_string(index) + "]";
}

Status RefusedAt(const std::string& place, const std::string& why) {
  return Status::InvalidArgument("'" + place + "': " + why);
}

Status CheckObject(const Json& value, const std::string& place) {
  return value.is_object() ? Status::Ok() : WrongValue(place, "an object", value);
}

Result<std::string> NeededText(const Json& object, const std::string& place, const char* name) {
  const Json* const text = FindMember(object, name);
  if (text == nullptr || !text->is_string()) {
    return WrongValue(PlaceOf(place, name), "a text", text == nullptr ? Json() : *text);
  }
  return text->get<std::string>();
}

Result<std::string> TypeOf(const Json& object, const std::string& place) {
  ATTNDB_RETURN_IF_ERROR(CheckObject(object, place));
  return NeededText(object, place, "type");
}

Result<bool> FlagOf(const Json& object, const std::string& place, const char* name) {
  bool flag = false;
  ATTNDB_RETURN_IF_ERROR(ReadFlag(object, name, &flag, place));
  return flag;
}

Status ReadNumber(const Json& object, const char* name, double least, double most, float* value) {
  const Json* const json = FindMember(object, name);
  if (json == nullptr) return Status::Ok();
  const double number = json->is_number() ? json->get<double>() : std::nan("");
  if (!(number >= least && number <= most)) {
    return WrongValue(name, "a number from " + ToText(least) + " to " + ToText(most), *json);
  }
  *value = static_cast<float>(number);
  return Status::Ok();
}

Result<std::optional<uint64_t>> CountOf(const Json& object, const std::string& place,
                                        const char* name, uint64_t least, uint64_t most) {
  if (FindMember(object, name) == nullptr) return std::optional<uint64_t>();
  uint64_t count = 0;
  ATTNDB_RETURN_IF_ERROR(ReadCount(object, name, least, most, &count, place));
  return std::optional(count);
}

}  // namespace attndb::server
