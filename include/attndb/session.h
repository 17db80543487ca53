// One running request: a stored prefix of a context and the tail of tokens that came after it.
//
// A step runs n new tokens through the layers 0, 1, ... in order: Append(layer, k, v), then
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
// Bits:    under `full` a row's result is a function of its q, of the K and V that it sees, and of
//          the indices of their tokens in the session. The result does not depend on how a prompt
//          is cut into steps, on neighbouring rows and sessions, on the number of threads, or on
//          where K and V lie. It does depend on the instruction set, on DropOldest, and on how
//          several contexts of one session are combined. Plans that search do not depend on
//          neighbours either, but their sums depend on the number of threads and on where stored
//          runs end.
// Threads: one thread at a time, except AttendPart. Other threads may use the DB meanwhile.
#ifndef ATTNDB_SESSION_H_
#define ATTNDB_SESSION_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/export.h"
#include "attndb/options.h"
#include "attndb/result.h"
#include "attndb/stats.h"
#include "attndb/tensor_view.h"
#include "attndb/types.h"

namespace attndb {

namespace internal {
class SessionHandle;
class SessionImpl;
}  // namespace internal

class ATTNDB_EXPORT Session {
 public:
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // Adds the rows of the new tokens to `layer`, rounded to nearest-even to the spec's kv_dtype. NaN
  // and Inf are stored; their head then runs `full`.
  // Cost:   a copy in memory; no disk.
  // Errors: kInvalidArgument (shape; dtype; a finite value that overflows, with layer, head and
  //         token); kFailedPrecondition (layer out of order, unequal number of rows, failed step);
  //         kResourceExhausted (memory).
  Status Append(LayerId layer, const TensorView& k, const TensorView& v);

  // Computes the attention of the newest q.rows() tokens of `layer`, each over all tokens up to its
  // own. `lse` may be null. q may have fewer rows than the last Append, never more.
  // Cost:   depends on the layer's plan (see Explain); runs on DBOptions::num_threads. A layer's
  //         first call reads its stored K and V from disk, whole. A later call does so too, if
  //         memory ran short meanwhile. Waits for no Store, merge or build.
  // Errors: kInvalidArgument; kFailedPrecondition; kResourceExhausted (memory); kCorruption,
  //         kIoError (a stored layer can't be read; a damaged segment is quarantined).
  Status Attend(LayerId layer, const TensorView& q, const MutableTensorView& out,
                float* lse = nullptr);

  // Computes one Attend on `num_parts` of the caller's threads. Each thread passes equal arguments
  // except its own `part` in [0, num_parts), in any order, in parallel or one after another. The
  // output is complete when all parts have returned; no other call may begin before. Results are
  // bit-identical for equal num_parts. A part with bad arguments is refused and can be called
  // again. If some parts never come, Crop or Reset abandons the call, and its output is undefined.
  // Errors: as Attend; kInvalidArgument (part; num_parts is beyond DBOptions::kMaxThreads);
  // kFailedPrecondition (another call is under way; a part twice).
  Status AttendPart(LayerId layer, const TensorView& q, const MutableTensorView& out, float* lse,
                    uint32_t part, uint32_t num_parts);

  // The names of AlayaDB's Table 2. Update is Append and also checks q. Attention is Attend.
  Status Update(const TensorView& q, const TensorView& k, const TensorView& v, LayerId layer);
  Status Attention(const TensorView& q, LayerId layer, const MutableTensorView& out);

  // Returns the tokens of the middle that the layer's plan selects for the newest token, one
  // CriticalTokens per q head, without attending to them. q [1, num_q_heads, head_dim].
  // Errors: kInvalidArgument; kFailedPrecondition (the layer's plan does not search: full, window,
  //         auto; failed step); kCorruption, kIoError as Attend.
  Result<std::vector<CriticalTokens>> Search(LayerId layer, const TensorView& q);

