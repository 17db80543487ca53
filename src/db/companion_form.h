// A kind of companion that the background worker can write: what it is called, how large it is and
// how it is made of a segment.
//
// Threads: constant; thread-safe.
#ifndef ATTNDB_DB_COMPANION_FORM_H_
#define ATTNDB_DB_COMPANION_FORM_H_

#include <cstdint>
#include <functional>

#include "attndb/status.h"
#include "attndb/types.h"
#include "common/thread_pool.h"
#include "db/companion_files.h"
#include "storage/kv/companion_writer.h"
#include "storage/kv/segment.h"

namespace attndb::internal {

class CompanionForm {
 public:
  virtual ~CompanionForm() = default;

  virtual const CompanionKind& kind() const = 0;

  // Of the object that the segment makes, nearly: without heads that have nothing.
  virtual uint64_t ObjectBytes(const storage::Segment& segment) const = 0;

  // Adds all parts. Holds what is made of one head at a time; may use `pool` for it. `layer_done`
  // is called after each layer.
  // Errors: those of the segment and of the writer.
  virtual Status Write(const storage::Segment& segment, const ModelSpec& spec, ThreadPool* pool,
                       storage::CompanionWriter* writer,
                       const std::function<void(LayerId)>& layer_done) const = 0;
};

}  // namespace attndb::internal

#endif  // ATTNDB_DB_COMPANION_FORM_H_
