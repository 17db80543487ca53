// Records which functions one Attend enters: `auto` over a stored context, called by llama.cpp.
//
//   rooms_probe FOLDER      prints a line for each pair of functions, caller and called:
//                           two addresses of this program
//
// The library and the adapter are compiled with -finstrument-functions. Nothing of the product
// knows of this.
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "common/check.h"
#include "engines/llama/engine_test_util.h"
#include "engines/llama/llama_engine.h"
#include "testing/toy_model.h"

namespace attndb {
namespace {

constexpr size_t kMaxDepth = 256;
thread_local void* stack[kMaxDepth];
thread_local size_t depth = 0;
thread_local size_t attend_depth = 0;  // Of the Attend under way; 0: none is.

std::mutex mutex;
bool records = false;
std::set<std::pair<void*, void*>>* pairs = nullptr;

void* AttendPart() { return reinterpret_cast<void*>(&Session::AttendPart); }

void Enter(void* function) {
  if (attend_depth != 0) {
    const std::lock_guard lock(mutex);
    if (records) pairs->insert({stack[depth - 1], function});
  } else if (function == AttendPart()) {
    attend_depth = depth + 1;
  }
  ATTNDB_CHECK(depth < kMaxDepth);
  stack[depth++] = function;
}

void Exit() {
  if (depth == attend_depth) attend_depth = 0;
  --depth;
}

TensorView ViewOf(const std::vector<float>& rows, uint32_t num_heads, uint32_t dim) {
  return TensorView::Contiguous(rows.data(), DType::kFloat32,
                                static_cast<int64_t>(rows.size() / (size_t{num_heads} * dim)),
                                num_heads, dim);
}

// Empty, or what went wrong.
std::string Run(const std::string& folder) {
  using llama::LlamaEngine;
  Result<LlamaEngine> engine = LlamaEngine::Open(llama::TinyModel("llama"),
                                                 llama::TinyOptions(llama::HookVariant::kRewrite));
  if (!engine.ok()) return engine.status().message();
  // Long enough for `auto` to have a choice.
  constexpr size_t kTokens = 4000;
  const std::vector<TokenId> tokens =
      llama::RandomIds(kTokens, 1, static_cast<uint32_t>(engine->info().vocab_size));
  Result<DB> db = DB::Open(folder, {.measure_machine = false});
  if (!db.ok()) return db.status().message();
  const test::ToyModel toy(engine->spec());
  {
    Session session =
        std::move(db->CreateSession(engine->spec(), {tokens.data(), 1}, {.reuse = false})->session);
    for (LayerId layer = 0; layer < engine->spec().num_layers(); ++layer) {
      const LayerSpec& shape = engine->spec().layers[layer];
      const Status status = session.Append(
          layer, ViewOf(toy.Keys(layer, tokens, 0), shape.num_kv_heads, shape.head_dim),
          ViewOf(toy.Values(layer, tokens, 0), shape.num_kv_heads, shape.v_head_dim));
      if (!status.ok()) return status.message();
    }
    const Result<ContextId> stored = db->Store(session, tokens);
    if (!stored.ok()) return stored.status().message();
  }
  const Status built = db->WaitForBackground();
  if (!built.ok()) return built.message();
  std::vector<TokenId> prompt = tokens;
  prompt.push_back(1);
  Result<SessionStart> start =
      db->CreateSession(engine->spec(), prompt, {.plan = "auto(error=0.3)"});
  if (!start.ok()) return start.status().message();
  if (start->session.num_reused() != kTokens) return "nothing was reused";
  {
    const std::lock_guard lock(mutex);
    records = true;
  }
  const Status run = engine->Prefill(start->session, start->rest);
  {
    const std::lock_guard lock(mutex);
    records = false;
  }
  if (!run.ok()) return run.message();
  const std::string plan = start->session.Explain(0)->heads[0].plan;
  return plan.starts_with("auto") ? "" : "the head runs " + plan;
}

}  // namespace
}  // namespace attndb

extern "C" {
void __cyg_profile_func_enter(void* function, void* /*call_site*/);
void __cyg_profile_func_enter(void* function, void* /*call_site*/) { attndb::Enter(function); }
void __cyg_profile_func_exit(void* function, void* /*call_site*/);
void __cyg_profile_func_exit(void* /*function*/, void* /*call_site*/) { attndb::Exit(); }
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  attndb::pairs = new std::set<std::pair<void*, void*>>;  // Outlives all that ends after main.
  const std::string error = attndb::Run(argv[1]);
  if (!error.empty()) {
    std::fprintf(stderr, "rooms_probe: %s\n", error.c_str());
    return 1;
  }
  for (const auto& [caller, called] : *attndb::pairs) std::printf("%p %p\n", caller, called);
  return 0;
}
