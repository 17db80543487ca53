#include "server/anthropic/cache_marks.h"

#include <algorithm>

#include "server/fields.h"

namespace attndb::server {

Status CacheMarks::Take(const Json& object, const std::string& place) {
  constexpr uint64_t kFiveMinutes = 300;
  constexpr uint64_t kOneHour = 3600;
  const Json* const mark = FindMember(object, "cache_control");
  if (mark == nullptr) return Status::Ok();
  const std::string at = PlaceOf(place, "cache_control");
  ATTNDB_RETURN_IF_ERROR(CheckObject(*mark, at));
  const Json* const type = FindMember(*mark, "type");
  if (type == nullptr || *type != "ephemeral") {
    return WrongValue(PlaceOf(at, "type"), "ephemeral", type == nullptr ? Json() : *type);
  }
  const Json* const ttl = FindMember(*mark, "ttl");
  if (ttl != nullptr && *ttl != "5m" && *ttl != "1h") {
    return WrongValue(PlaceOf(at, "ttl"), "5m or 1h", *ttl);
  }
  const bool is_long = ttl != nullptr && *ttl == "1h";
  min_ttl_seconds_ = std::max(min_ttl_seconds_, is_long ? kOneHour : kFiveMinutes);
  return Status::Ok();
}

}  // namespace attndb::server
