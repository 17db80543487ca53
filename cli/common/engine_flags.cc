#include "cli/common/engine_flags.h"

#include <charconv>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace attndb::cli {

namespace {

constexpr uint32_t kMaxThreads = 1024;

std::string_view Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// 0, all cores, where the variable is no number of threads.
uint32_t DefaultThreads() {
  const std::string_view text = Variable("ATTNDB_THREADS");
  uint32_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && count <= kMaxThreads ? count : 0;
}

}  // namespace

ModelFlags::ModelFlags() : model_(Variable("ATTNDB_MODEL")), num_threads_(DefaultThreads()) {
  if (model_.empty()) model_ = "smollm2";
}

void ModelFlags::AddTo(Flags* flags) {
  flags->Group("Model");
  flags->Add(
      {"-m,--model", "MODEL", "A GGUF file, or smollm2 (default: $ATTNDB_MODEL, else smollm2)"},
      &model_);
  flags->Add({"-t,--threads", "N", "Threads of the model (default: $ATTNDB_THREADS, else all)"},
             &num_threads_, 1U, kMaxThreads);
}

Result<llama::LlamaEngine> ModelFlags::Open(Environment* env, DType kv_dtype) const {
  llama::EngineOptions options;
  options.kv_dtype = kv_dtype;
  return Open(env, options);
}

Result<llama::LlamaEngine> ModelFlags::Open(Environment* env, llama::EngineOptions options) const {
  options.num_threads = num_threads_;
  Result<llama::LlamaEngine> engine = llama::LlamaEngine::Open(model_, options);
  if (engine.ok()) return engine;
  const StatusCode code = engine.status().code();
  if (code != StatusCode::kNotFound && code != StatusCode::kInvalidArgument) return engine;
  return env->WithAdvice(engine.status(), "'attndb doctor' lists the models that are found");
}

void SamplerFlags::AddTo(Flags* flags) {
  flags->Group("Answer");
  flags->Add({"--max-tokens", "N", "Tokens of an answer at most (default: 256)"}, &max_tokens_, 1U,
             1'000'000U);
  flags->Add({"--temp", "T", "Temperature; 0 (default) takes the likeliest"}, &sampler_.temperature,
             0.0F, 100.0F);
  flags->Add({"--top-k", "K", "Draw from the K likeliest; 0 = all (default: 40)"}, &sampler_.top_k,
             0, 1'000'000);
  flags->Add({"--top-p", "P", "Draw from the likeliest P of the mass (default: 0.95)"},
             &sampler_.top_p, 0.0F, 1.0F);
  flags->Add({"--min-p", "P", "Drop what is less likely than P x the best (default: 0.05)"},
             &sampler_.min_p, 0.0F, 1.0F);
  flags->Add({"--seed", "N", "Seed of the draws (default: 0)"}, &sampler_.seed, 0U, UINT32_MAX);
}

llama::GenerateOptions SamplerFlags::ToOptions() const {
  llama::GenerateOptions options;
  options.max_tokens = max_tokens_;
  options.sampler = sampler_;
  return options;
}

Status WithModelAdvice(Environment* env, Status status) {
  if (status.code() != StatusCode::kFailedPrecondition) return status;
  return env->WithAdvice(std::move(status),
                         "pass the --model that made the context; where the weights are the same, "
                         "'attndb declare-equal' says so");
}

}  // namespace attndb::cli
