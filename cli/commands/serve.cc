#include <sys/prctl.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/common/engine_flags.h"
#include "cli/common/interrupt.h"
#include "cli/common/text_input.h"
#include "cli/common/units.h"
#include "server/server.h"

namespace attndb::cli {
namespace {

constexpr std::chrono::milliseconds kLook{50};  // Between looks for a signal.
constexpr uint32_t kMaxPort = 65535;
constexpr uint32_t kMaxSessions = 64;
constexpr double kLeastStall = 1;  // Prompts keep a tenth of a pass (pass_times.h).
constexpr double kMostStall = 1e6;
constexpr uint32_t kMaxMinutes = 60 * 24 * 365;
constexpr uint32_t kMaxDrainSeconds = 24 * 60 * 60;

// "/models/SmolLM2.Q4_1.gguf" -> "SmolLM2.Q4_1"
std::string IdOf(const std::string& model) {
  std::string id = model.substr(model.find_last_of('/') + 1);
  constexpr std::string_view kSuffix = ".gguf";
  if (id.ends_with(kSuffix)) id.resize(id.size() - kSuffix.size());
  return id;
}

// Says in the store where its server is, for those that find the store locked; what can't be
// written is not said.
class ServingFile {
 public:
  ServingFile(const std::string& db_path, const std::string& url)
      : path_(db_path + "/" + kServingFile) {
    std::ofstream(path_) << url << "\n";
  }
  ~ServingFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  ServingFile(const ServingFile&) = delete;
  ServingFile& operator=(const ServingFile&) = delete;

 private:
  const std::string path_;
};

class ServeCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    server::ListenerOptions& listener = options_.listener;
    flags->Add({"--host", "ADDRESS", "Address to listen on (default: 127.0.0.1)"},
               &listener.address);
    flags->Add({"-p,--port", "PORT", "Port to listen on; 0 = any that is free (default: 8080)"},
               &port_, 0U, kMaxPort);
    flags->Add({"--tls-cert", "FILE", "Certificate chain, PEM: serves https"},
               &listener.certificate_file);
    flags->Add({"--tls-key", "FILE", "Private key of the certificate, PEM"},
               &listener.private_key_file);
    flags->Add({"--keys", "FILE", "Who may ask: keys, tenants and limits (docs/serving.md)"},
               &options_.keys_file);
    flags->Add({"--model-id", "NAME", "What clients call the model (default: its file's name)"},
               &options_.model_id);
    flags->Add({"--log", "FORMAT",
                "A line for each request on stderr: text (default), json, off; never with what was "
                "asked or said"},
               &log_);
    flags->Group("Requests");
    flags->Add({"--plan", "TEXT",
                "Plan of requests that name none (default: auto(error=0.01); full is exact)"},
               &options_.plan);
    flags->Add({"--fixed-plan", "", "Requests may not name a plan"}, &fixed_plan_);
    flags->Add({"--sessions", "N", "Requests in one pass of the model, at most (default: 16)"},
               &num_sessions_, 1U, kMaxSessions);
    flags->Add({"--stall-factor", "X",
                "Replies take on the mean at most so many times as long while prompts are read "
                "(default: 2)"},
               &options_.scheduler.stall_factor, kLeastStall, kMostStall);
    flags->Add(
        {"--max-tokens", "N", "Tokens of a reply whose request says nothing (default: 4096)"},
        &options_.max_tokens, 1U, uint32_t{1} << 30);
    flags->Add({"--window", "N",
                "Tokens that are attended to at most (default: what the model was trained on, "
                "times the factor of --rope-scaling)"},
               &options_.window_tokens, uint64_t{64}, uint64_t{1} << 40);
    flags->Add({"--pin-prompt", "FILE",
                "System message that is read at the start and kept; may be given more than once"},
               &prompt_files_);
    flags->Add({"--memory", "SIZE",
                "K and V in memory at most, as 8GiB (default: three quarters of what is free)"},
               &memory_);
    flags->Add(
        {"--ttl", "MINUTES", "Conversations go when nobody asked for so long (default: never)"},
        &ttl_minutes_, 1U, kMaxMinutes);
    flags->Add({"--drain", "SECONDS", "What is under way may take to end at SIGTERM (default: 30)"},
               &drain_seconds_, 0U, kMaxDrainSeconds);
    model_.AddTo(flags);
  }

