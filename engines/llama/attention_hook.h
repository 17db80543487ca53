// Replaces the attention of a llama.cpp context by attndb sessions, while it runs a batch.
//
// kRewrite: while llama.cpp asks for each node of a graph, before it computes any, the nodes of a
//           site become custom ops in place: the earlier store nothing, the later store
//           SessionBatch::AppendPart, the attention its AttendPart, on all threads. A graph that
//           llama.cpp reuses keeps them; it is recognised by the custom ops.
// kObserve: the graph is left alone and cut at these nodes: rows and queries are read after them,
//           and the attention's output is overwritten. llama.cpp's own attention over its few
//           cells runs and is lost.
//
// Errors:  of a session: it is left out of the layers to come, and the others go on; status_of says
//          which. Of the batch, or if all sessions have failed: the first one stops the run at the
//          next node, and is given by End.
// Threads: Begin, End: the engine's thread. The ops run on ggml's threads.
#ifndef ATTNDB_ENGINES_LLAMA_ATTENTION_HOOK_H_
#define ATTNDB_ENGINES_LLAMA_ATTENTION_HOOK_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "attndb/session_batch.h"
#include "attndb/status.h"
#include "attndb/tensor_view.h"
#include "attndb/types.h"
#include "engines/llama/attention_graph.h"
#include "engines/llama/batch_cursor.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/llama_handles.h"
#include "engines/llama/thread_shares.h"

namespace attndb::llama {

class AttentionHook {
 public:
  // `num_watched`: threads of a pass, by number, whose shares of a core are measured. 0: none.
  AttentionHook(const ModelSpec& spec, HookVariant variant, uint32_t num_watched);
  AttentionHook(const AttentionHook&) = delete;
  AttentionHook& operator=(const AttentionHook&) = delete;

  // Lets `params` call this hook, which must outlive the context.
  void Attach(llama_context_params* params);

  // The batch that llama_decode is about to run. Both spans, and `on_queries`, which may be null,
  // must stay until End.
  void Begin(std::span<const SessionRows> rows, std::span<const llama_pos> positions,
             const OnQueries* on_queries = nullptr);

  // How the batch went. Errors: of the first call that failed; kUnsupported (the graph differs from
  // the one that was probed); kInternal (llama_decode's own code).
  Status End(int32_t decode_result);

  // How much of a core the watched threads got between the first layer and the last of the last
  // batch.
  const ThreadShares& thread_shares() const { return thread_shares_; }

  // How a session of the last batch fared, by its number in Begin's rows.
  Status status_of(size_t idx) const { return batch_->status(idx); }

 private:
  using OpParams = std::array<int32_t, GGML_MAX_OP_PARAMS / sizeof(int32_t)>;

  // What a custom op is given, and the op_params that name it: one of each kind a layer.
  struct LayerOps {
    AttentionHook* hook = nullptr;
    LayerId layer = 0;
    OpParams append = {};
    OpParams attend = {};
  };

  static bool OnNode(ggml_tensor* node, bool ask, void* self);
  static bool OnAbort(void* self);
  static void AppendOp(ggml_tensor* node, int thread, int num_threads, void* layer_ops);
  static void AttendOp(ggml_tensor* node, int thread, int num_threads, void* layer_ops);
  void MakeLayerOps();

  bool Ask(ggml_tensor* node);
  bool AskSiteNode(ggml_tensor* node);
  Status CheckSite(const AttentionSite& site) const;
  Status CheckPositions(const ggml_tensor* rope) const;
  void Rewrite(const AttentionSite& site);
  void CountCustom(const ggml_tensor* node);

  // Ends the batch if all of its sessions have failed.
  void StopIfAllFailed();
  // Hands q of the batch to on_queries_.
  Status TellQueries(LayerId layer, const TensorView& q) const;
  Status ObserveStore(const ggml_tensor* node);
  Status ObserveAttention(const AttentionSite& site);

  void Fail(Status status);

  // Constant after construction.
  const ModelSpec& spec_;  // Owned by the engine, which outlives this.
  const HookVariant variant_;
  std::vector<LayerOps> ops_;  // Addresses are in the graphs.

  ThreadShares thread_shares_;  // Written by ggml's threads.

  // What the running batch has; written by the engine's thread while no op runs.
  std::span<const SessionRows> rows_;
  std::span<const llama_pos> positions_;
  const OnQueries* on_queries_ = nullptr;
  GraphReader reader_;
  uint32_t num_attended_ = 0;  // Layers seen in the graph of this batch.
  bool positions_checked_ = false;
  std::optional<SessionBatch> batch_;        // What rows_ has.
  std::optional<AttentionSite> announced_;   // kObserve: the site whose attention comes next.
  std::array<std::vector<char>, 2> stores_;  // kObserve: rows of that site's stores, in order.
  uint32_t num_stores_ = 0;

  // Set with release after status_ is written; read by the abort callback and the ops, which only
  // need to stop soon.
  std::atomic<bool> failed_ = false;
  std::mutex status_mutex_;
  Status status_;  // Guarded by status_mutex_ while a batch runs.
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_ATTENTION_HOOK_H_
