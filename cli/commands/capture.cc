#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/common/capture.h"
#include "cli/common/engine_flags.h"
#include "cli/common/interrupt.h"
#include "cli/common/layer_list.h"
#include "cli/common/output_file.h"
#include "cli/common/progress.h"
#include "cli/common/text_input.h"
#include "cli/common/trained_length.h"
#include "cli/common/units.h"
#include "engines/llama/prompt_layout.h"

namespace attndb::cli {
namespace {

using llama::LlamaEngine;

class CaptureCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add({"file", "FILE", "A text file, or - for stdin", /*required=*/true}, &file_);
    flags->Add({"-o,--output", "FILE", "The KV file to write; it must not be there yet",
                /*required=*/true},
               &output_);
    flags->Add({"--layers", "LIST", "Layers to keep, as in 0,3,5-7 (default: all)"}, &layers_);
    flags->Add({"--tokens", "N", "Take the first N tokens (default: all)"}, &num_tokens_,
               uint64_t{1}, uint64_t{1'000'000'000});
    flags->Add({"--queries", "N", "Keep q of the last N tokens (default: all)"}, &num_queries_,
               uint64_t{0}, UINT64_MAX);
    flags->Add({"--kv-dtype", "TYPE", "K and V: f16 (default), bf16 or f32"}, &kv_dtype_);
    flags->Add({"--plan", "TEXT", "How each token attends, in prefill too (default: full)"},
               &plan_);
    flags->Group("Text");
    flags->Add({"--token-ids", "", "FILE holds token ids instead of text"}, &ids_);
    flags->Add({"--system", "TEXT", "System message in front of the text"}, &system_);
    flags->Add({"--raw", "", "The text alone, without the model's chat template"}, &raw_);
    model_.AddTo(flags);
  }

  Result<ExitCode> Run(Environment* env) override {
    ATTNDB_RETURN_IF_ERROR(CheckOutputFile(output_, "--output"));
    ATTNDB_ASSIGN_OR_RETURN(const std::string text, ReadText(file_));
    const InterruptScope interrupt;
    ATTNDB_ASSIGN_OR_RETURN(LlamaEngine engine, model_.Open(env, kv_dtype_));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, Tokens(env, engine, text));
    CaptureOptions options;
    if (!layers_.empty()) {
      ATTNDB_ASSIGN_OR_RETURN(options.layers, ParseLayers(layers_, engine.spec().num_layers()));
    }
    options.num_queries = num_queries_;
    options.plan = plan_;
    options.notes = {{"model", std::filesystem::path(engine.info().path).stem().string()},
                     {"plan", plan_}};
    ProgressLine progress({.label = "prefill", .unit = "tokens", .enabled = env->show_progress()});
    options.progress = [&](const llama::PrefillProgress& p) {
      progress.Update(p.tokens_done, p.tokens_total);
      return !Interrupted();
    };
    const double start_seconds = MonotonicSeconds();
    const Status status = Capture(&engine, tokens, options, output_);
    progress.Clear();
    ATTNDB_RETURN_IF_ERROR(WithFileAdvice(env, status));
    Report(env, engine, options, tokens.size(), MonotonicSeconds() - start_seconds);
    return ExitCode::kOk;
  }

 private:
  Result<std::vector<TokenId>> Tokens(Environment* env, const LlamaEngine& engine,
                                      const std::string& text) const {
    llama::TokenizeLimits limits = TextLimits(env, engine.info());
    limits.max_tokens = num_tokens_;
    std::vector<TokenId> tokens;
    if (ids_) {
      ATTNDB_ASSIGN_OR_RETURN(tokens, ParseTokenIds(text));
    } else {
      ATTNDB_ASSIGN_OR_RETURN(llama::PromptText document,
                              DocumentText(engine, raw_, system_, text, limits));
      tokens = std::move(document.tokens);
    }
    if (tokens.empty()) return Status::InvalidArgument("'" + file_ + "' is empty");
    tokens.resize(std::min<uint64_t>(tokens.size(), num_tokens_));
    return tokens;
  }

  void Report(Environment* env, const LlamaEngine& engine, const CaptureOptions& options,
              uint64_t num_tokens, double seconds) const {
    std::error_code error;
    const uint64_t file_bytes = std::filesystem::file_size(output_, error);
    const uint64_t num_layers =
        options.layers.empty() ? engine.spec().num_layers() : options.layers.size();
    env->PrintJson({{"file", output_},
                    {"num_tokens", num_tokens},
                    {"num_queries", std::min(num_tokens, num_queries_)},
                    {"num_layers", num_layers},
                    {"rope_scaling", engine.spec().layers.front().rope.scaling},
                    {"plan", plan_},
                    {"file_bytes", file_bytes},
                    {"seconds", seconds}});
    env->Print("captured " + Counted(num_tokens, "token") + " in " + FormatCount(num_layers) +
               " of " + Counted(engine.spec().num_layers(), "layer") + " to " + output_ + ": " +
               FormatBytes(file_bytes) + ", in " + FormatSeconds(seconds) + "\n");
  }

  std::string file_;
  std::string output_;
  std::string layers_;
  uint64_t num_tokens_ = UINT64_MAX;
  uint64_t num_queries_ = UINT64_MAX;
  DType kv_dtype_ = DType::kFloat16;
  std::string plan_ = "full";
  bool ids_ = false;
  std::string system_;
  bool raw_ = false;
  ModelFlags model_;
};

}  // namespace

std::unique_ptr<Command> MakeCapture() { return std::make_unique<CaptureCommand>(); }

}  // namespace attndb::cli
