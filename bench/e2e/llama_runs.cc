#include "bench/e2e/llama_runs.h"

#include <chrono>
#include <utility>

namespace attndb::bench {
namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

class Plain : public Runner {
 public:
  explicit Plain(std::unique_ptr<llama::PlainContext> context) : context_(std::move(context)) {}

  Result<double> Prefill(std::span<const TokenId> tokens) override {
    context_->Crop(0);
    if (tokens.empty()) return 0.0;
    const Clock::time_point start = Clock::now();
    ATTNDB_RETURN_IF_ERROR(context_->Run(tokens));
    return MillisecondsSince(start);
  }

  Status Decode(std::span<const TokenId> tokens, std::vector<double>* samples) override {
    const uint64_t held = context_->num_tokens();
    for (size_t i = 0; i < tokens.size(); ++i) {
      const Clock::time_point start = Clock::now();
      ATTNDB_RETURN_IF_ERROR(context_->Run(tokens.subspan(i, 1)));
      samples->push_back(MillisecondsSince(start));
    }
    context_->Crop(held);
    return Status::Ok();
  }

 private:
  std::unique_ptr<llama::PlainContext> context_;
};

class Attndb : public Runner {
 public:
  Attndb(llama::LlamaEngine* engine, DB db, std::string plan)
      : engine_(engine), db_(std::move(db)), plan_(std::move(plan)) {}

  Result<double> Prefill(std::span<const TokenId> tokens) override {
    const TokenId any = 0;  // A session is made for a prompt; an empty context has none.
    ATTNDB_ASSIGN_OR_RETURN(
        SessionStart start,
        db_.CreateSession(engine_->spec(), tokens.empty() ? std::span(&any, 1) : tokens,
                          {.reuse = false, .plan = plan_}));
    session_.emplace(std::move(start.session));
    if (tokens.empty()) return 0.0;
    const Clock::time_point begin = Clock::now();
    ATTNDB_RETURN_IF_ERROR(engine_->Prefill(*session_, tokens));
    const double elapsed = MillisecondsSince(begin);
    ATTNDB_RETURN_IF_ERROR(db_.Store(*session_, tokens).status());
    return elapsed;
  }

  Status Decode(std::span<const TokenId> tokens, std::vector<double>* samples) override {
    const uint64_t held = session_->num_tokens();
    for (const TokenId token : tokens) {
      const Clock::time_point start = Clock::now();
      ATTNDB_RETURN_IF_ERROR(engine_->Decode(*session_, token));
      samples->push_back(MillisecondsSince(start));
    }
    return session_->Crop(held);
  }

 private:
  llama::LlamaEngine* engine_;
  DB db_;
  std::string plan_;
  std::optional<Session> session_;
};

}  // namespace

Result<std::unique_ptr<Runner>> PlainRunner(const llama::LlamaEngine& engine, uint32_t num_tokens) {
  ATTNDB_ASSIGN_OR_RETURN(auto context, engine.OpenPlain({.num_tokens = num_tokens}));
  return std::unique_ptr<Runner>(std::make_unique<Plain>(std::move(context)));
}

Result<std::unique_ptr<Runner>> AttndbRunner(llama::LlamaEngine* engine, const DB& db,
                                             const std::string& plan) {
  return std::unique_ptr<Runner>(std::make_unique<Attndb>(engine, db, plan));
}

}  // namespace attndb::bench
