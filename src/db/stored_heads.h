// What every kind of companion does head by head: sizes, reading and writing.
//
// Threads: pure functions of what they are given.
#ifndef ATTNDB_DB_STORED_HEADS_H_
#define ATTNDB_DB_STORED_HEADS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "storage/kv/companion_writer.h"
#include "storage/kv/segment.h"

namespace attndb::internal {

// The sum over all kv heads of bytes_of(layer).
template <typename F>
uint64_t SumOverHeads(const storage::Segment& segment, const F& bytes_of) {
  uint64_t bytes = 0;
  for (LayerId layer = 0; layer < segment.shape().layers.size(); ++layer) {
    bytes += segment.shape().layers[layer].num_kv_heads * bytes_of(layer);
  }
  return bytes;
}

// By kv head, what read(kv_head), a Result<Head>, gives; or its first error.
template <typename Head, typename F>
Result<std::vector<Head>> ReadHeads(const storage::Segment& segment, LayerId layer, const F& read) {
  std::vector<Head> heads(segment.shape().layers[layer].num_kv_heads);
  for (uint32_t head = 0; head < heads.size(); ++head) {
    ATTNDB_ASSIGN_OR_RETURN(heads[head], read(head));
  }
  return heads;
}

// Adds the parts of all heads: of one that has something what begin(layer), called once a layer,
// adds for the kv head; of the others num_parts empty ones.
template <typename F>
Status WriteHeads(const storage::Segment& segment, const ModelSpec& spec, uint32_t num_parts,
                  storage::CompanionWriter* writer, const F& begin,
                  const std::function<void(LayerId)>& layer_done) {
  for (LayerId layer = 0; layer < spec.num_layers(); ++layer) {
    // No plan is looked at in a layer with a sliding window.
    const bool wanted = spec.layers[layer].sliding_window == 0;
    const auto write = begin(layer);
    for (uint32_t head = 0; head < spec.layers[layer].num_kv_heads; ++head) {
      if (wanted && !segment.non_finite(layer, head)) {
        ATTNDB_RETURN_IF_ERROR(write(head));
        continue;
      }
      for (uint32_t part = 0; part < num_parts; ++part) {
        ATTNDB_RETURN_IF_ERROR(writer->AddPart({}, 0));
      }
    }
    layer_done(layer);
  }
  return Status::Ok();
}

}  // namespace attndb::internal

#endif  // ATTNDB_DB_STORED_HEADS_H_
