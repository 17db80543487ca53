#include "tests/crash/kill_protocol.h"

#include <algorithm>
#include <sstream>

#include "attndb/context_name.h"
#include "common/hex.h"
#include "common/sha256.h"
#include "testing/toy_oracle.h"

namespace attndb::test {
namespace {

constexpr TokenId kNext = 77;
constexpr TokenId kProbe = 4321;
constexpr double kTolerance = 1e-4;

std::string LabelOf(const ContextInfo& info) {
  return info.name.empty() ? IdName(info.id) : info.name;
}

}  // namespace

ToyModel KillModel() {
  LayerSpec first;
  first.num_q_heads = 2;
  first.num_kv_heads = 1;
  first.head_dim = 16;
  first.v_head_dim = 8;
  first.rope.layout = RopeLayout::kInterleaved;
  LayerSpec second = first;
  second.num_kv_heads = 2;
  second.v_head_dim = 16;
  ModelSpec spec;
  spec.layers = {first, second};
  spec.fingerprint = "kill";
  return ToyModel(spec);
}

std::vector<TokenId> StreamTokens(uint64_t stream, uint64_t num_tokens) {
  return ToyModel::Tokens(num_tokens, 1000 + stream);
}

std::optional<uint64_t> StreamOf(const DB& db, const std::string& label) {
  const Result<std::vector<TokenId>> tokens = db.Tokens(label);
  if (!tokens.ok()) return std::nullopt;
  for (uint64_t stream = 0; stream < kNumStreams; ++stream) {
    if (*tokens == StreamTokens(stream, tokens->size())) return stream;
  }
  return std::nullopt;
}

Result<ContextState> Observe(const DB& db, const ToyModel& model, const ContextInfo& info) {
  const std::string label = LabelOf(info);
  ContextState state;
  state.num_tokens = info.num_tokens;
  state.pinned = info.pinned;
  ATTNDB_ASSIGN_OR_RETURN(const ContextInfo detail, db.Describe(label));
  for (const SegmentInfo& segment : detail.segments) {
    state.chain +=
        std::to_string(segment.segment_id) + ":" + std::to_string(segment.num_tokens_used) + ",";
  }
  ATTNDB_ASSIGN_OR_RETURN(std::vector<TokenId> prompt, db.Tokens(label));
  prompt.push_back(kNext);
  ATTNDB_ASSIGN_OR_RETURN(SessionStart start,
                          db.CreateSession(model.spec(), prompt, {.context = label}));
  if (start.rest != std::vector<TokenId>{kNext}) {
    return Status::Internal(label + ": " + std::to_string(start.rest.size()) +
                            " tokens are not reused");
  }
  std::vector<float> out;
  std::vector<float> probe;
  ATTNDB_RETURN_IF_ERROR(model.Step(&start.session, start.rest, &out));
  ATTNDB_RETURN_IF_ERROR(model.Probe(&start.session, kProbe, &probe));
  if (OutputError(model, out, OracleStep(model, prompt, prompt.size() - 1)) > kTolerance ||
      OutputError(model, probe, OracleProbe(model, prompt, kProbe)) > kTolerance) {
    return Status::Internal(label + ": wrong outputs");
  }
  out.insert(out.end(), probe.begin(), probe.end());
  state.outputs = HexEncode(Sha256::Of(std::as_bytes(std::span(out))));
  return state;
}

Result<StoreState> ObserveAll(const DB& db, const ToyModel& model) {
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ContextInfo> infos, db.List());
  StoreState states;
  for (const ContextInfo& info : infos) {
    ATTNDB_ASSIGN_OR_RETURN(states[LabelOf(info)], Observe(db, model, info));
  }
  return states;
}

std::string IntentLine(const Intent& intent) {
  return "intent " + intent.operation + " " + intent.name + "\n";
}

std::string StateBlock(const StoreState& state) {
  std::string text = "state\n";
  for (const auto& [name, context] : state) {
    text += "context " + name + " " + std::to_string(context.num_tokens) + " " +
            (context.pinned ? "pinned " : "free ") + context.chain + " " + context.outputs + "\n";
  }
  return text + "end\n";
}

WorkerReport ParseWorkerReport(std::string_view text) {
  WorkerReport report;
  StoreState state;
  for (size_t end = 0; (end = text.find('\n')) != std::string_view::npos;
       text.remove_prefix(end + 1)) {
    std::istringstream line{std::string(text.substr(0, end))};
    std::string word;
    line >> word;
    if (word == "intent") {
      ++report.num_begun;
      report.intent.emplace();
      line >> report.intent->operation >> report.intent->name;
    } else if (word == "state") {
      state.clear();
    } else if (word == "context") {
      std::string name;
      std::string pinned;
      ContextState context;
      line >> name >> context.num_tokens >> pinned >> context.chain >> context.outputs;
      context.pinned = pinned == "pinned";
      state[name] = context;
    } else if (word == "end") {
      report.state = state;
      report.intent.reset();
      ++report.num_acknowledged;
    }
  }
  return report;
}

}  // namespace attndb::test
