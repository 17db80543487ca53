// Question: how much faster does a real model decode, read and answer through attndb than in plain
// llama.cpp, with the same weights, threads and float16 KV, in one run on one machine?
//
// Method: both sides take turns, round by round; medians and MAD over the rounds. Decode: tokens at
//         a context of 0, 2,048 and 6,000 tokens; attndb's context is stored. Prefill: cold, of
//         2,048 and 6,000. Time to first token: a question on a stored document of 6,000 tokens,
//         from CreateSession in a newly opened store to the sampled token, against plain
//         llama.cpp's prefill of the same prompt; the model is loaded in both cases. The file
//         system's cache is warm. Memory and bytes: storage_cost.h.
//
//   bench_llama --threads 2 --rounds 5 --json bench/results/llama.json
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "attndb/db.h"
#include "attndb/version.h"
#include "bench/e2e/llama_runs.h"
#include "bench/e2e/storage_cost.h"
#include "bench/sample_stats.h"
#include "engines/llama/llama_engine.h"

namespace attndb::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
using llama::LlamaEngine;

struct Settings {
  std::string model = "smollm2";
  std::string plan = "full";
  std::string variant = "rewrite";
  std::string json_path;
  std::string commit;
  uint32_t num_threads = 2;
  int rounds = 5;  // Rounds of decoding.
  int prefill_rounds = 3;
  int decode_tokens = 16;  // A round.
  std::vector<size_t> contexts = {0, 2048, 6000};
};

// Reproducible ids: every seventh of the ordinary part of a vocabulary, in a scrambled order.
std::vector<TokenId> SomeIds(size_t count, uint32_t vocab_size) {
  std::vector<TokenId> ids(count);
  for (size_t i = 0; i < count; ++i) {
    ids[i] = static_cast<TokenId>(100 + (i * 7919) % (vocab_size - 200));
  }
  return ids;
}

Json ToJson(const SampleStats& stats) {
  return {{"median_ms", stats.median}, {"mad_ms", stats.mad}, {"samples", stats.count}};
}

void Print(const std::string& what, const SampleStats& plain, const SampleStats& ours,
           double target) {
  std::printf("%-28s plain %9.2f +- %-6.2f  attndb %9.2f +- %-6.2f  %5.2fx  (target %.2fx)\n",
              what.c_str(), plain.median, plain.mad, ours.median, ours.mad,
              plain.median / ours.median, target);
  std::fflush(stdout);
}

struct Target {
  size_t context;
  double decode;
  double prefill;
};
constexpr Target kTargets[] = {{0, 0.95, 0}, {2048, 1.3, 1.0}, {6000, 2.0, 1.3}};

Target TargetOf(size_t context) {
  for (const Target& target : kTargets) {
    if (target.context == context) return target;
  }
  return {context, 1.0, 1.0};
}

// Decode and prefill at one context length.
Status MeasureContext(const Settings& settings, size_t context, Runner& plain, Runner& ours,
                      std::span<const TokenId> ids, Json* out) {
  std::vector<double> prefill[2];
  std::vector<double> decode[2];
  Runner* const sides[] = {&plain, &ours};
  const int rounds = context == 0 ? 1 : settings.prefill_rounds;
  for (int round = 0; round < rounds; ++round) {
    for (int side = 0; side < 2; ++side) {
      ATTNDB_ASSIGN_OR_RETURN(const double elapsed, sides[side]->Prefill(ids.first(context)));
      prefill[side].push_back(elapsed);
    }
  }
  const auto next = ids.subspan(context, static_cast<size_t>(settings.decode_tokens));
  for (int round = -1; round < settings.rounds; ++round) {
    for (int side = 0; side < 2; ++side) {
      std::vector<double> samples;
      ATTNDB_RETURN_IF_ERROR(sides[side]->Decode(next, &samples));
      if (round < 0) continue;  // Warm-up: graphs are built, pages are touched.
      decode[side].insert(decode[side].end(), samples.begin(), samples.end());
    }
  }
  const SampleStats plain_decode = Summarize(decode[0]);
  const SampleStats our_decode = Summarize(decode[1]);
  const std::string label = std::to_string(context) + " tokens";
  Print("decode at " + label, plain_decode, our_decode, TargetOf(context).decode);
  Json entry = {{"context", context},
                {"decode",
                 {{"plain", ToJson(plain_decode)},
                  {"attndb", ToJson(our_decode)},
                  {"speedup", plain_decode.median / our_decode.median}}}};
  if (context > 0) {
    const SampleStats plain_prefill = Summarize(prefill[0]);
    const SampleStats our_prefill = Summarize(prefill[1]);
    Print("prefill of " + label, plain_prefill, our_prefill, TargetOf(context).prefill);
    entry["prefill"] = {{"plain", ToJson(plain_prefill)},
                        {"attndb", ToJson(our_prefill)},
                        {"speedup", plain_prefill.median / our_prefill.median}};
  }
  out->push_back(entry);
  return Status::Ok();
}

