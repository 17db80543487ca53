// The process that kill_test kills: works on a store until then, and says what it did.
//
//   kill_worker <store> <seed>      acknowledgements go to standard output
//
// Exit code 1 and a message on standard error if anything fails: nothing may, here.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "common/random.h"
#include "testing/store_files.h"
#include "tests/crash/kill_protocol.h"

namespace attndb::test {
namespace {

using Tokens = std::vector<TokenId>;

// Two imports, or a hundred small contexts: so that most stores evict.
constexpr uint64_t kQuotaBytes = 4'000'000;
constexpr uint64_t kMaxContexts = 12;  // Each is observed after each operation.

void Say(const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (written < 0) _exit(2);
    done += static_cast<size_t>(written);
  }
}

class Worker {
 public:
  Worker(DB db, uint64_t seed) : db_(std::move(db)), random_(seed), model_(KillModel()) {}

  // Returns when something fails.
  Status Run() {
    ATTNDB_RETURN_IF_ERROR(db_.SetQuota(kQuotaBytes));
    for (;;) {
      ATTNDB_ASSIGN_OR_RETURN(state_, ObserveAll(db_, model_));
      Say(StateBlock(state_));
      const Status status = DoOne();
      if (status.code() == StatusCode::kResourceExhausted) {
        ATTNDB_RETURN_IF_ERROR(CheckRefusal());
        continue;
      }
      ATTNDB_RETURN_IF_ERROR(status);
    }
  }

 private:
  // A pinned import and one that is under way can be more than the quota allows. What fills it must
  // be segments that contexts use.
  Status CheckRefusal() const {
    ATTNDB_RETURN_IF_ERROR(db_.WaitForBackground());  // It may hold what was dropped just now.
    ATTNDB_ASSIGN_OR_RETURN(const auto bytes_of, SegmentBytes(db_));
    uint64_t used_bytes = 0;
    for (const auto& [segment, bytes] : bytes_of) used_bytes += bytes;
    ATTNDB_ASSIGN_OR_RETURN(const DBStats stats, db_.Stats());
    if (stats.file_bytes == used_bytes) return Status::Ok();
    return Status::Internal("contexts use " + std::to_string(used_bytes) + " bytes of " +
                            std::to_string(stats.file_bytes) + " that count");
  }

  void Announce(const std::string& operation, const std::string& name) {
    Say(IntentLine({operation, name}));
  }
  std::string AnyName() {
    auto context = state_.begin();
    std::advance(context, static_cast<int64_t>(random_.Uniform(state_.size())));
    return context->first;
  }

  Status DoOne() {
    if (state_.size() >= kMaxContexts) return Drop();
    switch (random_.Uniform(10)) {
      case 0:
      case 1:
        return Import();
      case 2:
      case 3:
      case 4:
        return Chat();
      case 5:
        return state_.empty() ? Store() : Drop();
      case 6:
        return random_.OneIn(2) ? Compact() : Pin();
      case 7:
        return Ask();
      default:
        return Store();
    }
  }

  // A prompt through the engine, and its context.
  Status StoreTokens(const Tokens& tokens, const SessionOptions& from, const StoreOptions& to) {
    ATTNDB_ASSIGN_OR_RETURN(SessionStart start, db_.CreateSession(model_.spec(), tokens, from));
    ATTNDB_RETURN_IF_ERROR(model_.Step(&start.session, start.rest));
    return db_.Store(start.session, tokens, to).status();
  }

  Status Store() {
    const uint64_t stream = random_.Uniform(kNumStreams);
    const uint64_t num_tokens = 1 + random_.Uniform(200);
    const std::string name = "s." + std::to_string(stream) + "." + std::to_string(num_tokens);
    Announce("store", name);
    return StoreTokens(StreamTokens(stream, num_tokens), {}, {.name = name, .replace = true});
  }

