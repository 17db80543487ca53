#include "cli/common/engine_flags.h"

#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "cli/common/context_text.h"
#include "cli/common/interrupt.h"
#include "cli/common/rope_scaling.h"
#include "cli/common/text_input.h"
#include "cli/common/variables.h"

namespace attndb::cli {

namespace {

// 0, all cores, where the variable is not set. What is no number is refused before: VariableFaults.
uint32_t DefaultThreads() {
  const std::string text = EnvironmentText("ATTNDB_THREADS");
  uint32_t count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count;
}

// The ContextInfo::rope_scaling of this model's contexts.
std::string ScalingOf(const ModelSpec& spec) {
  for (const LayerSpec& layer : spec.layers) {
    if (!layer.rope.scaling.empty()) return layer.rope.scaling;
  }
  return "";
}

}  // namespace

ModelFlags::ModelFlags() : num_threads_(DefaultThreads()) {}

std::string ModelFlags::model() const {
  if (!model_.empty()) return WithHome(model_);
  const std::string variable = EnvironmentText("ATTNDB_MODEL");
  return variable.empty() ? "smollm2" : variable;
}

void ModelFlags::AddTo(Flags* flags) {
  flags->Group("Model");
  flags->Add({"-m,--model", "MODEL",
              "A GGUF file, or smollm2 (default: the context's, else $ATTNDB_MODEL, else smollm2)"},
             &model_);
  flags->Add({"-t,--threads", "N",
              "Threads of the model (default: $ATTNDB_THREADS, else as the machine has free)"},
             &num_threads_, 1U, kMaxThreads);
  flags->Add({"--rope-scaling", "KIND:FACTOR",
              "Stretch positions: linear:4, yarn:4 (default: as the context has it, else as the "
              "model file says)"},
             &rope_scaling_);
  flags->Add(
      {"--chat-template", "FILE", "A chat template in Jinja, instead of the model file's own"},
      &chat_template_);
  flags->Add({"--no-mmap", "", "Copy the model's weights: its file may change meanwhile"},
             &copies_weights_);
}

Result<llama::LlamaEngine> ModelFlags::Open(Environment* env, DType kv_dtype,
                                            bool unrotated_keys) const {
  llama::EngineOptions options;
  options.kv_dtype = kv_dtype;
  options.unrotated_keys = unrotated_keys;
  return OpenWith(env, std::move(options));
}

Result<llama::LlamaEngine> ModelFlags::OpenWith(Environment* env,
                                                llama::EngineOptions options) const {
  ATTNDB_RETURN_IF_ERROR(Fill(&options));
  return Open(env, model(), options);
}

Status ModelFlags::Fill(llama::EngineOptions* options) const {
  options->num_threads = num_threads_;
  options->map_weights = !copies_weights_;
  ATTNDB_ASSIGN_OR_RETURN(options->rope_scaling, ParseRopeScaling(rope_scaling_));
  if (chat_template_.empty()) return Status::Ok();
  ATTNDB_ASSIGN_OR_RETURN(options->chat_template, ReadText(WithHome(chat_template_)));
  if (!options->chat_template.empty()) return Status::Ok();
  return Status::InvalidArgument("'" + chat_template_ + "' is empty, expected a chat template");
}

std::string ModelFlags::ModelOf(Environment* env, const ContextInfo& context) const {
  if (!model_.empty() || context.model_path.empty()) return model();
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(context.model_path, error);
  if (is_file && access(context.model_path.c_str(), R_OK) == 0) return context.model_path;
  // Other engines have folders of files, or names alone.
  env->Note("the model of '" + NameOf(context) + "' was '" + context.model_path + "', which is " +
            (std::filesystem::exists(context.model_path, error) ? "no GGUF file" : "not there") +
            "; tries " + model());
  return model();
}

Result<llama::LlamaEngine> ModelFlags::OpenLike(Environment* env,
                                                const ContextInfo& context) const {
  llama::EngineOptions wanted;
  wanted.kv_dtype = context.kv_dtype;
  wanted.unrotated_keys = context.unrotated_keys;
  ATTNDB_RETURN_IF_ERROR(Fill(&wanted));
  return Open(env, ModelOf(env, context), wanted);
}

Result<llama::LlamaEngine> ModelFlags::OpenFor(Environment* env, const ContextInfo& context) const {
  ATTNDB_ASSIGN_OR_RETURN(llama::LlamaEngine engine, OpenLike(env, context));
  if (ScalingOf(engine.spec()) == context.rope_scaling) return engine;
  const std::optional<llama::RopeScaling> stored = RopeScalingOf(context.rope_scaling);
  // Keys of another engine, probably: CreateSession reports the difference.
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
  return Open(env, engine.info().path, options);
}

Result<llama::LlamaEngine> ModelFlags::Open(Environment* env, const std::string& model,
                                            const llama::EngineOptions& options) const {
  llama::EngineOptions stoppable = options;
  stoppable.keep_going = [] { return !Interrupted(); };
  Result<llama::LlamaEngine> engine = llama::LlamaEngine::Open(model, stoppable);
  if (engine.ok()) return engine;
  const StatusCode code = engine.status().code();
  if (code == StatusCode::kInvalidArgument && !options.chat_template.empty()) return engine;
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

Json SamplerFlags::ToRequest() const {
  return JsonObject({{"max_tokens", max_tokens_},
                     {"temperature", sampler_.temperature},
                     {"top_k", sampler_.top_k},
                     {"top_p", sampler_.top_p},
                     {"min_p", sampler_.min_p},
                     {"seed", sampler_.seed}});
}

}  // namespace attndb::cli
