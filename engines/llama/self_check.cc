#include "engines/llama/self_check.h"

#include <llama.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <span>

#include "attndb/db.h"
#include "attndb/num_cores.h"
#include "engines/llama/child_process.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/llama_log.h"
#include "engines/llama/plain_context.h"
#include "engines/llama/self_check_model.h"
#include "engines/llama/source_tree.h"

namespace attndb::llama {
namespace {

constexpr uint32_t kNumTokens = 48;  // Tokens of the first pass: more than a tile of AMX has rows.
constexpr uint32_t kThreadsMax = 4;
constexpr double kTimeoutSeconds = 120;
// Distance of the logits over their length. Rounding activations to 8 bits, which is what a
// quantized product does, moves these by 0.02; wrong products move them by 0.5 and more.
constexpr double kDifferenceMax = 0.1;
constexpr std::string_view kInfoPrefix = "system info: ";

EngineOptions Options(const std::string& folder) {
  EngineOptions options;
  options.num_threads = std::min(NumCores(), kThreadsMax);
  options.cache_dir = folder;
  return options;
}

std::vector<TokenId> Tokens() {
  std::vector<TokenId> tokens;
  for (uint32_t i = 0; i <= kNumTokens; ++i) {
    tokens.push_back(static_cast<TokenId>((i * 37 + 11) % kSelfCheckVocab));
  }
  return tokens;
}

// After all tokens: the last one in a pass of its own, as an answer is decoded.
Result<std::vector<float>> QuantizedLogits(const std::string& folder) {
  const std::string path = folder + "/quantized.gguf";
  ATTNDB_RETURN_IF_ERROR(WriteSelfCheckModel(path, SelfCheckWeights::kQuantized));
  ATTNDB_ASSIGN_OR_RETURN(LlamaEngine engine, LlamaEngine::Open(path, Options(folder)));
  ATTNDB_ASSIGN_OR_RETURN(const DB db, DB::Open(folder + "/store", {.background_builds = false}));
  const std::vector<TokenId> tokens = Tokens();
  const std::span<const TokenId> all = tokens;
  ATTNDB_ASSIGN_OR_RETURN(SessionStart start, db.CreateSession(engine.spec(), all.first(1)));
  ATTNDB_RETURN_IF_ERROR(engine.Prefill(start.session, all.first(kNumTokens)));
  ATTNDB_RETURN_IF_ERROR(engine.Decode(start.session, tokens.back()));
  ATTNDB_ASSIGN_OR_RETURN(const std::span<const float> logits, engine.Logits());
  return std::vector<float>(logits.begin(), logits.end());
}

// Plain llama.cpp, float32 throughout: other code of ggml's, and none of attndb's.
Result<std::vector<float>> ExactLogits(const std::string& folder) {
  const std::string path = folder + "/exact.gguf";
  ATTNDB_RETURN_IF_ERROR(WriteSelfCheckModel(path, SelfCheckWeights::kExact));
  ATTNDB_ASSIGN_OR_RETURN(const LlamaEngine engine, LlamaEngine::Open(path, Options(folder)));
  ATTNDB_ASSIGN_OR_RETURN(
      const std::unique_ptr<PlainContext> plain,
      engine.OpenPlain({.num_tokens = 256, .flash_attention = false, .kv_dtype = DType::kFloat32}));
  ATTNDB_RETURN_IF_ERROR(plain->Run(Tokens()));
  ATTNDB_ASSIGN_OR_RETURN(const std::span<const float> logits, plain->Logits());
  return std::vector<float>(logits.begin(), logits.end());
}

double Difference(std::span<const float> found, std::span<const float> expected) {
  double distance = 0;
  double length = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = double{found[i]} - double{expected[i]};
    distance += difference * difference;
    length += double{expected[i]} * double{expected[i]};
  }
  return std::sqrt(distance / length);
}

int RunStep(const std::string& folder, const ForwardStep& forward) {
  BeginLog();  // llama.cpp's log is of no use to the reader.
  dprintf(STDOUT_FILENO, "%s%s\n", std::string(kInfoPrefix).c_str(), llama_print_system_info());
  const Status status = forward(folder);
  if (status.ok()) return 0;
  dprintf(STDERR_FILENO, "%s\n", status.message().c_str());
  return 1;
}

std::string LastLine(std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  const std::string line(text.substr(text.rfind('\n') + 1));
  return line.starts_with(kInfoPrefix) ? "" : line;
}

std::string Advice(const SelfCheck& check) {
  const bool has_amx = std::ranges::any_of(
      check.instruction_sets, [](const std::string& name) { return name.starts_with("AMX"); });
  std::string advice = HowToBuildLlama(HasSources(ProjectFolders()));
  if (has_amx) {
    advice +=
        ". It was built to use AMX, and some versions of GCC (12.2, Debian 12's, is one) drop the "
        "stores to its tile configuration (GCC bug 114098, llama.cpp pull request 26954): a newer "
        "compiler, or the flags -mno-amx-tile -mno-amx-int8 -mno-amx-bf16, make one that works";
  } else if (check.signal == "SIGILL") {
    advice += "; it was compiled for a processor that has more instructions than this one";
  }
  return advice;
}

}  // namespace