  Status Chat() {
    const uint64_t stream = random_.Uniform(kNumStreams);
    const std::string name = "chat." + std::to_string(stream);
    const auto context = state_.find(name);
    const uint64_t so_far = context == state_.end() ? 0 : context->second.num_tokens;
    const Tokens tokens = StreamTokens(stream, so_far % 1000 + 1 + random_.Uniform(20));
    Announce("chat", name);
    return StoreTokens(tokens, {.context = so_far == 0 ? "" : name},
                       {.name = name, .replace = true});
  }

  // Long enough for two pieces that are sealed before all is stored.
  Status Import() {
    const uint64_t stream = random_.Uniform(kNumStreams);
    const uint64_t num_tokens = kMaxStreamTokens - random_.Uniform(1000);
    const std::string name = "i." + std::to_string(stream) + "." + std::to_string(num_tokens);
    const Tokens tokens = StreamTokens(stream, num_tokens);
    std::vector<std::vector<float>> data;
    std::vector<LayerKv> layers;
    for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
      const LayerSpec& spec = model_.spec().layers[layer];
      const auto rows = static_cast<int64_t>(num_tokens);
      data.push_back(model_.Keys(layer, tokens, 0));
      const float* const k = data.back().data();
      data.push_back(model_.Values(layer, tokens, 0));
      layers.push_back(
          {TensorView::Contiguous(k, DType::kFloat32, rows, spec.num_kv_heads, spec.head_dim),
           TensorView::Contiguous(data.back().data(), DType::kFloat32, rows, spec.num_kv_heads,
                                  spec.v_head_dim)});
    }
    Announce("import", name);
    return db_.Import(model_.spec(), tokens, layers, {.name = name, .replace = true}).status();
  }

  // By an index of the longest context, which is built beside what comes next, or before it.
  Status Ask() {
    const auto longest = std::ranges::max_element(
        state_, {}, [](const auto& context) { return context.second.num_tokens; });
    if (longest == state_.end()) return Store();
    const std::string plan =
        random_.OneIn(2) ? "topk(k=8,index=graph)" : "topk(k=8,index=clustered)";
    Announce("ask", longest->first);
    ATTNDB_ASSIGN_OR_RETURN(Tokens prompt, db_.Tokens(longest->first));
    prompt.push_back(1);
    ATTNDB_ASSIGN_OR_RETURN(
        SessionStart start,
        db_.CreateSession(model_.spec(), prompt, {.context = longest->first, .plan = plan}));
    ATTNDB_RETURN_IF_ERROR(model_.Step(&start.session, start.rest));
    return random_.OneIn(2) ? db_.WaitForBackground() : Status::Ok();
  }

  Status Drop() {
    const std::string name = AnyName();
    Announce("drop", name);
    return db_.Drop(name);
  }

  Status Compact() {
    Announce("compact", "-");
    return db_.Compact({.segment_tokens = random_.OneIn(2) ? 0 : 1 + random_.Uniform(10000)});
  }

  // At most one is pinned, or nothing could be evicted in the end.
  Status Pin() {
    if (state_.empty()) return Store();
    const std::string name = AnyName();
    Announce("pin", name);
    for (const auto& [other, context] : state_) {
      if (context.pinned) ATTNDB_RETURN_IF_ERROR(db_.Pin(other, false));
    }
    return db_.Pin(name, true);
  }

  const DB db_;
  Random random_;
  const ToyModel model_;
  StoreState state_;  // Before the operation.
};

// Every other worker builds companions beside its operations; the others get more of these done.
Status Main(const char* path, const char* seed_text) {
  const uint64_t seed = std::strtoull(seed_text, nullptr, 0);
  ATTNDB_ASSIGN_OR_RETURN(DB db, DB::Open(path, {.background_builds = seed % 2 == 0}));
  return Worker(std::move(db), seed).Run();
}

}  // namespace
}  // namespace attndb::test

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  const attndb::Status status = attndb::test::Main(argv[1], argv[2]);
  std::fprintf(stderr, "kill_worker: %s\n", status.ToString().c_str());
  return 1;
}
