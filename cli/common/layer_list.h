// Layers of a model as people name them: "0,3,5-7".
//
// Errors:  kInvalidArgument naming the text and what is expected.
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_LAYER_LIST_H_
#define ATTNDB_CLI_COMMON_LAYER_LIST_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"

namespace attndb::cli {

// Numbers and ranges, ascending and each once; all of them below `num_layers`.
Result<std::vector<LayerId>> ParseLayers(std::string_view text, uint32_t num_layers);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_LAYER_LIST_H_