Result<double> ForwardDifference(const std::string& folder) {
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<float> found, QuantizedLogits(folder));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<float> expected, ExactLogits(folder));
  return Difference(found, expected);
}

bool IsRounding(double difference) { return difference <= kDifferenceMax; }

Status CheckForward(const std::string& folder) {
  ATTNDB_ASSIGN_OR_RETURN(const double difference, ForwardDifference(folder));
  if (IsRounding(difference)) return Status::Ok();
  char text[160];
  std::snprintf(text, sizeof(text),
                "a quantized model's logits differ by %.3g of their length from those of the same "
                "weights in float32, expected at most %.3g",
                difference, kDifferenceMax);
  return Status::Internal(text);
}

std::vector<std::string> ReadInstructionSets(std::string_view system_info) {
  constexpr std::string_view kIsUsed = " = 1";
  std::vector<std::string> names;
  for (size_t at = system_info.find(kIsUsed); at != std::string_view::npos;
       at = system_info.find(kIsUsed, at + 1)) {
    const size_t space = system_info.rfind(' ', at - 1);
    const size_t begin = space == std::string_view::npos ? 0 : space + 1;
    const std::string name(system_info.substr(begin, at - begin));
    // How it is built, but not what for.
    if (name != "LLAMAFILE" && name != "OPENMP" && name != "REPACK") names.push_back(name);
  }
  return names;
}

SelfCheck RunSelfCheck(const std::string& folder, const ForwardStep& forward) {
  SelfCheck check;
  const auto start = std::chrono::steady_clock::now();
  const Result<ChildEnd> end =
      RunInChild([&] { return RunStep(folder, forward); }, kTimeoutSeconds);
  check.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!end.ok()) {
    check.problem = end.status().message();
    check.advice = "free memory and processes of this user, and try again";
    return check;
  }
  if (end->output.starts_with(kInfoPrefix)) {
    check.instruction_sets =
        ReadInstructionSets(std::string_view(end->output).substr(0, end->output.find('\n')));
  }
  check.ok = end->ok();
  if (check.ok) return check;
  const std::string words = LastLine(end->output);
  if (end->timed_out) {
    check.problem = "the forward of a tiny model did not end within 120 s";
    check.advice = "try again when the machine is less busy, or with fewer cores (taskset)";
    return check;
  }
  if (end->signal != 0) {
    check.signal = SignalName(end->signal);
    check.problem = "the forward of a tiny model died of " + check.signal;
  } else {
    check.problem = "the forward of a tiny model failed";
  }
  if (!words.empty()) check.problem += ": " + words;
  check.advice = Advice(check);
  return check;
}

}  // namespace attndb::llama
