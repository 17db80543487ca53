// Opening: files, weights, adapters, probe, context.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "attndb/num_cores.h"
#include "engines/llama/abort_guard.h"
#include "engines/llama/engine_impl.h"
#include "engines/llama/fingerprint.h"
#include "engines/llama/llama_log.h"
#include "engines/llama/model_file.h"
#include "engines/llama/model_probe.h"
#include "engines/llama/plain_context_impl.h"

namespace attndb::llama {
namespace {

constexpr uint32_t kSessionsMax = kLogitRowsMax;  // One row of logits each.
constexpr uint32_t kUbatchMax = 16384;
constexpr uint32_t kThreadsMax = 512;  // GGML_MAX_N_THREADS
constexpr float kRopeFactorMax = 1024.0f;

Status FillDefaults(EngineOptions* options) {
  if (options->num_threads == 0) {
    options->num_threads = std::min(NumCores(), kThreadsMax);
  }
  if (options->cache_dir.empty()) options->cache_dir = DefaultCacheDir();
  if (options->num_threads > kThreadsMax) {
    return Status::InvalidArgument("num_threads is " + std::to_string(options->num_threads) +
                                   ", at most 512");
  }
  if (options->ubatch_tokens < 1 || options->ubatch_tokens > kUbatchMax) {
    return Status::InvalidArgument("ubatch_tokens is " + std::to_string(options->ubatch_tokens) +
                                   ", expected 1 to 16384");
  }
  if (options->max_sessions < 1 || options->max_sessions > kSessionsMax) {
    return Status::InvalidArgument("max_sessions is " + std::to_string(options->max_sessions) +
                                   ", expected 1 to " + std::to_string(kSessionsMax));
  }
  const float factor = options->rope_scaling.factor;
  if (!(factor >= 1.0f && factor <= kRopeFactorMax)) {
    return Status::InvalidArgument("rope_scaling.factor is " + std::to_string(factor) +
                                   ", expected 1 to 1024");
  }
  return Status::Ok();
}

// What the model file says gives way. llama.cpp fills in the rest: YaRN's original context is the
// one that the model was trained for.
void SetRopeScaling(const RopeScaling& scaling, llama_context_params* params) {
  if (scaling.kind == RopeScalingKind::kModel) return;
  params->rope_scaling_type = scaling.kind == RopeScalingKind::kYarn
                                  ? LLAMA_ROPE_SCALING_TYPE_YARN
                                  : LLAMA_ROPE_SCALING_TYPE_LINEAR;
  params->rope_freq_scale = 1.0f / scaling.factor;
}

std::string TextOrEmpty(const char* text) { return text == nullptr ? "" : text; }

// A control token's own text, as a template writes it; empty for no token.
std::string TokenText(const llama_vocab* vocab, llama_token token) {
  return token == LLAMA_TOKEN_NULL ? "" : TextOrEmpty(llama_vocab_get_text(vocab, token));
}

std::string MetaValue(const llama_model* model, const char* key) {
  std::string value(256, '\0');
  const int length = llama_model_meta_val_str(model, key, value.data(), value.size());
  if (length < 0) return "";
  value.resize(std::min(static_cast<size_t>(length), value.size() - 1));
  return value;
}

// Nothing where there is no such key, or its value is no such number.
std::optional<uint32_t> MetaCount(const llama_model* model, const std::string& key) {
  const std::string text = MetaValue(model, key.c_str());
  uint32_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return count;
}

void InitBackendOnce() {
  static std::once_flag initialized;
  std::call_once(initialized, llama_backend_init);
}

// What people call the model: what its file says, else the file's own name.
ModelSource SourceOf(const ModelInfo& info, const std::vector<AdapterFile>& adapters) {
  const std::filesystem::path path = std::filesystem::absolute(info.path).lexically_normal();
  ModelSource named = {.name = info.name.empty() ? path.stem().string() : info.name, .path = ""};
  for (const AdapterFile& adapter : adapters) {
    named.name += " with " + std::filesystem::path(adapter.path).filename().string();
  }
  const ModelSource found = {.name = "", .path = path.string()};
  // Names come from files: those that no context may be stored with are left out.
  return {.name = named.Validate().ok() ? named.name : "",
          .path = found.Validate().ok() ? found.path : ""};
}

// The token, unless the vocabulary has none.
std::optional<TokenId> PresentToken(llama_token token) {
  return token == LLAMA_TOKEN_NULL ? std::nullopt : std::optional<TokenId>(token);
}

FimTokens FimTokensOf(const llama_vocab* vocab) {
  return {.prefix = PresentToken(llama_vocab_fim_pre(vocab)),
          .suffix = PresentToken(llama_vocab_fim_suf(vocab)),
          .middle = PresentToken(llama_vocab_fim_mid(vocab)),
          .repository = PresentToken(llama_vocab_fim_rep(vocab)),
          .file = PresentToken(llama_vocab_fim_sep(vocab))};
}

}  // namespace

Status LlamaEngine::Impl::LoadModel() {
  BeginLog();
  InitBackendOnce();
  ggml_backend_dev_t no_devices[] = {nullptr};  // The CPU only.
  llama_model_params params = llama_model_default_params();
  params.devices = no_devices;
  params.n_gpu_layers = 0;
  params.load_mode = options.map_weights ? LLAMA_LOAD_MODE_AUTO : LLAMA_LOAD_MODE_NONE;
  bool is_stopped = false;
  std::function<bool()> goes_on = [&] {
    is_stopped = is_stopped || (options.keep_going && !options.keep_going());
    return !is_stopped;
  };
  params.progress_callback = [](float /*share*/, void* data) {
    return (*static_cast<std::function<bool()>*>(data))();
  };
  params.progress_callback_user_data = &goes_on;
  model_.reset(llama_model_load_from_file(info.path.c_str(), params));
  if (is_stopped) return Status::Cancelled("stopped while '" + info.path + "' was loaded");
  if (model_ == nullptr) {
    return Status::InvalidArgument("llama.cpp can't load '" + info.path +
                                   "': " + LoggedComplaints());
  }
  return LoadAdapters();
}

Status LlamaEngine::Impl::LoadAdapters() {
  for (const AdapterFile& adapter : options.adapters) {
    ATTNDB_RETURN_IF_ERROR(CheckAdapterFile(adapter.path));
    adapters_.push_back(llama_adapter_lora_init(model_.get(), adapter.path.c_str()));
    if (adapters_.back() == nullptr) {
      return Status::InvalidArgument("llama.cpp can't load adapter '" + adapter.path +
                                     "': " + LoggedComplaints());
    }
    if (llama_adapter_get_alora_n_invocation_tokens(adapters_.back()) > 0) {
      return Status::Unsupported("adapter '" + adapter.path + "' is switched on by tokens (aLoRA)");
    }
  }
  return Status::Ok();
}

void LlamaEngine::Impl::ReadInfo() {
  const llama_model* model = model_.get();
  char description[128] = "";
  llama_model_desc(model, description, sizeof(description));
  const llama_vocab* vocab = llama_model_get_vocab(model);
  tokenizer.emplace(vocab);
  ReadTemplate();
  grammars = std::make_unique<GrammarProcess>(chat->program(), info.path, vocab);
  info.name = MetaValue(model, "general.name");
  info.architecture = MetaValue(model, "general.architecture");
  info.description = description;
  info.num_parameters = llama_model_n_params(model);
  info.vocab_size = tokenizer->vocab_size();
  ReadContextLengths();
  ReadPooling();
  info.has_tokenizer = tokenizer->present();
  info.fim = FimTokensOf(vocab);
}

void LlamaEngine::Impl::ReadTemplate() {
  const llama_vocab* vocab = llama_model_get_vocab(model_.get());
  TemplateText text = {.source = options.chat_template,
                       .bos = TokenText(vocab, llama_vocab_bos(vocab)),
                       .eos = TokenText(vocab, llama_vocab_eos(vocab))};
  if (text.source.empty()) {
    text.source = TextOrEmpty(llama_model_chat_template(model_.get(), nullptr));
    text.tool_source = TextOrEmpty(llama_model_chat_template(model_.get(), "tool_use"));
  }
  info.has_chat_template = !text.source.empty();
  info.chat_template = text.source;
  info.begin_token = text.bos;
  info.end_token = text.eos;
  AddedTexts added = {.front = llama_vocab_get_add_bos(vocab) ? text.bos : "",
                      .back = llama_vocab_get_add_eos(vocab) ? text.eos : ""};
  chat.emplace(std::move(text), std::move(added), options.clock);
}

void LlamaEngine::Impl::ReadContextLengths() {
  info.trained_context = static_cast<uint32_t>(std::max(0, llama_model_n_ctx_train(model_.get())));
  info.unscaled_context = info.trained_context;
  const uint32_t length =
      MetaCount(model_.get(), info.architecture + ".rope.scaling.original_context_length")
          .value_or(0);
  if (length > 0) info.unscaled_context = std::min(length, info.trained_context);
  const RopeScaling& scaling = options.rope_scaling;
  info.max_context = scaling.kind == RopeScalingKind::kModel
                         ? info.trained_context
                         : static_cast<uint64_t>(static_cast<double>(info.unscaled_context) *
                                                 static_cast<double>(scaling.factor));
}

void LlamaEngine::Impl::ReadPooling() {
  const auto type = MetaCount(model_.get(), info.architecture + ".pooling_type");
  // Rank, the one that is not named here, gives a score of two texts and no embedding.
  for (const Pooling pooling :
       {LLAMA_POOLING_TYPE_MEAN, LLAMA_POOLING_TYPE_CLS, LLAMA_POOLING_TYPE_LAST}) {
    if (type == static_cast<uint32_t>(pooling)) pooling_ = pooling;
  }
  const int32_t size = llama_model_n_embd(model_.get());
  // Another width is that of a layer behind the pooling, which no model has that can be opened.
  const bool is_whole = size > 0 && size == llama_model_n_embd_out(model_.get());
  if (pooling_ == LLAMA_POOLING_TYPE_NONE || !is_whole) return;
  info.embedding_size = static_cast<uint32_t>(size);
}

ContextHandle LlamaEngine::Impl::MakeContext(llama_context_params params) const {
  SetRopeScaling(options.rope_scaling, &params);
  ContextHandle context(llama_init_from_model(model_.get(), params));
  if (context == nullptr || adapters_.empty()) return context;
  std::vector<llama_adapter_lora*> adapters = adapters_;
  std::vector<float> scales;
  for (const AdapterFile& adapter : options.adapters) scales.push_back(adapter.scale);
  if (llama_set_adapters_lora(context.get(), adapters.data(), adapters.size(), scales.data()) !=
      0) {
    return nullptr;
  }
  return context;
}

Status LlamaEngine::Impl::Open(const std::string& model_name) {
  adapts_threads_ = options.num_threads == 0;
  ATTNDB_RETURN_IF_ERROR(FillDefaults(&options));
  ATTNDB_ASSIGN_OR_RETURN(info.path, ResolveModel(model_name));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> files, ModelFiles(info.path));
  for (const std::string& file : files) {
    std::error_code error;
    info.file_bytes += std::filesystem::file_size(file, error);
  }
  ATTNDB_RETURN_IF_ERROR(CheckModelFiles(files));
  return Guarded("model '" + info.path + "'", [&] { return OpenChecked(files); });
}

