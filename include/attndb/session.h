// One running request: a stored prefix of a context and the tail of tokens that came after it.
//
// A step, for n new tokens, is: for layer 0, 1, ... in order: Append(layer, k, v), then
// Attend(layer, q, out). Attend is causal inside the new tokens (bottom-right aligned): row i of q
// sees all tokens up to its own.
//
// Shapes:  q [num_rows, num_q_heads, head_dim]; k [n, num_kv_heads, head_dim]; v [n, num_kv_heads,
//          v_head_dim]; out [num_rows, num_q_heads, v_head_dim], float32 or q's type; lse
//          [num_rows, num_q_heads] float32.
// Units:   lse is the natural log of the sum of exp(logit), a layer's denominator logit included;
//          logit = scale * (q . k).
// Errors:  a call that fails on its arguments changes nothing. A step that fails in the middle
//          leaves layers of unequal length: then only Crop, Reset and destruction are legal.
// Threads: one thread at a time, but for AttendPart. The DB may be used by other threads meanwhile.
#ifndef ATTNDB_SESSION_H_
#define ATTNDB_SESSION_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/export.h"
#include "attndb/result.h"
#include "attndb/stats.h"
#include "attndb/tensor_view.h"
#include "attndb/types.h"

namespace attndb {

namespace internal {
class SessionImpl;
}

class ATTNDB_EXPORT Session {
 public:
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // Adds the new tokens' rows to `layer`, rounded to nearest-even to the spec's kv_dtype.
  // Errors: kInvalidArgument (shape; dtype; a finite value that overflows, with layer, head and
  //         token); kFailedPrecondition (layer out of order, unequal number of rows, failed step);
  //         kResourceExhausted (memory). NaN and Inf are stored, and make their head run `full`.
  Status Append(LayerId layer, const TensorView& k, const TensorView& v);

  // Attention of the newest q.rows() tokens of `layer` over all tokens before and including each.
  // `lse` may be null. q may have fewer rows than the last Append had, never more.
  // Errors: kInvalidArgument; kFailedPrecondition; kCorruption, kIoError (a stored layer can't be
  //         read: its segment is quarantined).
  Status Attend(LayerId layer, const TensorView& q, const MutableTensorView& out,
                float* lse = nullptr);

  // The same call shared by `num_parts` of the caller's threads: each calls with equal arguments
  // but for its own `part` in [0, num_parts), in any order, at the same time or one after another.
  // The output is complete when all have returned. The next call starts after that.
  // Results are bit-identical for equal num_parts.
  Status AttendPart(LayerId layer, const TensorView& q, const MutableTensorView& out, float* lse,
                    uint32_t part, uint32_t num_parts);

  // The names of AlayaDB's Table 2. Update = Append; q is only checked: Attention takes it again.
  Status Update(const TensorView& q, const TensorView& k, const TensorView& v, LayerId layer);
  Status Attention(const TensorView& q, LayerId layer, const MutableTensorView& out);

  // What the plan chooses of the middle for the newest token, without attending to it: one for each
  // q head. q has one row.
  // Errors: kInvalidArgument; kFailedPrecondition (the layer's plan does not search: full, window,
  //         auto; failed step); kCorruption, kIoError as Attend.
  Result<std::vector<CriticalTokens>> Search(LayerId layer, const TensorView& q);

  // Copies K and V of tokens [range.begin, range.end) of `layer`, as they are held: rounded to the
  // spec's kv_dtype, K in the spec's RoPE layout. k [n, num_kv_heads, head_dim] and v [n,
  // num_kv_heads, v_head_dim], float32 or kv_dtype, any strides; one whose data is null is left
  // out. Inside a step the rows that the layer has already can be read.
  // Errors: kInvalidArgument (layer; an empty range, or one beyond what the layer holds; shape;
  //         dtype); kFailedPrecondition (failed step); kCorruption, kIoError, kResourceExhausted as
  //         Attend, with part of the output written. The session is unchanged.
  Status ReadKv(LayerId layer, TokenRange range, const MutableTensorView& k,
                const MutableTensorView& v) const;