// A question on a stored document, in a newly opened store.
Status MeasureFirstToken(const Settings& settings, LlamaEngine* engine, const std::string& path,
                         std::span<const TokenId> prompt, size_t document, Runner& plain,
                         Json* out) {
  {
    ATTNDB_ASSIGN_OR_RETURN(const DB db, DB::Open(path));
    ATTNDB_ASSIGN_OR_RETURN(SessionStart start,
                            db.CreateSession(engine->spec(), prompt.first(document)));
    ATTNDB_RETURN_IF_ERROR(engine->Prefill(start.session, start.rest));
    ATTNDB_RETURN_IF_ERROR(db.Store(start.session, prompt.first(document)).status());
  }
  ATTNDB_ASSIGN_OR_RETURN(const double cold_ms, plain.Prefill(prompt));
  std::vector<double> warm;
  for (int round = 0; round < settings.rounds; ++round) {
    const Clock::time_point begin = Clock::now();
    ATTNDB_ASSIGN_OR_RETURN(const DB db, DB::Open(path));
    ATTNDB_ASSIGN_OR_RETURN(SessionStart start,
                            db.CreateSession(engine->spec(), prompt, {.plan = settings.plan}));
    if (start.session.num_reused() != document) {
      return Status::Internal("the stored document was not found");
    }
    ATTNDB_RETURN_IF_ERROR(engine->Generate(start.session, start.rest, {.max_tokens = 1}).status());
    warm.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  const SampleStats stats = Summarize(warm);
  const double share = stats.median / cold_ms;
  std::printf(
      "first token, %zu stored + %zu new: %.1f +- %.1f ms, cold %.0f ms: %.2f %% (target "
      "3 %%)\n",
      document, prompt.size() - document, stats.median, stats.mad, cold_ms, 100 * share);
  *out = {{"stored_tokens", document},
          {"new_tokens", prompt.size() - document},
          {"first_token", ToJson(stats)},
          {"cold_prefill_ms", cold_ms},
          {"share", share}};
  return Status::Ok();
}

// Memory and bytes written, without the query sample, which is reported beside them.
Status MeasureCost(LlamaEngine* engine, const std::string& path, std::span<const TokenId> tokens,
                   size_t document, Json* out) {
  ATTNDB_ASSIGN_OR_RETURN(const StorageCost cost,
                          MeasureStorageCost(engine, path, tokens, document));
  const auto kv = static_cast<double>(cost.document_kv_bytes);
  const double fresh = static_cast<double>(cost.fresh_resident_bytes) / kv;
  const double stored = static_cast<double>(cost.stored_resident_bytes) / kv;
  const uint64_t written = cost.written_bytes - cost.query_sample_bytes;
  const double allowed = 1.2 * static_cast<double>(cost.new_kv_bytes) + 65536;
  std::printf(
      "resident memory of a session: %.2f x its KV (fresh), %.2f x (stored; target 1.20 x)\n"
      "Store of %llu tokens onto %zu: %llu bytes written, %.2f x their KV (target %.0f bytes), "
      "query sample %llu, merged %llu\n",
      fresh, stored, static_cast<unsigned long long>(cost.num_new), document,
      static_cast<unsigned long long>(written),
      static_cast<double>(written) / static_cast<double>(cost.new_kv_bytes), allowed,
      static_cast<unsigned long long>(cost.query_sample_bytes),
      static_cast<unsigned long long>(cost.merged_bytes));
  *out = {{"document_tokens", document},
          {"document_kv_bytes", cost.document_kv_bytes},
          {"fresh_resident_bytes", cost.fresh_resident_bytes},
          {"stored_resident_bytes", cost.stored_resident_bytes},
          {"new_tokens", cost.num_new},
          {"new_kv_bytes", cost.new_kv_bytes},
          {"written_bytes", written},
          {"query_sample_bytes", cost.query_sample_bytes},
          {"merged_bytes", cost.merged_bytes}};
  return Status::Ok();
}

Status Run(const Settings& settings, const std::string& folder, Json* report) {
  llama::EngineOptions options;
  options.num_threads = settings.num_threads;
  if (settings.variant == "observe") options.variant = llama::HookVariant::kObserve;
  ATTNDB_ASSIGN_OR_RETURN(LlamaEngine engine, LlamaEngine::Open(settings.model, options));
  const size_t longest = *std::max_element(settings.contexts.begin(), settings.contexts.end());
  const std::vector<TokenId> ids = SomeIds(
      longest + static_cast<size_t>(settings.decode_tokens) + 128, engine.info().vocab_size);
  Json cost;
  if (longest >= 512) {
    ATTNDB_RETURN_IF_ERROR(MeasureCost(&engine, folder + "/grown",
                                       std::span(ids).first(longest + 101), longest, &cost));
  }

  ATTNDB_ASSIGN_OR_RETURN(const auto plain,
                          PlainRunner(engine, static_cast<uint32_t>(ids.size() + 256)));
  ATTNDB_ASSIGN_OR_RETURN(const DB db,
                          DB::Open(folder + "/runs", {.num_threads = settings.num_threads}));
  ATTNDB_ASSIGN_OR_RETURN(const auto ours, AttndbRunner(&engine, db, settings.plan));
  const Machine machine = DescribeMachine();
  std::printf("%s, %u CPUs, %u threads, attndb %s (%s), plan '%s', %s\n", machine.cpu.c_str(),
              machine.num_cpus, settings.num_threads, Version(), KernelIsa(), settings.plan.c_str(),
              engine.info().description.c_str());
  *report = {{"bench", "llama"},
             {"machine", MachineJson(machine, KernelIsa())},
             {"version", Version()},
             {"commit", settings.commit},
             {"model", engine.info().description},
             {"threads", settings.num_threads},
             {"variant", settings.variant},
             {"plan", settings.plan}};
  (*report)["storage"] = cost;
  Json contexts = Json::array();
  for (const size_t context : settings.contexts) {
    ATTNDB_RETURN_IF_ERROR(MeasureContext(settings, context, *plain, *ours, ids, &contexts));
  }
  (*report)["contexts"] = contexts;
  if (longest == 0) return Status::Ok();
  return MeasureFirstToken(settings, &engine, folder + "/asked", std::span(ids).first(longest + 24),
                           longest, *plain, &(*report)["first_token"]);
}

int Main(int argc, char** argv) {
  Settings settings;
  CLI::App app("SmolLM2 through attndb against plain llama.cpp");
  app.add_option("--model", settings.model, "GGUF file or known name")->capture_default_str();
  app.add_option("--plan", settings.plan, "attndb's attention plan")->capture_default_str();
  app.add_option("--variant", settings.variant, "rewrite or observe")
      ->check(CLI::IsMember({"rewrite", "observe"}));
  app.add_option("--threads", settings.num_threads)->capture_default_str();
  app.add_option("--rounds", settings.rounds)->capture_default_str();
  app.add_option("--prefill-rounds", settings.prefill_rounds)->capture_default_str();
  app.add_option("--decode-tokens", settings.decode_tokens)->capture_default_str();
  app.add_option("--contexts", settings.contexts, "context lengths")->capture_default_str();
  app.add_option("--commit", settings.commit, "commit that the figures are of");
  app.add_option("--json", settings.json_path, "file for the figures");
  CLI11_PARSE(app, argc, argv);

  namespace fs = std::filesystem;
  const fs::path folder =
      fs::temp_directory_path() / ("attndb_bench_llama_" + std::to_string(::getpid()));
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  Json report;
  const Status status = Run(settings, folder.string(), &report);
  fs::remove_all(folder, ignored);
  if (!status.ok()) {
    std::fprintf(stderr, "bench_llama: %s\n", status.ToString().c_str());
    return 1;
  }
  if (!settings.json_path.empty()) std::ofstream(settings.json_path) << report.dump(2) << '\n';
  return 0;
}

}  // namespace
}  // namespace attndb::bench

int main(int argc, char** argv) { return attndb::bench::Main(argc, argv); }
