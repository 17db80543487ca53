#include "tests/crash/examination.h"

#include <cstring>
#include <set>

#include "attndb/context_name.h"
#include "testing/toy_oracle.h"

namespace attndb::test {
namespace {

using Tokens = std::vector<TokenId>;

constexpr TokenId kNext = 77;  // After the context: what the engine must run.
constexpr TokenId kProbe = 4321;
constexpr double kTolerance = 1e-4;

std::string Bytes(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// All that is stored of a context but for its times, which move, and its damage, which is a report.
std::string TextOf(const ContextInfo& info) {
  std::string text =
      IdName(info.id) + " '" + info.name + "' " + std::to_string(info.num_tokens) + " tokens, kv " +
      std::to_string(info.kv_bytes) + ", files " + std::to_string(info.file_bytes) + ", own " +
      std::to_string(info.own_bytes) + ", created " + std::to_string(info.created_us) + ", ttl " +
      std::to_string(info.ttl_seconds.value_or(-1)) + (info.pinned ? ", pinned" : "") +
      ", position " + std::to_string(info.first_position) + ", " + info.fingerprint + ", " +
      std::string(DTypeName(info.kv_dtype)) + ", layers " + std::to_string(info.num_layers);
  for (const std::string& head : info.non_finite_heads) text += ", not finite: " + head;
  for (const SegmentInfo& segment : info.segments) {
    text += "; segment " + std::to_string(segment.segment_id) + " " +
            std::to_string(segment.num_tokens_used) + " of " + std::to_string(segment.num_tokens) +
            " tokens, " + std::to_string(segment.num_contexts) + " contexts";
  }
  return text;
}

class Examiner {
 public:
  Examiner(const ToyModel& model, const std::vector<KnownContext>& contexts)
      : model_(model), contexts_(contexts) {}

  Examination Run(const std::string& path, const DBOptions& options) {
    const Result<DB> db = DB::Open(path, options);
    if (!db.ok()) {
      Report(Stage::kOpen, db.status());
      return std::move(examination_);
    }
    std::set<std::string> tenants;
    for (const KnownContext& context : contexts_) tenants.insert(context.tenant);
    for (const std::string& tenant : tenants) AskTenant(*db->ForTenant(tenant));
    for (const KnownContext& context : contexts_) {
      const DB handle = *db->ForTenant(context.tenant);
      AskAbout(handle, context);
      AskSession(handle, context, /*by_name=*/false);
      AskSession(handle, context, /*by_name=*/true);
    }
    for (const std::string& tenant : tenants) Verify(*db->ForTenant(tenant));
    return std::move(examination_);
  }

 private:
  void Report(Stage stage, const Status& status) {
    if (stage != Stage::kOpen && status.code() == StatusCode::kNotFound) {
      examination_.lost.push_back(std::string(StageName(stage)) + ": " + status.ToString());
      return;
    }
    examination_.reports.push_back({stage, status.ToString()});
    if (status.code() == StatusCode::kInternal || status.message().empty()) {
      examination_.absurdities.push_back(std::string(StageName(stage)) + ": " + status.ToString());
    }
  }
  void Answer(const std::string& question, std::string answer) {
    examination_.answers[question] = std::move(answer);
  }
  // Whether it may be compared with what a good store says.
  bool IsWell(Stage stage, const ContextInfo& info) {
    if (!info.damaged) return true;
    examination_.reports.push_back({stage, "context '" + info.name + "' is damaged"});
    return false;
  }

  void AskTenant(const DB& db) {
    const Result<std::vector<ContextInfo>> infos = db.List();
    if (!infos.ok()) return Report(Stage::kList, infos.status());
    std::string names;
    for (const ContextInfo& info : *infos) {
      names += " " + info.name;
      if (IsWell(Stage::kList, info)) Answer("list " + db.tenant() + " " + info.name, TextOf(info));
    }
    Answer("list " + db.tenant(), names);
  }

  void AskAbout(const DB& db, const KnownContext& context) {
    const std::string label = db.tenant() + " " + context.name;
    const Result<ContextInfo> info = db.Describe(context.name);
    if (!info.ok()) {
      Report(Stage::kDescribe, info.status());
    } else if (IsWell(Stage::kDescribe, *info)) {
      Answer("describe " + label, TextOf(*info));
    }
    const Result<Tokens> tokens = db.Tokens(context.name);
    if (!tokens.ok()) return Report(Stage::kTokens, tokens.status());
    Answer("tokens " + label, *tokens == context.tokens ? "right" : "other");
    if (*tokens != context.tokens) examination_.wrong_outputs.push_back("tokens " + label);
  }

  void AskSession(const DB& db, const KnownContext& context, bool by_name) {
    const std::string label =
        db.tenant() + " " + context.name + (by_name ? " by name" : " by prefix");
    Tokens prompt = context.tokens;
    prompt.push_back(kNext);
    Result<SessionStart> start =
        db.CreateSession(model_.spec(), prompt, {.context = by_name ? context.name : ""});
    if (!start.ok()) return Report(Stage::kLookup, start.status());
    const uint64_t num_reused = start->session.num_reused();
    Answer("reused " + label, std::to_string(num_reused));
    std::vector<float> step;
    std::vector<float> probe;
    Status status = model_.Step(&start->session, start->rest, &step);
    if (status.ok()) status = model_.Probe(&start->session, kProbe, &probe);
    if (!status.ok()) return Report(Stage::kAttend, status);
    // The same chain of runs gives the same bits; another one the same numbers.
    Answer("step " + label + " from " + std::to_string(num_reused), Bytes(step));
    Answer("probe " + label + " from " + std::to_string(num_reused), Bytes(probe));
    if (OutputError(model_, step, OracleStep(model_, prompt, num_reused)) > kTolerance ||
        OutputError(model_, probe, OracleProbe(model_, prompt, kProbe)) > kTolerance) {
      examination_.wrong_outputs.push_back("attend " + label);
    }
  }

  void Verify(const DB& db) {
    const Result<VerifyReport> report = db.Verify();
    if (!report.ok()) return Report(Stage::kVerify, report.status());
    for (const Damage& damage : report->damages) {
      examination_.reports.push_back({Stage::kVerify, damage.file + ": " + damage.message});
    }
  }

  const ToyModel& model_;
  const std::vector<KnownContext>& contexts_;
  Examination examination_;
};

}  // namespace

const char* StageName(Stage stage) {
  static constexpr const char* kNames[kNumStages] = {"open",   "list",   "describe", "tokens",
                                                     "lookup", "attend", "verify"};
  return kNames[static_cast<size_t>(stage)];
}

Examination Examine(const std::string& path, const DBOptions& options, const ToyModel& model,
                    const std::vector<KnownContext>& contexts) {
  return Examiner(model, contexts).Run(path, options);
}

std::vector<std::string> Differences(const Examination& expected, const Examination& found) {
  std::vector<std::string> differences;
  for (const auto& [question, answer] : found.answers) {
    const auto other = expected.answers.find(question);
    if (other != expected.answers.end() && other->second != answer) {
      differences.push_back(question);
    }
  }
  return differences;
}

}  // namespace attndb::test