Status LlamaEngine::Impl::OpenChecked(const std::vector<std::string>& files) {
  const std::string as_loaded = FilesIdentity(files, options.adapters);
  if (options.map_weights) {
    ATTNDB_ASSIGN_OR_RETURN(weights_, WeightFiles::Open(files));
  }
  ATTNDB_RETURN_IF_ERROR(LoadModel());
  ReadInfo();
  if (!options.chat_template.empty()) ATTNDB_RETURN_IF_ERROR(chat->Check());
  const ContextFactory factory = [this](const llama_context_params& params) {
    return MakeContext(params);
  };
  Result<std::vector<LayerSpec>> layers = ProbeModel(model_.get(), factory);
  if (!layers.ok()) return layers.status().WithContext("model '" + info.path + "'");
  spec.layers = *std::move(layers);
  spec.kv_dtype = options.kv_dtype;
  spec.unrotated_keys = options.unrotated_keys;
  spec.source = SourceOf(info, options.adapters);
  ATTNDB_ASSIGN_OR_RETURN(
      spec.fingerprint,
      ModelFingerprint(files, options.adapters, options.cache_dir, options.keep_going));
  // Weights of one file under the fingerprint of another would be KV that no checksum finds wrong.
  ATTNDB_RETURN_IF_ERROR(CheckUnchanged(as_loaded, files, options.adapters));
  if (Status valid = spec.Validate(); !valid.ok()) {
    return Status::Unsupported("model '" + info.path + "': " + valid.message());
  }
  ATTNDB_ASSIGN_OR_RETURN(
      hooked_, HookedContext::Make(spec, options, adapts_threads_, info.vocab_size, factory));
  return CheckPooling();
}

Result<std::unique_ptr<PlainContext>> LlamaEngine::Impl::OpenPlain(
    const PlainOptions& plain) const {
  return PlainContextBuilder::Make(
      plain, options.num_threads, &*tokenizer,
      [this](const llama_context_params& params) { return MakeContext(params); });
}

}  // namespace attndb::llama
