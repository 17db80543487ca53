#include "cli/common/engine_flags.h"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "cli/common/context_text.h"
#include "cli/common/rope_scaling.h"

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

// As ContextInfo::rope_scaling of a context of this model.
std::string ScalingOf(const ModelSpec& spec) {
  for (const LayerSpec& layer : spec.layers) {
    if (!layer.rope.scaling.empty()) return layer.rope.scaling;
  }
  return "";
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
  flags->Add({"--rope-scaling", "KIND:FACTOR",
              "Stretch positions: linear:4, yarn:4 (default: as the context has it, else as the "
              "model file says)"},
             &rope_scaling_);
}

Result<llama::LlamaEngine> ModelFlags::Open(Environment* env, DType kv_dtype) const {
  llama::EngineOptions options;
  options.num_threads = num_threads_;
  options.kv_dtype = kv_dtype;
  ATTNDB_ASSIGN_OR_RETURN(options.rope_scaling, ParseRopeScaling(rope_scaling_));
  return Open(env, options);
}

Result<llama::LlamaEngine> ModelFlags::OpenFor(Environment* env, const ContextInfo& context) const {
  ATTNDB_ASSIGN_OR_RETURN(llama::LlamaEngine engine, Open(env, context.kv_dtype));
  if (ScalingOf(engine.spec()) == context.rope_scaling) return engine;
  const std::optional<llama::RopeScaling> stored = RopeScalingOf(context.rope_scaling);
  // Keys of another engine, as it seems: CreateSession says what differs.
  if (!stored && !context.rope_scaling.empty()) return engine;
  llama::EngineOptions options = engine.options();
  const std::string imported = "context '" + NameOf(context) + "' was imported " +
                               (stored ? "with --rope-scaling " + RopeScalingText(*stored)
                                       : std::string("without --rope-scaling"));
  if (options.rope_scaling.kind != llama::RopeScalingKind::kModel) {
    return env->WithAdvice(
        Status::InvalidArgument(imported + ", found " + RopeScalingText(options.rope_scaling)),
        "leave the flag out: the context knows");
  }
  if (!stored) return engine;  // The model file has a scaling of its own, the context has none.
  env->Note(imported + ", which is used again");
  options.rope_scaling = *stored;
  return Open(env, options);
}

Result<llama::LlamaEngine> ModelFlags::Open(Environment* env,
                                            const llama::EngineOptions& options) const {
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
