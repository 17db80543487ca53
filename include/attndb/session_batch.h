// Many sessions of one model whose steps run in one forward (continuous batching).
//
//   SessionBatch batch({{&a, 1}, {&b, 1}, {&c, 200}});
//   // For each layer, on each of the engine's threads:
//   batch.AppendPart(layer, k, v, thread, num_threads);
//   // ... once all threads have returned:
//   batch.AttendPart(layer, q, out, nullptr, thread, num_threads);
//   // ... once all threads have returned: the next layer. In the end, batch.status(i).
//
// Shapes:  as attndb/session.h has them: the rows of k, v, q and out are those of entry 0, num_rows
//          of them, then those of entry 1, ...
// Order:   the sessions' calls of a layer are one queue that all threads work off: what is in
//          memory first, so that a session that waits for the disk holds up none of the others'
//          work, then the longest.
// Errors:  of a session: status tells; it is left out of the layers to come, its rows of out are
//          zero, and the others go on. The calls themselves fail on what concerns all:
//          kInvalidArgument (part; shapes that are not those of all rows); kFailedPrecondition
//          (a layer's parts have all been called: a batch is one step).
// Bits:    a session's output does not depend on its neighbours, and under `full`, which prompts
//          and dense layers run, on nothing but its own tokens: attndb/session.h.
// Threads: the parts of one call by any number of threads, at the same time or one after another;
//          no call begins before all parts of the one before have returned. Sessions outlive it,
//          and nobody else uses them meanwhile.
#ifndef ATTNDB_SESSION_BATCH_H_
#define ATTNDB_SESSION_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "attndb/export.h"
#include "attndb/session.h"
#include "attndb/status.h"
#include "attndb/tensor_view.h"
#include "attndb/types.h"

namespace attndb {

// One step: the next has a batch of its own.
class ATTNDB_EXPORT SessionBatch {
 public:
  struct Entry {
    Session* session = nullptr;
    int64_t num_rows = 0;
  };

  // REQUIRES: no session twice; num_rows >= 1.
  explicit SessionBatch(std::span<const Entry> entries);
  SessionBatch(SessionBatch&&) noexcept;
  SessionBatch& operator=(SessionBatch&&) noexcept;
  ~SessionBatch();

  // Appends the rows of some of the sessions: all, once each part has been here.
  Status AppendPart(LayerId layer, const TensorView& k, const TensorView& v, uint32_t part,
                    uint32_t num_parts);
  // Works off some of the sessions' calls. `lse` may be null; rows of it as those of out.
  Status AttendPart(LayerId layer, const TensorView& q, const MutableTensorView& out, float* lse,
                    uint32_t part, uint32_t num_parts);

  // All parts of AttendPart, by DBOptions::num_threads of the first session's DB.
  Status Attend(LayerId layer, const TensorView& q, const MutableTensorView& out,
                float* lse = nullptr);

  size_t size() const;
  // How an entry fared up to now: Ok, or its first error, those of Session::Append and Attend.
  Status status(size_t entry) const;
  // Whether no session is left that has not failed.
  bool all_failed() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;  // Null only after a move.
};

// One step of one layer for sessions whose k and v were appended before; as SessionBatch::Attend.
// Each session gets what AttendPart on it would give, in as many parts as its size is worth.
// Errors: kInvalidArgument (numbers of rows; shapes); of sessions: `statuses` gets one for each of
//         them; where that is null, the first error is the call's, and the others are complete.
ATTNDB_EXPORT Status AttendBatch(std::span<Session* const> sessions,
                                 std::span<const int64_t> num_rows, LayerId layer,
                                 const TensorView& q, const MutableTensorView& out,
                                 float* lse = nullptr, std::vector<Status>* statuses = nullptr);

}  // namespace attndb

#endif  // ATTNDB_SESSION_BATCH_H_
