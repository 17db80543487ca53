// Question: how many tokens a second does SmolLM2 decode at a long context, by llama.cpp alone, by
// attndb's exact plan and by a sparse plan?
//
// Method: the model's RoPE is stretched by YaRN to the context's length, in all of them. A real
//         text is read once into a store that stays, each token attending to a window (a prefill of
//         all pairs takes an hour at 32K). llama.cpp reads a piece of the text, and its KV cache
//         (float16, flash attention) is filled with copies of that up to the same length: its time
//         does not depend on what the cache holds. Then rounds: each side in turn decodes the same
//         next tokens of the text, one by one, and forgets them. Medians and MAD over tokens;
//         ratios of medians within a round, median over rounds. The first round is a warm-up.
//
//   bench_decode --text book.txt --store build/bench/store --context 32768 --json decode_long.json
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "bench/e2e/stored_text.h"
#include "bench/sample_stats.h"
#include "bench/what_ran.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/plain_context.h"

namespace attndb::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
using llama::LlamaEngine;

constexpr uint64_t kTrainedTokens = 8192;  // Tokens that SmolLM2 was trained with.
// Tokens that llama.cpp alone runs; the rest of its cache repeats them.
constexpr uint64_t kPlainTokens = 2048;
constexpr char kPrefillPlan[] = "window(sink=64,window=4096)";

struct Settings {
  TextOptions text;
  uint64_t context = 32768;
  std::vector<std::string> plans = {"full", "auto(error=0.01)"};
  int rounds = 5;
  uint64_t decode_tokens = 8;  // A round.
  bool without_plain = false;
};

// One way to decode: runs a token, and forgets what was run.
struct Side {
  std::string name;
  std::function<Status(TokenId)> decode;
  std::function<Status()> forget;
  std::vector<double> ms;
  std::vector<double> round_ms;  // Medians.
};

