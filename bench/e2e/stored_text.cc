#include "bench/e2e/stored_text.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "attndb/version.h"
#include "bench/sample_stats.h"
#include "bench/what_ran.h"

namespace attndb::bench {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kPieceTokens = 4096;

}  // namespace

void TextOptions::AddTo(CLI::App* app) {
  app->add_option("--model", model, "GGUF file or known name")->capture_default_str();
  app->add_option("--text", text_path, "what is read")->required();
  app->add_option("--store", store_path, "folder of the store; it stays")->required();
  app->add_option("--threads", num_threads)->capture_default_str();
  app->add_option("--commit", commit, "commit that the figures are of");
  app->add_option("--json", json_path, "file for the figures");
}

llama::EngineOptions TextOptions::Engine() const {
  llama::EngineOptions engine;
  engine.num_threads = num_threads;
  if (yarn_factor != 1) engine.rope_scaling = {llama::RopeScalingKind::kYarn, yarn_factor};
  return engine;
}

Result<std::string> ReadTextFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status::NotFound("'" + path + "' can't be read");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Result<std::span<const TokenId>> FirstTokens(std::span<const TokenId> tokens, uint64_t count,
                                             const std::string& text_path) {
  if (tokens.size() >= count) return tokens.first(count);
  return Status::InvalidArgument("'" + text_path + "' has " + std::to_string(tokens.size()) +
                                 " tokens, expected " + std::to_string(count));
}

Status EnsureStored(llama::LlamaEngine* engine, const DB& db, std::span<const TokenId> tokens,
                    const std::string& plan) {
  // One token is always left to run: a context that has all of them is one token too long for that.
  ATTNDB_ASSIGN_OR_RETURN(SessionStart start,
                          db.CreateSession(engine->spec(), tokens, {.plan = plan}));
  while (start.session.num_tokens() < tokens.size()) {
    const uint64_t done = start.session.num_tokens();
    if (done + 1 == tokens.size() && start.session.num_reused() == done) return Status::Ok();
    const uint64_t end = std::min<uint64_t>(tokens.size(), done + kPieceTokens);
    std::fprintf(stderr, "reading tokens %llu to %llu of %zu\n",
                 static_cast<unsigned long long>(done), static_cast<unsigned long long>(end),
                 tokens.size());
    ATTNDB_RETURN_IF_ERROR(engine->Prefill(start.session, tokens.subspan(done, end - done)));
    ATTNDB_RETURN_IF_ERROR(db.Store(start.session, tokens.first(end)).status());
  }
  return Status::Ok();
}

Result<Session> SessionOn(const DB& db, const llama::LlamaEngine& engine,
                          std::span<const TokenId> tokens, const std::string& plan) {
  std::vector<TokenId> prompt(tokens.begin(), tokens.end());
  prompt.push_back(0);  // One token is always left to run.
  ATTNDB_ASSIGN_OR_RETURN(SessionStart start,
                          db.CreateSession(engine.spec(), prompt, {.plan = plan}));
  if (start.session.num_tokens() != tokens.size()) {
    return Status::Internal("the store has " + std::to_string(start.session.num_tokens()) + " of " +
                            std::to_string(tokens.size()) + " tokens");
  }
  Session session = std::move(start.session);
  for (LayerId layer = 0; layer < engine.spec().num_layers(); ++layer) {
    ATTNDB_RETURN_IF_ERROR(session.AwaitDerived(layer));
  }
  const std::string missing = MissingText(session.Explain());
  if (missing.empty()) return session;
  return Status::Unsupported("plan '" + plan + "' can't be measured: " + missing);
}

Json ReportHead(const std::string& name, const TextOptions& options,
                const llama::LlamaEngine& engine) {
  return {{"bench", name},
          {"machine", MachineJson(DescribeMachine(), KernelIsa())},
          {"version", Version()},
          {"commit", options.commit},
          {"model", engine.info().description},
          {"threads", options.num_threads},
          {"rope_scaling", engine.spec().layers.front().rope.scaling}};
}

int Finish(const std::string& name, const Status& status, const Json& report,
           const std::string& json_path) {
  if (!status.ok()) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), status.ToString().c_str());
    return 1;
  }
  if (!json_path.empty()) std::ofstream(json_path) << report.dump(2) << '\n';
  return 0;
}

}  // namespace attndb::bench