  // Tokens complete in every layer.
  uint64_t num_tokens() const;
  // Of these, those that were found in the store at CreateSession or put there by Store.
  uint64_t num_reused() const;
  // The context that the session continues; kNone if it started from nothing.
  ContextId context_id() const;
  // The contexts of a session over several (DB::CreateSessionOver), in their order; else none.
  const std::vector<SessionContext>& contexts() const;
  // The position under RoPE of the next token: SessionOptions::first_position and num_tokens(), or,
  // over several contexts, the end of the longest of them and what came after.
  int64_t next_position() const;
  const ModelSpec& spec() const;
  // Bytes of the tail and of the segments that are in memory for it.
  uint64_t memory_bytes() const;

  // Keeps the first `num_tokens` tokens, and makes a failed session usable again. May reach into
  // the stored prefix, which itself stays as it is.
  // Errors: kInvalidArgument (more than there are complete); kFailedPrecondition (into one of
  //         several contexts).
  Status Crop(uint64_t num_tokens);

  // A second session with the same tokens. Tails are shared until one of them appends.
  // Errors: kFailedPrecondition (inside a step).
  Result<Session> Fork() const;

  // Forgets all tokens, the stored prefix too.
  void Reset();

  // Hides all tokens that the session holds now but those in `ranges` from the calls to come:
  // chapters of a document are left, or one of several documents. What is appended later is seen.
  // Without a range nothing is hidden any more. What a plan says of first and last tokens (sink,
  // window) counts among those that are left. Models lean on the first few tokens of a text: keep
  // these too. A token that is appended while others are hidden has K and V of its own, so Store
  // refuses until it was cropped. Crop shortens the filter, Fork copies it, Reset clears it.
  // Errors: kInvalidArgument (a range is empty, runs backwards, overlaps the one before it or does
  //         not follow it, or goes beyond the session); kFailedPrecondition (inside a step);
  //         kUnsupported (the model has layers with sliding windows). The filter is then as before.
  Status SetFilter(std::span<const TokenRange> ranges);

  // Sets the plan for the calls to come. Errors: kInvalidArgument, with the column.
  Status SetPlan(std::string_view plan);

  // Waits until what the layer's plan reads of planes, indexes and codes is made for all stored
  // tokens, and for those that are not stored in whole blocks of 4,096, as far as it can be: [PQC]
  // Alg. 1 waits so for a layer's codes before the layer's second token. Attend never does: what is
  // not there it reads exactly. What is made while the prompt is read is there soon: the index that
  // the plan names, of the tail's blocks; that of DBOptions::index, of segments stored meanwhile.
  // Errors: kInvalidArgument (layer); else those of what could not be made, which Attend reads
  //         exactly. The session is unchanged, but for awaits_derived.
  Status AwaitDerived(LayerId layer);

  // Whether an engine is to call AwaitDerived before the layer's next call of a single token, if
  // that is not the first after the prompt: the layer's plan says await=1 and reads what is
  // derived, and nobody has waited, in vain or not, since the plan was set, the stored tokens
  // changed and the tail's last block of 4,096 tokens was complete. Takes no lock. False for a
  // layer that the model does not have.
  bool awaits_derived(LayerId layer) const;

  // Plan, prediction and what the last call of each layer cost.
  attndb::Explain Explain() const;
  Result<LayerExplain> Explain(LayerId layer) const;

 private:
  friend class DB;
  explicit Session(std::unique_ptr<internal::SessionImpl> impl);

  std::unique_ptr<internal::SessionImpl> impl_;  // Null only after a move.
};

// One step of one layer for many sessions (continuous batching): row r of q and out belongs to
// sessions[r's session], in the order of `sessions`, num_rows[i] rows each; k and v were appended
// before. Each session's part is as if Attend had been called on it.
// Errors: as Attend, for the first session that fails; outputs of the others are complete.
ATTNDB_EXPORT Status AttendBatch(std::span<Session* const> sessions,
                                 std::span<const int64_t> num_rows, LayerId layer,
                                 const TensorView& q, const MutableTensorView& out,
                                 float* lse = nullptr);

}  // namespace attndb

#endif  // ATTNDB_SESSION_H_