Status RunRound(Side* side, std::span<const TokenId> tokens, bool counts) {
  std::vector<double> ms;
  for (const TokenId token : tokens) {
    const Clock::time_point start = Clock::now();
    ATTNDB_RETURN_IF_ERROR(side->decode(token));
    ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  ATTNDB_RETURN_IF_ERROR(side->forget());
  if (!counts) return Status::Ok();
  side->ms.insert(side->ms.end(), ms.begin(), ms.end());
  side->round_ms.push_back(Summarize(ms).median);
  return Status::Ok();
}

// How many times as fast as `other` a side is.
double Speedup(const Side& side, const Side& other) {
  std::vector<double> ratios;
  for (size_t i = 0; i < side.round_ms.size(); ++i) {
    ratios.push_back(other.round_ms[i] / side.round_ms[i]);
  }
  return Summarize(ratios).median;
}

Json Report(const std::vector<Side>& sides) {
  Json report = Json::array();
  for (const Side& side : sides) {
    const SampleStats stats = Summarize(side.ms);
    Json entry = {{"name", side.name},
                  {"ms_median", stats.median},
                  {"ms_mad", stats.mad},
                  {"tokens_per_second", 1e3 / stats.median},
                  {"samples", stats.count}};
    std::printf("%-24s %8.2f ms +- %.2f  %6.2f tokens/s", side.name.c_str(), stats.median,
                stats.mad, 1e3 / stats.median);
    for (const Side& other : sides) {
      if (&other == &side) continue;
      entry["faster_than"][other.name] = Speedup(side, other);
      std::printf("  %.2f x %s", Speedup(side, other), other.name.c_str());
    }
    std::printf("\n");
    report.push_back(entry);
  }
  return report;
}

// Plain llama.cpp with a cache of as many tokens as `context`.
Result<std::unique_ptr<llama::PlainContext>> FillPlain(const LlamaEngine& engine,
                                                       std::span<const TokenId> context) {
  constexpr uint32_t kSpare = 512;
  ATTNDB_ASSIGN_OR_RETURN(
      std::unique_ptr<llama::PlainContext> plain,
      engine.OpenPlain(
          {.num_tokens = static_cast<uint32_t>(context.size()) + kSpare, .repeats = true}));
  const uint64_t piece = std::min<uint64_t>(kPlainTokens, context.size());
  std::fprintf(stderr, "llama.cpp reads %llu tokens\n", static_cast<unsigned long long>(piece));
  ATTNDB_RETURN_IF_ERROR(plain->Run(context.first(piece)));
  ATTNDB_RETURN_IF_ERROR(plain->Repeat(static_cast<uint32_t>(context.size() / piece - 1)));
  return plain;
}

Side PlainSide(llama::PlainContext* plain) {
  const uint64_t held = plain->num_tokens();
  return {.name = "llama.cpp",
          .decode = [plain](TokenId token) { return plain->Run(std::span(&token, 1)); },
          .forget =
              [plain, held] {
                plain->Crop(held);
                return Status::Ok();
              },
          .ms = {},
          .round_ms = {}};
}

Side PlanSide(LlamaEngine* engine, Session session, const std::string& plan, uint64_t held) {
  const auto shared = std::make_shared<Session>(std::move(session));
  return {.name = plan,
          .decode = [engine, shared](TokenId token) { return engine->Decode(*shared, token); },
          .forget = [shared, held] { return shared->Crop(held); },
          .ms = {},
          .round_ms = {}};
}

Status Run(const Settings& settings, Json* report) {
  ATTNDB_ASSIGN_OR_RETURN(LlamaEngine engine,
                          LlamaEngine::Open(settings.text.model, settings.text.Engine()));
  ATTNDB_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(settings.text.text_path));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> all, engine.Tokenize(text, true, false));
  ATTNDB_ASSIGN_OR_RETURN(
      const std::span<const TokenId> tokens,
      FirstTokens(all, settings.context + settings.decode_tokens, settings.text.text_path));
  const std::span<const TokenId> context = tokens.first(settings.context);
  const std::span<const TokenId> next = tokens.subspan(settings.context);
  ATTNDB_ASSIGN_OR_RETURN(
      const DB db, DB::Open(settings.text.store_path, {.dense_query_tokens = UINT32_MAX,
                                                       .num_threads = settings.text.num_threads}));
  ATTNDB_RETURN_IF_ERROR(EnsureStored(&engine, db, context, kPrefillPlan));
  ATTNDB_RETURN_IF_ERROR(db.WaitForBackground());
  *report = ReportHead("decode_long", settings.text, engine);
  (*report)["context"] = settings.context;
  (*report)["prefill_plan"] = kPrefillPlan;

  std::vector<Side> sides;
  std::unique_ptr<llama::PlainContext> plain;
  if (!settings.without_plain) {
    ATTNDB_ASSIGN_OR_RETURN(plain, FillPlain(engine, context));
    sides.push_back(PlainSide(plain.get()));
  }
  for (const std::string& plan : settings.plans) {
    ATTNDB_ASSIGN_OR_RETURN(Session session, SessionOn(db, engine, context, plan));
    (*report)["ran"][plan] = RanText(session.Explain());
    sides.push_back(PlanSide(&engine, std::move(session), plan, context.size()));
  }
  for (int round = 0; round <= settings.rounds; ++round) {
    for (Side& side : sides) ATTNDB_RETURN_IF_ERROR(RunRound(&side, next, round > 0));
  }
  (*report)["sides"] = Report(sides);
  return Status::Ok();
}

int Main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Decoding at a long context");
  settings.text.AddTo(&app);
  app.add_option("--context", settings.context, "tokens")->capture_default_str();
  app.add_option("--plan", settings.plans, "attndb's plans; may be repeated");
  app.add_option("--rounds", settings.rounds)->capture_default_str();
  app.add_option("--decode-tokens", settings.decode_tokens)->capture_default_str();
  app.add_flag("--without-plain", settings.without_plain, "llama.cpp alone is left out");
  CLI11_PARSE(app, argc, argv);
  settings.text.yarn_factor = std::max(
      1.0F, std::ceil(static_cast<float>(settings.context) / static_cast<float>(kTrainedTokens)));
  Json report;
  const Status status = Run(settings, &report);
  return Finish("bench_decode", status, report, settings.text.json_path);
}

}  // namespace
}  // namespace attndb::bench

int main(int argc, char** argv) { return attndb::bench::Main(argc, argv); }
