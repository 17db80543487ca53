// Key planes of segments: made from K, written as companion objects, and read back.
//
// Threads: stateless.
#ifndef ATTNDB_DB_STORED_PLANES_H_
#define ATTNDB_DB_STORED_PLANES_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "common/aligned_buffer.h"
#include "db/companion_files.h"
#include "index/planes/key_planes.h"
#include "storage/kv/companion.h"
#include "storage/kv/companion_writer.h"
#include "storage/kv/segment.h"

namespace attndb::internal {

// The companion: parts "main", "low" and "signs" of docs/formats/key_planes.md.
const CompanionKind& KeyPlanesKind();

// Of one kv head. Moving it keeps the addresses of its parts.
struct HeadPlanes {
  index::KeyPlanes planes;  // Of no keys: the head has none, K is scanned.
  // Where the parts lie, if they were read and not built.
  AlignedBuffer main;
  AlignedBuffer low;
  AlignedBuffer signs;
};

// Memory that the planes of a layer take, built or read.
uint64_t PlaneMemoryBytes(const storage::Segment& segment, LayerId layer);

// Of the object that the planes of the segment make, nearly: without heads that have none.
uint64_t PlaneObjectBytes(const storage::Segment& segment);

// By kv head. Errors: kResourceExhausted.
Result<std::vector<HeadPlanes>> BuildLayerPlanes(const storage::Segment& segment, LayerId layer,
                                                 const LayerSpec& spec,
                                                 const storage::LayerPin& pin);
// Errors: kCorruption, kUnsupported, kIoError, kResourceExhausted.
Result<std::vector<HeadPlanes>> ReadLayerPlanes(const storage::Companion& companion,
                                                const storage::Segment& segment, LayerId layer);

// Adds all parts. Holds K and planes of one head at a time. `layer_done` is called after each.
// Errors: those of the segment and of the writer.
Status WritePlanes(const storage::Segment& segment, const ModelSpec& spec,
                   storage::CompanionWriter* writer,
                   const std::function<void(LayerId)>& layer_done);

}  // namespace attndb::internal

#endif  // ATTNDB_DB_STORED_PLANES_H_
