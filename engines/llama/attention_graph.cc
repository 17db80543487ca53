#include "engines/llama/attention_graph.h"

#include <ggml-backend.h>

#include <utility>

namespace attndb::llama {
namespace {

std::string LayerName(uint32_t layer) { return "layer " + std::to_string(layer) + ": "; }

// A tensor that outlives the graph and that is written by it: neither a weight, nor an input, nor
// an intermediate result.
bool IsCacheTensor(const ggml_tensor* root) {
  return root->op == GGML_OP_NONE && (root->flags & GGML_TENSOR_FLAG_INPUT) == 0 &&
         root->buffer != nullptr &&
         ggml_backend_buffer_get_usage(root->buffer) == GGML_BACKEND_BUFFER_USAGE_ANY;
}

}  // namespace

const ggml_tensor* RootOf(const ggml_tensor* tensor) {
  while (tensor->view_src != nullptr) tensor = tensor->view_src;
  return tensor;
}

bool IsEmptyOp(ggml_op op) {
  return op == GGML_OP_NONE || op == GGML_OP_RESHAPE || op == GGML_OP_TRANSPOSE ||
         op == GGML_OP_VIEW || op == GGML_OP_PERMUTE;
}

bool IsCacheStore(const ggml_tensor* node) {
  return node->op == GGML_OP_SET_ROWS && IsCacheTensor(RootOf(node));
}

std::string Describe(const ggml_tensor* node) {
  return std::string(ggml_op_name(node->op)) + " node '" + ggml_get_name(node) + "'";
}

Status GraphReader::AddStore(ggml_tensor* node) {
  if (num_pending_ == 2) {
    return Status::Unsupported(LayerName(num_sites_) +
                               "more than two stores into the KV cache before attention, the third "
                               "is " +
                               Describe(node) + ": not one K and one V");
  }
  if (num_pending_ == 1 && interrupted_) {
    return Status::Unsupported(LayerName(num_sites_) +
                               "something is computed between the two stores into the KV cache, "
                               "before " +
                               Describe(node));
  }
  pending_[num_pending_++] = node;
  return Status::Ok();
}

Result<AttentionSite> GraphReader::CloseSite(ggml_tensor* attention) {
  const std::string layer = LayerName(num_sites_);
  const ggml_tensor* k = RootOf(attention->src[1]);
  const ggml_tensor* v = RootOf(attention->src[2]);
  if (k == v) {
    return Status::Unsupported(layer +
                               "keys and values are one tensor (MLA): " + Describe(attention));
  }
  if (!IsCacheTensor(k) || !IsCacheTensor(v)) {
    return Status::Unsupported(layer +
                               "attention over something else than the KV cache (encoder, "
                               "cross-attention or no cache): " +
                               Describe(attention));
  }
  if (num_pending_ != 2) {
    return Status::Unsupported(layer + "attention that follows " + std::to_string(num_pending_) +
                               " stores into the KV cache, expected K and V (layers that share KV, "
                               "cross-attention): " +
                               Describe(attention));
  }
  const ggml_tensor* first = RootOf(pending_[0]);
  const ggml_tensor* second = RootOf(pending_[1]);
  const bool k_first = first == k && second == v;
  if (!k_first && !(first == v && second == k)) {
    return Status::Unsupported(
        layer + "attention reads other KV than the layer stores: " + Describe(attention));
  }
  return AttentionSite{.layer = num_sites_,
                       .k_store = pending_[k_first ? 0 : 1],
                       .v_store = pending_[k_first ? 1 : 0],
                       .attention = attention,
                       .k_first = k_first};
}

Result<std::optional<AttentionSite>> GraphReader::Visit(ggml_tensor* node) {
  if (IsCacheStore(node)) {
    ATTNDB_RETURN_IF_ERROR(AddStore(node));
    return std::optional<AttentionSite>();
  }
  if (node->op != GGML_OP_FLASH_ATTN_EXT) {
    Skip(node->op);
    return std::optional<AttentionSite>();
  }
  ATTNDB_ASSIGN_OR_RETURN(const AttentionSite site, CloseSite(node));
  num_pending_ = 0;
  interrupted_ = false;
  ++num_sites_;
  return std::optional<AttentionSite>(site);
}

Status GraphReader::Finish() const {
  if (num_pending_ == 0) return Status::Ok();
  return Status::Unsupported(LayerName(num_sites_) + Describe(pending_[0]) +
                             " stores into the KV cache, but no flash-attention node reads it");
}

}  // namespace attndb::llama
