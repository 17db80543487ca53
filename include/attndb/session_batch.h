// Many sessions of one model whose steps run in one forward (continuous batching).
//
//   SessionBatch batch({{&a, 1}, {&b, 1}, {&c, 200}});
//   // For each layer, on each of the engine's threads:
//   batch.AppendPart(layer, k, v, thread, num_threads);
//   // ... once all threads have returned:
//   batch.AttendPart(layer, q, out, nullptr, thread, num_threads);
//   // ... once all threads have returned: the next layer. In the end, batch.status(i).
//
// Shapes:  as in attndb/session.h. The first num_rows rows of k, v, q and out are those of entry 0,
//          followed by the rows of entry 1, ...
// Order:   all threads work off one queue of the sessions' calls in a layer. Sessions in memory
//          come first, so that a session that waits for the disk delays no other. Among these the
//          longest comes first.
// Errors:  status(i) tells the error of a session. A failed session is left out of later layers,
//          its rows of out are zero, and the others continue. A call itself fails only on errors
//          that concern all sessions: kInvalidArgument (part; shapes that are not those of all
//          rows); kFailedPrecondition (a layer's parts have all been called: a batch is one step).
// Bits:    a session's output does not depend on its neighbours. Under `full`, which prompts and
//          dense layers run, it depends only on its own tokens: attndb/session.h.
// Threads: any number of threads call the parts of one call, in parallel or one after another. No
//          call begins before all parts of the previous call have returned. The sessions outlive
//          the batch; no other code uses them meanwhile.
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

// One step. The next step needs a new batch.
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

  // Appends the rows of some of the sessions. All rows are appended once every part was called.
  Status AppendPart(LayerId layer, const TensorView& k, const TensorView& v, uint32_t part,
                    uint32_t num_parts);
  // Works off some of the sessions' calls. `lse` may be null; its rows are in the order of out's.
  Status AttendPart(LayerId layer, const TensorView& q, const MutableTensorView& out, float* lse,
                    uint32_t part, uint32_t num_parts);

  // Runs all parts of AttendPart, on DBOptions::num_threads of the first session's DB.
  Status Attend(LayerId layer, const TensorView& q, const MutableTensorView& out,
                float* lse = nullptr);

  size_t size() const;
  // The state of an entry: Ok, or its first error from Session::Append or Attend.
  Status status(size_t entry) const;
  // Whether every session has failed.
  bool all_failed() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;  // Null only after a move.
};

// Runs one layer of a step for sessions whose k and v are appended already; as
// SessionBatch::Attend. Each session gets the result of AttendPart, with a number of parts that
// fits its size.
// Errors: kInvalidArgument (numbers of rows; shapes). `statuses` gets one status per session; if it
//         is null, the call returns the first error, and the other sessions are complete.
ATTNDB_EXPORT Status AttendBatch(std::span<Session* const> sessions,
                                 std::span<const int64_t> num_rows, LayerId layer,
                                 const TensorView& q, const MutableTensorView& out,
                                 float* lse = nullptr, std::vector<Status>* statuses = nullptr);

}  // namespace attndb

#endif  // ATTNDB_SESSION_BATCH_H_