  Result<ExitCode> Run(Environment* env) override {
    ATTNDB_RETURN_IF_ERROR(env->UseStore());
    prctl(PR_SET_NAME, kServingName);
    ATTNDB_ASSIGN_OR_RETURN(options_.log, LogFormatOf(env));
    ATTNDB_RETURN_IF_ERROR(CheckTls());
    DBOptions db_options;
    if (!memory_.empty()) {
      ATTNDB_ASSIGN_OR_RETURN(db_options.host_memory_bytes, ParseBytes(memory_));
    }
    ATTNDB_RETURN_IF_ERROR(ReadPrompts());
    ATTNDB_RETURN_IF_ERROR(server::CheckKeys(options_.keys_file));  // Before a store is made.
    const InterruptScope interrupt;
    llama::EngineOptions engine_options;
    engine_options.max_sessions = num_sessions_;
    engine_options.awaits_derived = false;
    ATTNDB_ASSIGN_OR_RETURN(llama::LlamaEngine engine, model_.OpenWith(env, engine_options));
    ATTNDB_ASSIGN_OR_RETURN(DB db, env->OpenForWriting(true, db_options));
    options_.listener.port = static_cast<uint16_t>(port_);
    options_.allow_plans = !fixed_plan_;
    if (options_.model_id.empty()) options_.model_id = IdOf(model_.model());
    if (ttl_minutes_ > 0) options_.conversations.ttl = std::chrono::minutes(ttl_minutes_);
    ATTNDB_ASSIGN_OR_RETURN(const std::unique_ptr<server::Server> server,
                            server::Server::Start(std::move(engine), std::move(db), options_));
    const ServingFile file(env->db_path(), UrlOf(server->port()));
    SayWhere(env, server->port());
    while (!Interrupted()) std::this_thread::sleep_for(kLook);
    env->Note("ends: what is under way may take " + std::to_string(drain_seconds_) + " s");
    server->Stop(std::chrono::seconds(drain_seconds_));
    return ExitCode::kOk;
  }

 private:
  Status ReadPrompts() {
    for (const std::string& file : prompt_files_) {
      ATTNDB_ASSIGN_OR_RETURN(std::string text, ReadText(file));
      while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
      if (text.empty()) return Status::InvalidArgument("'" + file + "' is empty");
      options_.pinned_prompts.push_back(std::move(text));
    }
    return Status::Ok();
  }

  // Who gives one of the two means https, and must not get http.
  Status CheckTls() const {
    const bool has_certificate = !options_.listener.certificate_file.empty();
    const bool has_key = !options_.listener.private_key_file.empty();
    if (has_certificate == has_key) return Status::Ok();
    return Status::InvalidArgument(has_key
                                       ? "--tls-key is given without --tls-cert; https needs both"
                                       : "--tls-cert is given without --tls-key; https needs both");
  }

  // Without --log: as the rest of the output is.
  Result<server::LogFormat> LogFormatOf(const Environment* env) const {
    if (log_.empty() && env->options().quiet) return server::LogFormat::kOff;
    if (log_ == "json" || (log_.empty() && env->json())) return server::LogFormat::kJson;
    if (log_ == "text" || log_.empty()) return server::LogFormat::kText;
    if (log_ == "off") return server::LogFormat::kOff;
    return Status::InvalidArgument("--log is '" + log_ + "', expected text, json or off");
  }

  std::string UrlOf(uint16_t port) const {
    const bool tls = !options_.listener.certificate_file.empty();
    return std::string(tls ? "https" : "http") + "://" + options_.listener.address + ":" +
           std::to_string(port);
  }

  void SayWhere(Environment* env, uint16_t port) const {
    const std::string url = UrlOf(port);
    env->Note(options_.model_id + " answers at " + url + "/v1; Ctrl-C ends");
    env->PrintJson({{"url", url}, {"port", port}, {"model", options_.model_id}});
    std::fflush(stdout);
  }

  server::ServerOptions options_;
  uint32_t port_ = 8080;
  uint32_t num_sessions_ = 16;
  uint32_t ttl_minutes_ = 0;
  uint32_t drain_seconds_ = 30;
  bool fixed_plan_ = false;
  std::string log_;
  std::string memory_;
  std::vector<std::string> prompt_files_;
  ModelFlags model_;
};

}  // namespace

std::unique_ptr<Command> MakeServe() { return std::make_unique<ServeCommand>(); }

}  // namespace attndb::cli
