#include "bench/e2e/truncation_ways.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "engines/llama/window.h"

namespace attndb::bench {
namespace {

// Copies the last `left` tokens' K and V to another session, where they are the first: keys that
// were turned for one position stand at another.
Result<Session> KeepNaively(uint64_t left, const DB& db, const llama::LlamaEngine& engine,
                            const Session& full) {
  ATTNDB_ASSIGN_OR_RETURN(Session naive, EmptySession(Way::kNaive, db, engine));
  const ModelSpec& spec = engine.spec();
  const auto rows = static_cast<int64_t>(left);
  for (uint32_t i = 0; i < spec.num_layers(); ++i) {
    const auto layer = static_cast<LayerId>(i);
    const LayerSpec& shape = spec.layers[i];
    const int64_t heads = shape.num_kv_heads;
    std::vector<float> k(left * shape.num_kv_heads * shape.head_dim);
    std::vector<float> v(left * shape.num_kv_heads * shape.v_head_dim);
    const auto of_k =
        MutableTensorView::Contiguous(k.data(), DType::kFloat32, rows, heads, shape.head_dim);
    const auto of_v =
        MutableTensorView::Contiguous(v.data(), DType::kFloat32, rows, heads, shape.v_head_dim);
    const uint64_t end = full.num_tokens();
    ATTNDB_RETURN_IF_ERROR(full.ReadKv(layer, {end - left, end}, of_k, of_v));
    ATTNDB_RETURN_IF_ERROR(naive.Append(layer, {of_k.data, of_k.dtype, of_k.shape, of_k.strides},
                                        {of_v.data, of_v.dtype, of_v.shape, of_v.strides}));
  }
  return naive;
}

Result<Session> Recompute(std::span<const TokenId> tokens, const DB& db,
                          llama::LlamaEngine* engine) {
  ATTNDB_ASSIGN_OR_RETURN(Session session, EmptySession(Way::kRecompute, db, *engine));
  ATTNDB_RETURN_IF_ERROR(engine->Prefill(session, tokens));
  return session;
}

// By hand what the engine's window does, which keeps a sink always.
Result<Session> DropAll(const Window& window, Session session) {
  ATTNDB_RETURN_IF_ERROR(session.DropOldest(window.tokens - window.left, {.sink = false}));
  ATTNDB_RETURN_IF_ERROR(session.Rebase(static_cast<int64_t>(window.left)));
  return session;
}

Result<Session> LetEngine(const Window& window, uint64_t keep_first, Session session) {
  const llama::WindowOptions options = {
      .window_tokens = window.tokens,
      .keep_first = keep_first,
      .keep_ratio = static_cast<double>(window.left) / static_cast<double>(window.tokens)};
  ATTNDB_RETURN_IF_ERROR(llama::MakeRoom(options, window.tokens - window.left, &session).status());
  return session;
}

}  // namespace

std::string_view WayName(Way way) {
  switch (way) {
    case Way::kFull:
      return "full";
    case Way::kRecompute:
      return "recompute";
    case Way::kNoSink:
      return "no_sink";
    case Way::kSink:
      return "sink";
    case Way::kKeep4:
      return "keep_4";
    case Way::kKeep16:
      return "keep_16";
    case Way::kUnrotated:
      return "unrotated";
    case Way::kNaive:
      return "naive";
  }
  return "unknown";
}

Result<Session> EmptySession(Way way, const DB& db, const llama::LlamaEngine& engine) {
  ModelSpec spec = engine.spec();
  spec.unrotated_keys = way == Way::kUnrotated;
  const TokenId any[] = {0};  // A session is made for a prompt; with reuse off it stays empty.
  ATTNDB_ASSIGN_OR_RETURN(SessionStart start,
                          db.CreateSession(spec, any, {.reuse = false, .plan = "full"}));
  return std::move(start.session);
}

Result<Session> Truncate(Way way, const Window& window, const DB& db, llama::LlamaEngine* engine,
                         std::span<const TokenId> tokens, Session full) {
  switch (way) {
    case Way::kFull:
      return full;
    case Way::kRecompute:
      return Recompute(tokens.last(window.left), db, engine);
    case Way::kNoSink:
      return DropAll(window, std::move(full));
    case Way::kSink:
      return LetEngine(window, 0, std::move(full));
    case Way::kKeep4:
    case Way::kUnrotated:
      return LetEngine(window, 4, std::move(full));
    case Way::kKeep16:
      return LetEngine(window, 16, std::move(full));
    case Way::kNaive:
      return KeepNaively(window.left, db, *engine, full);
  }
  return Status::InvalidArgument("no such way");
}

}  // namespace attndb::bench
