#include "engines/llama/attention_hook.h"

#include <ggml-backend.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "engines/llama/layer_reader.h"
#include "engines/llama/llama_log.h"

namespace attndb::llama {
namespace {

// A custom op's op_params, as ggml itself writes them: its struct for them is private.
template <typename OpParams>
OpParams CustomOpParams(ggml_context* context, ggml_custom_op_t function, void* user_data) {
  const ggml_tensor* node = ggml_custom_4d(context, GGML_TYPE_F32, 1, 1, 1, 1, nullptr, 0, function,
                                           GGML_N_TASKS_MAX, user_data);
  OpParams params;
  static_assert(sizeof(params) == sizeof(node->op_params));
  std::memcpy(params.data(), node->op_params, sizeof(params));
  return params;
}

template <typename OpParams>
void MakeCustom(ggml_tensor* node, const OpParams& params) {
  node->op = GGML_OP_CUSTOM;
  std::memcpy(node->op_params, params.data(), sizeof(params));
}

// The bytes of `tensor`, strides and all.
void CopyFrom(const ggml_tensor* tensor, std::vector<char>* bytes) {
  bytes->resize(ggml_nbytes(tensor));
  ggml_backend_tensor_get(tensor, bytes->data(), 0, bytes->size());
}

}  // namespace

AttentionHook::AttentionHook(const ModelSpec& spec, HookVariant variant, uint32_t num_watched)
    : spec_(spec), variant_(variant), ops_(spec.layers.size()), thread_shares_(num_watched) {
  MakeLayerOps();
}

void AttentionHook::MakeLayerOps() {
  const GgmlContextHandle context(
      ggml_init({.mem_size = 2 * ops_.size() * ggml_tensor_overhead() + ggml_tensor_overhead(),
                 .mem_buffer = nullptr,
                 .no_alloc = true}));
  for (size_t i = 0; i < ops_.size(); ++i) {
    LayerOps& ops = ops_[i];
    ops.hook = this;
    ops.layer = static_cast<LayerId>(i);
    ops.append = CustomOpParams<OpParams>(context.get(), AppendOp, &ops);
    ops.attend = CustomOpParams<OpParams>(context.get(), AttendOp, &ops);
  }
}

void AttentionHook::Attach(llama_context_params* params) {
  params->cb_eval = OnNode;
  params->cb_eval_user_data = this;
  params->abort_callback = OnAbort;
  params->abort_callback_data = this;
}

void AttentionHook::Begin(std::span<const SessionRows> rows, std::span<const llama_pos> positions,
                          const OnQueries* on_queries) {
  thread_shares_.Begin();
  rows_ = rows;
  positions_ = positions;
  on_queries_ = on_queries;
  reader_.Reset();
  num_attended_ = 0;
  positions_checked_ = false;
  announced_.reset();
  num_stores_ = 0;
  status_ = Status::Ok();
  std::vector<SessionBatch::Entry> entries;
  for (const SessionRows& of : rows) entries.push_back({of.session, of.num_rows});
  batch_.emplace(entries);
  failed_.store(false, std::memory_order_relaxed);
}

Status AttentionHook::End(int32_t decode_result) {
  rows_ = {};
  positions_ = {};
  on_queries_ = nullptr;
  if (!status_.ok()) return std::move(status_);
  if (decode_result != 0) {
    return Status::Internal("llama_decode returned " + std::to_string(decode_result) + ": " +
                            LoggedComplaints());
  }
  ATTNDB_RETURN_IF_ERROR(reader_.Finish());
  if (num_attended_ != ops_.size()) {
    return Status::Unsupported("graph with " + std::to_string(num_attended_) +
                               " attention layers, expected " + std::to_string(ops_.size()));
  }
  return Status::Ok();
}

void AttentionHook::Fail(Status status) {
  const std::lock_guard<std::mutex> lock(status_mutex_);
  if (status_.ok()) status_ = std::move(status);
  failed_.store(true, std::memory_order_release);
}

void AttentionHook::StopIfAllFailed() {
  if (batch_->all_failed()) Fail(batch_->status(0));
}

bool AttentionHook::OnAbort(void* self) {
  return static_cast<AttentionHook*>(self)->failed_.load(std::memory_order_relaxed);
}

bool AttentionHook::OnNode(ggml_tensor* node, bool ask, void* self) {
  auto* const hook = static_cast<AttentionHook*>(self);
  if (ask) return hook->Ask(node);
  Status status = node->op == GGML_OP_FLASH_ATTN_EXT ? hook->ObserveAttention(*hook->announced_)
                                                     : hook->ObserveStore(node);
  if (!status.ok()) hook->Fail(std::move(status));
  return !hook->failed_.load(std::memory_order_relaxed);
}

// Asked for every node of every batch: all but a few leave by the default.
bool AttentionHook::Ask(ggml_tensor* node) {
  switch (node->op) {
    case GGML_OP_SET_ROWS:
    case GGML_OP_FLASH_ATTN_EXT:
      return AskSiteNode(node);
    case GGML_OP_CUSTOM:
      CountCustom(node);
      return false;
    case GGML_OP_ROPE:
      if (!positions_checked_) {
        positions_checked_ = true;
        if (Status status = CheckPositions(node); !status.ok()) Fail(std::move(status));
      }
      [[fallthrough]];
    default:
      reader_.Skip(node->op);
      return false;
  }
}

bool AttentionHook::AskSiteNode(ggml_tensor* node) {
  if (failed_.load(std::memory_order_relaxed)) return false;
  Result<std::optional<AttentionSite>> found = reader_.Visit(node);
  if (!found.ok()) {
    Fail(found.status());
    return false;
  }
  const bool observe = variant_ == HookVariant::kObserve;
  if (!found->has_value()) return observe && IsCacheStore(node);
  AttentionSite site = **found;
  site.layer = num_attended_;  // A graph whose rewrite was cut short may be met again.
  if (Status status = CheckSite(site); !status.ok()) {
    Fail(std::move(status));
    return false;
  }
  ++num_attended_;
  if (observe) {
    announced_ = site;
  } else {
    Rewrite(site);
  }
  return observe;
}

void AttentionHook::CountCustom(const ggml_tensor* node) {
  if (num_attended_ == ops_.size()) return;
  const OpParams& expected = ops_[num_attended_].attend;
  if (std::memcmp(node->op_params, expected.data(), sizeof(expected)) == 0) ++num_attended_;
}

// The site must be what the probe saw: the spec is the identity of what is stored.
Status AttentionHook::CheckSite(const AttentionSite& site) const {
  if (site.layer >= ops_.size()) {
    return Status::Unsupported("graph with more than " + std::to_string(ops_.size()) +
                               " attention layers");
  }
  ATTNDB_ASSIGN_OR_RETURN(LayerSpec layer, ReadLayer(site));
  const LayerSpec& expected = spec_.layers[site.layer];
  ATTNDB_ASSIGN_OR_RETURN(layer.rope, ReadRope(site));
  layer.sliding_window = expected.sliding_window;  // In the mask, which only the probe reads.
  if (!(layer == expected)) {
    return Status::Unsupported(
        "layer " + std::to_string(site.layer) +
        " of this graph differs from the one that was probed: " + Describe(site.attention));
  }
  const int64_t num_tokens = site.attention->src[0]->ne[1];
  if (num_tokens != static_cast<int64_t>(positions_.size())) {
    return Status::Unsupported("layer " + std::to_string(site.layer) + " attends " +
                               std::to_string(num_tokens) + " tokens of a batch of " +
                               std::to_string(positions_.size()));
  }
  return Status::Ok();
}

// The graph's positions tell whether llama.cpp kept the batch whole and in order.
Status AttentionHook::CheckPositions(const ggml_tensor* rope) const {
  const ggml_tensor* positions = rope->src[1];
  const size_t bytes = positions_.size_bytes();
  if (positions->type != GGML_TYPE_I32 || ggml_nbytes(positions) != bytes) {
    return Status::Unsupported("llama.cpp split the batch of " + std::to_string(positions_.size()) +
                               " tokens");
  }
  if (positions->buffer == nullptr || !ggml_backend_buffer_is_host(positions->buffer)) {
    return Status::Ok();  // Not readable for free; the row counts are checked at each site.
  }
  if (std::memcmp(positions->data, positions_.data(), bytes) != 0) {
    return Status::Unsupported("llama.cpp reordered the tokens of the batch");
  }
  return Status::Ok();
}

void AttentionHook::Rewrite(const AttentionSite& site) {
  const LayerOps& ops = ops_[site.layer];
  ggml_tensor* const first = site.k_first ? site.k_store : site.v_store;
  ggml_tensor* const second = site.k_first ? site.v_store : site.k_store;
  ggml_tensor* const k_rows = site.k_store->src[0];
  ggml_tensor* const v_rows = site.v_store->src[0];
  first->op = GGML_OP_NONE;
  MakeCustom(second, ops.append);
  second->src[0] = k_rows;
  second->src[1] = v_rows;
  second->src[2] = nullptr;
  MakeCustom(site.attention, ops.attend);
}

void AttentionHook::AppendOp(ggml_tensor* node, int thread, int num_threads, void* layer_ops) {
  const auto* const ops = static_cast<const LayerOps*>(layer_ops);
  AttentionHook* const hook = ops->hook;
  if (hook->failed_.load(std::memory_order_relaxed)) return;
  if (ops->layer == 0) hook->thread_shares_.Enter(thread);
  const LayerSpec& spec = hook->spec_.layers[ops->layer];
  Status status =
      hook->batch_->AppendPart(ops->layer, RowsView(node->src[0], spec.num_kv_heads, spec.head_dim),
                               RowsView(node->src[1], spec.num_kv_heads, spec.v_head_dim),
                               static_cast<uint32_t>(thread), static_cast<uint32_t>(num_threads));
  if (!status.ok()) hook->Fail(std::move(status));
  hook->StopIfAllFailed();
}

void AttentionHook::AttendOp(ggml_tensor* node, int thread, int num_threads, void* layer_ops) {
  const auto* const ops = static_cast<const LayerOps*>(layer_ops);
  AttentionHook* const hook = ops->hook;
  if (hook->failed_.load(std::memory_order_relaxed)) return;
  const TensorView q = QueryView(node);
  if (thread == 0) {
    if (Status status = hook->TellQueries(ops->layer, q); !status.ok()) {
      hook->Fail(std::move(status));
    }
  }
  Status status =
      hook->batch_->AttendPart(ops->layer, q, OutputView(node), nullptr,
                               static_cast<uint32_t>(thread), static_cast<uint32_t>(num_threads));
  if (!status.ok()) hook->Fail(std::move(status));
  hook->StopIfAllFailed();
  if (ops->layer + 1 == hook->ops_.size()) hook->thread_shares_.Leave(thread);
}

Status AttentionHook::TellQueries(LayerId layer, const TensorView& q) const {
  if (on_queries_ == nullptr) return Status::Ok();
  for (const SessionRows& rows : rows_) {
    const uint64_t first_token = rows.num_tokens - static_cast<uint64_t>(rows.num_rows);
    ATTNDB_RETURN_IF_ERROR((*on_queries_)(layer, first_token, RowsOf(q, rows)));
  }
  return Status::Ok();
}

Status AttentionHook::ObserveStore(const ggml_tensor* node) {
  CopyFrom(node->src[0], &stores_[num_stores_ % stores_.size()]);
  ++num_stores_;
  return Status::Ok();
}

Status AttentionHook::ObserveAttention(const AttentionSite& site) {
  const LayerSpec& spec = spec_.layers[site.layer];
  TensorView k = RowsView(site.k_store->src[0], spec.num_kv_heads, spec.head_dim);
  TensorView v = RowsView(site.v_store->src[0], spec.num_kv_heads, spec.v_head_dim);
  k.data = stores_[site.k_first ? 0 : 1].data();
  v.data = stores_[site.k_first ? 1 : 0].data();
  num_stores_ = 0;
  ATTNDB_RETURN_IF_ERROR(batch_->AppendPart(site.layer, k, v, 0, 1));

  std::vector<char> queries;
  CopyFrom(site.attention->src[0], &queries);
  TensorView q = QueryView(site.attention);
  q.data = queries.data();
  ATTNDB_RETURN_IF_ERROR(TellQueries(site.layer, q));
  std::vector<char> output(ggml_nbytes(site.attention));
  MutableTensorView out = OutputView(site.attention);
  out.data = output.data();
  ATTNDB_RETURN_IF_ERROR(batch_->Attend(site.layer, q, out));
  if (batch_->all_failed()) return batch_->status(0);
  ggml_backend_tensor_set(site.attention, output.data(), 0, output.size());
  return Status::Ok();
}

}  // namespace attndb::llama