  // Copies K and V of tokens [range.begin, range.end) of `layer`, as the session holds them:
  // rounded to the spec's kv_dtype, K in the spec's RoPE layout. k [n, num_kv_heads, head_dim] and
  // v [n, num_kv_heads, v_head_dim], float32 or kv_dtype, any strides. A view whose data is null is
  // not filled. Inside a step the layer's new rows can be read once they are appended.
  // Errors: kInvalidArgument (layer; an empty range, or one beyond what the layer holds; shape;
  //         dtype); kFailedPrecondition (failed step); kCorruption, kIoError, kResourceExhausted as
  //         Attend, with part of the output written. The session is unchanged.
  Status ReadKv(LayerId layer, TokenRange range, const MutableTensorView& k,
                const MutableTensorView& v) const;

  // The number of tokens that are complete in every layer, dropped tokens included.
  uint64_t num_tokens() const;
  // The number of these tokens that CreateSession reused or Store stored.
  uint64_t num_reused() const;
  // The context that the session continues; kNone if it started from nothing.
  ContextId context_id() const;
  // The contexts of a session that DB::CreateSessionOver made, in their order; else empty.
  const std::vector<SessionContext>& contexts() const;
  // The position under RoPE of the next token. Usually SessionOptions::first_position +
  // num_tokens(). Over several contexts it is the end of the longest context plus the tokens since;
  // after Rebase, the given position plus the tokens since.
  int64_t next_position() const;
  const ModelSpec& spec() const;
  // Bytes in memory of the session's tail and of its segments' loaded layers. Sessions that share a
  // layer each count it.
  uint64_t memory_bytes() const;

  // Keeps the first `num_tokens` tokens, and makes a failed session usable again. Crop may cut into
  // the stored prefix; the stored context itself is unchanged.
  // Errors: kInvalidArgument (more tokens than are complete in all layers); kFailedPrecondition
  //         (fewer than all tokens of several contexts: DB::CreateSessionOver).
  Status Crop(uint64_t num_tokens);

  // Returns a second session with the same tokens. Copies no K or V: the sessions share the tail
  // until one of them appends, which copies at most a block of 256 tokens per layer. Stores of
  // these sessions write the common tokens once, if there are 64 or more.
  // Errors: kFailedPrecondition (inside a step).
  Result<Session> Fork() const;

  // Forgets all tokens, also the stored prefix.
  void Reset();

  // Hides all present tokens except those in `ranges` from later calls. Use it to attend to some
  // chapters of a document only, or to one of several documents. Tokens that are appended later are
  // visible. An empty `ranges` ends the hiding. A plan's sink and window count visible tokens only.
  // Models rely on the first few tokens of a text, so keep these visible. A token that is appended
  // while others are hidden has other K and V than under the whole prompt: Store refuses until such
  // tokens are cropped. Crop shortens the filter, Fork copies it, Reset clears it.
  // Errors: kInvalidArgument (a range is empty, runs backwards, overlaps the one before it or does
  //         not follow it, or goes beyond the session); kFailedPrecondition (inside a step);
  //         kUnsupported (the model has layers with sliding windows). The filter is then as before.
  Status SetFilter(std::span<const TokenRange> ranges);

  // Drops the oldest n tokens that the session attends to, for good. The first keep_first tokens,
  // options.keep and the newest tokens stay. A conversation that outgrows the model's window can
  // thus continue at once: no key or value is computed again or copied. Tokens keep their indices
  // and positions, and new tokens continue them, so num_tokens also counts dropped tokens. Tokens
  // that stay in front of a gap are attended to as if they stood directly before the tokens behind
  // the gap: q is rotated for them, and their rows are read exactly, under every plan. Store keeps
  // the whole history. Prompts find a context that is stored afterwards if they begin with the
  // whole history, never by the kept tokens alone. A Crop to fewer tokens than the session had at a
  // cut undoes the cut; Fork copies cuts; Reset clears them.
  // Memory: dropped tokens of the tail stay in memory until they are stored.
  // Errors: kInvalidArgument (more than there is; keep_first beyond what is attended to; ranges);
  //         kFailedPrecondition (inside a step; over several contexts); kUnsupported (no RoPE, or a
  //         scaling that depends on the length: named); kResourceExhausted (too many pieces of kept
  //         tokens, 64, or cuts, 1,024). The session is unchanged.
  // Source: [AS] 3.4.
  Status DropOldest(uint64_t n, const DropOptions& options = {});
  // The number of dropped tokens, a part of num_tokens.
  uint64_t num_dropped() const;
  // When tokens were dropped, and which.
  const std::vector<Cut>& cuts() const;

