// JSON texts of the C API's results that have no ToJson of their own. Field names are those of the
// C++ structs; times stay microseconds. Bytes that are not UTF-8 become U+FFFD.
//
// Threads: stateless.
#ifndef ATTNDB_API_C_API_JSON_H_
#define ATTNDB_API_C_API_JSON_H_

#include <span>
#include <string>

#include "attndb/find.h"
#include "attndb/stats.h"
#include "attndb/types.h"

namespace attndb::internal {

std::string ToJson(const ContextInfo& context);
std::string ToJson(std::span<const ContextInfo> contexts);  // An array.
std::string ToJson(const LayerExplain& layer);
std::string ToJson(const FindResult& found);
std::string ToJson(const RoomReport& report);
std::string ToJson(const VerifyReport& report);
std::string ToJson(const BuildReport& report);
std::string ToJson(const ModelSpec& spec);

}  // namespace attndb::internal

#endif  // ATTNDB_API_C_API_JSON_H_
