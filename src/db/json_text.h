// JSON as both APIs write it: fields in order, bytes that are not UTF-8 as U+FFFD.
//
// Threads: stateless.
#ifndef ATTNDB_DB_JSON_TEXT_H_
#define ATTNDB_DB_JSON_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>

#include "attndb/stats.h"

namespace attndb::internal {

using Json = nlohmann::ordered_json;

inline std::string DumpJson(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

inline Json JsonOf(const LayerExplain& layer) {
  return {{"layer", layer.layer},
          {"plan", layer.plan},
          {"reason", layer.reason},
          {"num_tokens", layer.num_tokens},
          {"num_middle", layer.num_middle},
          {"predicted_selected", layer.predicted_selected},
          {"predicted_bytes", layer.predicted_bytes},
          {"num_queries", layer.num_queries},
          {"selected_mean", layer.selected_mean},
          {"candidates_mean", layer.candidates_mean},
          {"bytes_touched", layer.bytes_touched},
          {"append_us", layer.append_us},
          {"score_us", layer.score_us},
          {"select_us", layer.select_us},
          {"attend_us", layer.attend_us}};
}

}  // namespace attndb::internal

#endif  // ATTNDB_DB_JSON_TEXT_H_