  // Returns the tokens of the range `among` that the newest queries of all heads attend to most.
  // The result is whole blocks of 16 tokens as ranges in order, at most `num_tokens` tokens
  // together. Pass it to DropOptions::keep, so that the important parts of an old text stay ([AS]
  // 3.4, selective preservation). DropOldest takes at most 64 pieces in front: ask for fewer tokens
  // if the result has more pieces.
  // Cost:   reads all keys that the session attends to, as a step of `full` does, and scores them
  //         for up to 32 queries of each kv head.
  // Errors: kInvalidArgument (a range beyond the session); kFailedPrecondition (inside a step; over
  //         several contexts; no queries are sampled, DBOptions::query_sample, or none that is
  //         sound); those of Attend.
  Result<std::vector<TokenRange>> HeaviestTokens(TokenRange among, uint64_t num_tokens);

  // Tells the session that the engine uses `position` for the next token and counts on from there.
  // The session rotates the engine's q and k to the positions of its own tokens, with angles in
  // float64. An engine with float32 angles thus never computes them for large positions
  // (llama.cpp's are off by .09 in logits at 100,000). Rebase is not stored: a new session begins
  // with its own positions. After a Crop to before the token at the engine's position 0,
  // next_position is the session's own.
  // Errors: kInvalidArgument (position is negative, or beyond 2^40); kFailedPrecondition (inside a
  //         step); kUnsupported as DropOldest.
  Status Rebase(int64_t position);

  // Sets the plan of later calls. Errors: kInvalidArgument, with the column.
  Status SetPlan(std::string_view plan);

  // Reads the stored K and V of all layers into memory, and the planes, indexes and codes that the
  // session's plan reads, as far as there is room. Later calls then do not wait for the disk, as
  // long as memory keeps these. A server calls Load before the session joins a batch.
  // Errors: kCorruption, kIoError as Attend. The session is unchanged.
  Status Load();

  // Waits until the planes, indexes and codes that the layer's plan reads are made, as far as they
  // can be: for all stored tokens, and for the tail's whole blocks of 4,096 tokens. [PQC] Alg. 1
  // waits in this way for a layer's codes before the layer's second token. Attend never waits: it
  // reads tokens without such objects exactly. The wait is short if the objects were made while the
  // prompt was read: the plan's index for the tail's blocks, and DBOptions::index for segments
  // stored meanwhile.
  // Cost:   up to the build time of an index: minutes for a graph of a long context.
  // Errors: kInvalidArgument (layer); kCancelled, if options.progress ends the wait: it stays due;
  //         else the error of a build that failed, whose tokens Attend reads exactly. The session
  //         is unchanged, except for awaits_derived.
  Status AwaitDerived(LayerId layer, const WaitOptions& options = {});

  // Returns whether an engine should call AwaitDerived before the layer's next call of a single
  // token. The first such call after the prompt needs no wait. True if the layer's plan says
  // await=1 and reads derived objects, and no AwaitDerived, successful or not, has run since the
  // last change. Changes are a new plan, a change of the stored tokens, and a new whole block of
  // 4,096 tokens in the tail. Takes no lock. False for a layer that the model does not have.
  bool awaits_derived(LayerId layer) const;

  // Returns the plan, its prediction, and the cost of each layer's last call. Reads no rows.
  // Errors: kInvalidArgument (layer).
  attndb::Explain Explain() const;
  Result<LayerExplain> Explain(LayerId layer) const;

 private:
  friend class DB;
  friend class SessionBatch;
  explicit Session(std::unique_ptr<internal::SessionImpl> impl);

  std::unique_ptr<internal::SessionHandle> handle_;  // Null only after a move.
};

}  // namespace attndb

#endif  // ATTNDB_SESSION_H_
