// Records which functions one Attend enters, `auto` over a stored context, called by llama.cpp, and
// which one Store, of what follows a stored context.
//
//   rooms_probe FOLDER      prints a line for each pair of functions, caller and called: "attend"
//   or
//                           "store", and two addresses of this program
//
// The library and the adapter are compiled with -finstrument-functions. Nothing of the product
// knows of this.
#include <array>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <set>
#include <span>
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
// Depth of the recorded call under way; 0: no call is recorded.
thread_local size_t call_depth = 0;

// What is recorded: calls of this function, and of whom they come to.
struct Recorded {
  const char* name;
  void* function;
  std::set<std::pair<void*, void*>> pairs;
};

std::mutex mutex;
Recorded* recorded = nullptr;  // Null: nothing is.

void Record(Recorded* what) {
  const std::lock_guard lock(mutex);
  recorded = what;
}

void Enter(void* function) {
  {
    const std::lock_guard lock(mutex);
    if (recorded != nullptr && call_depth != 0) {
      recorded->pairs.insert({stack[depth - 1], function});
    } else if (recorded != nullptr && function == recorded->function) {
      call_depth = depth + 1;
    }
  }
  ATTNDB_CHECK(depth < kMaxDepth);
  stack[depth++] = function;
}

void Exit() {
  if (depth == call_depth) call_depth = 0;
  --depth;
}

TensorView ViewOf(const std::vector<float>& rows, uint32_t num_heads, uint32_t dim) {
  return TensorView::Contiguous(rows.data(), DType::kFloat32,
                                static_cast<int64_t>(rows.size() / (size_t{num_heads} * dim)),
                                num_heads, dim);
}

Status Append(const test::ToyModel& toy, std::span<const TokenId> tokens, Session* session) {
  const auto first = static_cast<int64_t>(session->num_tokens());
  for (LayerId layer = 0; layer < session->spec().num_layers(); ++layer) {
    const LayerSpec& shape = session->spec().layers[layer];
    ATTNDB_RETURN_IF_ERROR(session->Append(
        layer, ViewOf(toy.Keys(layer, tokens, first), shape.num_kv_heads, shape.head_dim),
        ViewOf(toy.Values(layer, tokens, first), shape.num_kv_heads, shape.v_head_dim)));
  }
  return Status::Ok();
}

// Empty, or what went wrong.
std::string Run(const std::string& folder, Recorded* attend, Recorded* store) {
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
    const auto first = std::span(tokens).first(kTokens - 100);
    Status status = Append(toy, first, &session);
    if (status.ok()) status = db->Store(session, first).status();
    if (status.ok()) status = Append(toy, std::span(tokens).subspan(first.size()), &session);
    if (!status.ok()) return status.message();
    Record(store);
    const Result<ContextId> stored = db->Store(session, tokens);
    Record(nullptr);
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
  Record(attend);
  const Status run = engine->Prefill(start->session, start->rest);
  Record(nullptr);
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
  // Outlives all that ends after main.
  auto* const recorded = new std::array<attndb::Recorded, 2>{
      attndb::Recorded{"attend", reinterpret_cast<void*>(&attndb::Session::AttendPart), {}},
      attndb::Recorded{"store", reinterpret_cast<void*>(&attndb::DB::Store), {}}};
  const std::string error = attndb::Run(argv[1], &(*recorded)[0], &(*recorded)[1]);
  if (!error.empty()) {
    std::fprintf(stderr, "rooms_probe: %s\n", error.c_str());
    return 1;
  }
  for (const attndb::Recorded& one : *recorded) {
    for (const auto& [caller, called] : one.pairs) {
      std::printf("%s %p %p\n", one.name, caller, called);
    }
  }
  return 0;
}
