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
// Bits:    what a row gets under `full` is a function of its q, of the K and V that it sees and of
//          their tokens' numbers in the session: not of how a prompt is cut into steps, of the rows
//          and sessions beside it, of the number of threads, or of where K and V lie. (It is of the
//          instruction set, of DropOldest, and of how contexts that are attended to side by side
//          are put together.) Plans that search do not depend on their neighbours either, but sum
//          by the number of threads and by where stored runs end.
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

  // Adds the new tokens' rows to `layer`, rounded to nearest-even to the spec's kv_dtype.
  // Cost:   a copy in memory; no disk.
  // Errors: kInvalidArgument (shape; dtype; a finite value that overflows, with layer, head and
  //         token); kFailedPrecondition (layer out of order, unequal number of rows, failed step);
  //         kResourceExhausted (memory). NaN and Inf are stored, and make their head run `full`.
  Status Append(LayerId layer, const TensorView& k, const TensorView& v);

  // Attention of the newest q.rows() tokens of `layer`, each over all tokens up to its own. `lse`
  // may be null. q may have fewer rows than the last Append had, never more.
  // Cost:   what the layer's plan reads (Explain tells); by DBOptions::num_threads. The first call
  //         of a layer reads its stored K and V from disk, whole; so does a later one, if memory
  //         ran short meanwhile. Waits for no Store, merge or build.
  // Errors: kInvalidArgument; kFailedPrecondition; kResourceExhausted (memory); kCorruption,
  //         kIoError (a stored layer can't be read: if it is damaged its segment is quarantined).
  Status Attend(LayerId layer, const TensorView& q, const MutableTensorView& out,
                float* lse = nullptr);

  // One Attend shared by `num_parts` of the caller's threads: each calls with equal arguments but
  // for its own `part` in [0, num_parts), in any order, at the same time or one after another. The
  // output is complete when all have returned; no call may begin before that. Results are
  // bit-identical for equal num_parts. A part with bad arguments is refused and can be brought
  // again; a call that not all parts come to is given up by Crop or Reset, and its output is
  // undefined. Errors: as Attend; kInvalidArgument (part; num_parts is beyond
  // DBOptions::kMaxThreads); kFailedPrecondition (another call is under way; a part twice).
  Status AttendPart(LayerId layer, const TensorView& q, const MutableTensorView& out, float* lse,
                    uint32_t part, uint32_t num_parts);

  // The names of AlayaDB's Table 2. Update is Append, and checks q, which Attention takes again.
  Status Update(const TensorView& q, const TensorView& k, const TensorView& v, LayerId layer);
  Status Attention(const TensorView& q, LayerId layer, const MutableTensorView& out);

  // The tokens of the middle that the layer's plan selects for the newest token, without attending
  // to them: one CriticalTokens for each q head. q [1, num_q_heads, head_dim].
  // Errors: kInvalidArgument; kFailedPrecondition (the layer's plan does not search: full, window,
  //         auto; failed step); kCorruption, kIoError as Attend.
  Result<std::vector<CriticalTokens>> Search(LayerId layer, const TensorView& q);

  // Copies K and V of tokens [range.begin, range.end) of `layer`, as they are held: rounded to the
  // spec's kv_dtype, K in the spec's RoPE layout. k [n, num_kv_heads, head_dim] and v [n,
  // num_kv_heads, v_head_dim], float32 or kv_dtype, any strides; a view whose data is null is not
  // filled. Inside a step the layer's new rows can be read once they are appended.
  // Errors: kInvalidArgument (layer; an empty range, or one beyond what the layer holds; shape;
  //         dtype); kFailedPrecondition (failed step); kCorruption, kIoError, kResourceExhausted as
  //         Attend, with part of the output written. The session is unchanged.
  Status ReadKv(LayerId layer, TokenRange range, const MutableTensorView& k,
                const MutableTensorView& v) const;

  // Tokens complete in every layer, those that have left among them.
  uint64_t num_tokens() const;
  // How many of these were found in the store at CreateSession or put there by Store.
  uint64_t num_reused() const;
  // The context that the session continues; kNone if it started from nothing.
  ContextId context_id() const;
  // The contexts of a session that DB::CreateSessionOver made, in their order; else empty.
  const std::vector<SessionContext>& contexts() const;
  // The position under RoPE that the engine takes for the next token:
  // SessionOptions::first_position and num_tokens(), or, over several contexts, the end of the
  // longest of them and what came after; after Rebase, what that set it to and what came after.
  int64_t next_position() const;
  const ModelSpec& spec() const;
  // Bytes in memory of the session's tail and of its segments' loaded layers. Sessions that share
  // these count them each.
  uint64_t memory_bytes() const;

  // Keeps the first `num_tokens` tokens, and makes a failed session usable again. May reach into
  // the stored prefix, which itself stays as it is.
  // Errors: kInvalidArgument (more tokens than are complete in all layers); kFailedPrecondition
  //         (less than all of several contexts: DB::CreateSessionOver).
  Status Crop(uint64_t num_tokens);

  // A second session with the same tokens. Copies no K or V: tails are shared until one of them
  // appends, which copies at most a block of 256 tokens a layer.
  // Errors: kFailedPrecondition (inside a step).
  Result<Session> Fork() const;

  // Forgets all tokens, the stored prefix too.
  void Reset();

  // Hides all tokens that the session holds now, but those in `ranges`, from the calls to come: so
  // that only some chapters of a document, or one of several documents, are attended to. Tokens
  // that are appended later are seen. An empty `ranges` hides nothing any more. A plan's sink and
  // window count among the tokens that are seen. Models lean on the first few tokens of a text:
  // keep these too. A token that is appended while others are hidden has K and V that differ from
  // those of the whole prompt, so Store refuses until it was cropped. Crop shortens the filter,
  // Fork copies it, Reset clears it.
  // Errors: kInvalidArgument (a range is empty, runs backwards, overlaps the one before it or does
  //         not follow it, or goes beyond the session); kFailedPrecondition (inside a step);
  //         kUnsupported (the model has layers with sliding windows). The filter is then as before.
  Status SetFilter(std::span<const TokenRange> ranges);

  // The oldest n of the tokens that the session attends to leave it for good, but for the first
  // keep_first, options.keep and the newest: a conversation that outgrows the model's window goes
  // on at once, with keys and values as they are. Nothing is computed again and no key or value is
  // copied. Tokens keep their indices and positions, and those to come go on from there, so that
  // num_tokens counts what has left, too. What stays in front of a gap is attended to as if it
  // stood directly before what follows: q is turned for it, and its rows are read exactly, whatever
  // the plan. Store keeps the whole history, and what is stored afterwards is found by prompts that
  // begin with all of it, never by what was kept alone. Crop to less than the session had at a cut
  // takes the cut back, Fork copies cuts, Reset clears them.
  // Memory: what leaves the tail stays in memory until it is stored.
  // Errors: kInvalidArgument (more than there is; keep_first beyond what is attended to; ranges);
  //         kFailedPrecondition (inside a step; over several contexts); kUnsupported (no RoPE, or a
  //         scaling that depends on the length: named); kResourceExhausted (too many pieces of kept
  //         tokens, 64, or cuts, 1,024). The session is unchanged.
  // Source: [AS] 3.4.
  Status DropOldest(uint64_t n, const DropOptions& options = {});
  // Tokens that have left, of num_tokens.
  uint64_t num_dropped() const;
  // When tokens left, and which.
  const std::vector<Cut>& cuts() const;

  // The tokens of the range `among` that the newest queries of all heads attend to most, as ranges
  // of whole blocks of 16 tokens, in order, `num_tokens` together at most: for DropOptions::keep,
  // so that what matters of an old text stays ([AS] 3.4, selective preservation). DropOldest takes
  // 64 pieces in front at most: ask for fewer tokens if they stand in more.
  // Cost:   reads all keys that the session attends to, as a step of `full` does, and scores them
  //         for up to 32 queries of each kv head.
  // Errors: kInvalidArgument (a range beyond the session); kFailedPrecondition (inside a step; over
  //         several contexts; no queries are sampled, DBOptions::query_sample, or none that is
  //         sound); those of Attend.
  Result<std::vector<TokenRange>> HeaviestTokens(TokenRange among, uint64_t num_tokens);

  // From now on the engine takes `position` for the next token, and what follows goes on from
  // there: q and k that it gives are turned to the positions that the session's tokens have, by
  // angles in float64. So an engine whose own angles are float32 never computes them for large
  // positions (llama.cpp's are off by .09 in logits at 100,000). Is not stored: a new session
  // begins with its own positions. After a Crop beyond the engine's position 0 next_position is the
  // session's own.
  // Errors: kInvalidArgument (position is negative, or beyond 2^40); kFailedPrecondition (inside a
  //         step); kUnsupported as DropOldest.
  Status Rebase(int64_t position);

  // Sets the plan for the calls to come. Errors: kInvalidArgument, with the column.
  Status SetPlan(std::string_view plan);

  // Reads the stored K and V of all layers into memory, and what the session's plan reads besides
  // (planes, indexes, codes), as far as there is room: what Attend would read layer by layer, so
  // that calls to come do not wait for the disk, as long as memory keeps them. For a server, before
  // the session joins a batch.
  // Errors: kCorruption, kIoError as Attend. The session is unchanged.
  Status Load();

  // Waits until the planes, indexes and codes that the layer's plan reads are made, as far as they
  // can be, for all stored tokens and for the whole blocks of 4,096 tokens of the tail. [PQC] Alg.
  // 1 waits so for a layer's codes before the layer's second token; Attend never waits, it reads
  // exactly what has none. Short waits follow what was made while the prompt was read: the index
  // that the plan names, for the tail's blocks, and DBOptions::index, for segments stored
  // meanwhile.
  // Cost:   up to the time that an index takes to build, minutes for a graph of a long context.
  // Errors: kInvalidArgument (layer); kCancelled, if options.progress ends the wait: it stays due;
  //         else the error of what could not be made, which Attend reads exactly. The session is
  //         unchanged, but for awaits_derived.
  Status AwaitDerived(LayerId layer, const WaitOptions& options = {});

  // Whether an engine is to call AwaitDerived before the layer's next call of a single token,
  // unless that is the first after the prompt: the layer's plan says await=1 and reads what is
  // derived, and nobody has waited, in vain or not, since the plan was set, the stored tokens
  // changed or the tail's last block of 4,096 tokens was complete. Takes no lock. False for a layer
  // that the model does not have.
  bool awaits_derived(LayerId layer) const;

  // The plan, its prediction, and what the last call of each layer cost. Reads no rows.
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
