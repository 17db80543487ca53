// The specs of a model's layers as JSON text, with the field names of types.h.
//
//   [{"num_q_heads": 9, "num_kv_heads": 3, "head_dim": 64, "rope_layout": "half", ...}, ...]
//
// One object instead of a list says that all layers are alike.
//
// Errors:  kInvalidArgument naming layer and field: an unknown, missing or repeated field, a value
//          of another type or beyond its type. What the values mean, ModelSpec::Validate checks.
// Threads: pure functions.
#ifndef ATTNDB_API_KV_FILE_LAYER_SPEC_JSON_H_
#define ATTNDB_API_KV_FILE_LAYER_SPEC_JSON_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"

namespace attndb::internal {

// Parses the specs of `num_layers` layers; nullopt: as many as the list has.
Result<std::vector<LayerSpec>> ParseLayerSpecs(std::string_view json,
                                               std::optional<uint64_t> num_layers);

// One object if all layers are alike, else a list.
std::string FormatLayerSpecs(std::span<const LayerSpec> layers);

}  // namespace attndb::internal

#endif  // ATTNDB_API_KV_FILE_LAYER_SPEC_JSON_H_
