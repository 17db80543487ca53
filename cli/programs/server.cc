// attndb-server: the program that `attndb serve` starts, with the same command line. It calls
// itself attndb, so that messages, lists of processes and locks name the command that a user gave.
#include <sys/prctl.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "cli/common/api_key.h"
#include "cli/common/interrupt.h"
#include "cli/common/serve_flags.h"
#include "cli/common/text_input.h"
#include "cli/common/units.h"
#include "cli/program.h"
#include "server/server.h"

namespace attndb::cli {
namespace {

constexpr std::chrono::milliseconds kLook{50};  // Between looks for a signal.

// "/models/SmolLM2.Q4_1.gguf" -> "SmolLM2.Q4_1"
std::string IdOf(const std::string& model) {
  std::string id = model.substr(model.find_last_of('/') + 1);
  constexpr std::string_view kSuffix = ".gguf";
  if (id.ends_with(kSuffix)) id.resize(id.size() - kSuffix.size());
  return id;
}

// Says in the store where its server is, for processes that find the store locked. A store that
// cannot be written is left as it is.
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

class ServerCommand : public Command {
 public:
  void AddFlags(Flags* flags) override { flags_.AddTo(flags); }

  Result<ExitCode> Run(Environment* env) override {
    ATTNDB_RETURN_IF_ERROR(env->UseStore());
    prctl(PR_SET_NAME, kServingName);
    ATTNDB_ASSIGN_OR_RETURN(flags_.options.log, LogFormatOf(env));
    ATTNDB_RETURN_IF_ERROR(ReadEdits());
    ATTNDB_RETURN_IF_ERROR(CheckTls());
    DBOptions db_options;
    if (!flags_.memory.empty()) {
      ATTNDB_ASSIGN_OR_RETURN(db_options.host_memory_bytes, ParseBytes(flags_.memory));
    }
    if (env->IsGiven("--chat-template-kwargs")) {
      ATTNDB_RETURN_IF_ERROR(server::ReadChatVariables(flags_.chat_variables, &flags_.options));
    }
    ATTNDB_RETURN_IF_ERROR(server::CheckIgnoredLines(flags_.options).WithContext("--ignore-line"));
    ATTNDB_RETURN_IF_ERROR(ReadPrompts());
    ATTNDB_RETURN_IF_ERROR(ReadKeysAndQuota(env));
    ATTNDB_RETURN_IF_ERROR(server::CheckKeys(flags_.options));  // Before a store is made.
    const InterruptScope interrupt;
    llama::EngineOptions engine_options;
    engine_options.max_sessions = flags_.num_sessions;
    engine_options.awaits_derived = false;
    ATTNDB_ASSIGN_OR_RETURN(llama::LlamaEngine engine, flags_.model.OpenWith(env, engine_options));
    const Status chats = engine.CheckChatTemplate();
    const std::string model_file = std::filesystem::path(engine.info().path).filename().string();
    ATTNDB_ASSIGN_OR_RETURN(DB db, env->OpenForWriting(true, db_options));
    ATTNDB_RETURN_IF_ERROR(NoteQuota(env, db));
    flags_.options.listener.port = static_cast<uint16_t>(flags_.port);
    flags_.options.allow_plans = !flags_.fixed_plan;
    if (flags_.options.model_id.empty()) flags_.options.model_id = IdOf(flags_.model.model());
    if (flags_.ttl_minutes > 0)
      flags_.options.conversations.ttl = std::chrono::minutes(flags_.ttl_minutes);
    ATTNDB_ASSIGN_OR_RETURN(
        const std::unique_ptr<server::Server> server,
        server::Server::Start(std::move(engine), std::move(db), flags_.options));
    const ServingFile file(env->db_path(), UrlOf(server->port()));
    if (!chats.ok()) {
      env->Warn("chats are refused, because the chat template of '" + model_file +
                "' can't be used: " + chats.message() +
                "; completions work, and --chat-template replaces the template");
    }
    SayWhere(env, *server, chats);
    while (!Interrupted()) std::this_thread::sleep_for(kLook);
    env->Note("ends: what is under way may take " + std::to_string(flags_.drain_seconds) + " s");
    server->Stop(std::chrono::seconds(flags_.drain_seconds));
    return ExitCode::kOk;
  }

 private:
  Status ReadKeysAndQuota(Environment* env) {
    std::optional<std::string> flag;
    if (env->IsGiven(kApiKeyFlag)) flag = flags_.api_key;
    ATTNDB_ASSIGN_OR_RETURN(flags_.options.api_key, ApiKeyOf(flag));
    if (!env->IsGiven("--quota")) return Status::Ok();
    const Result<uint64_t> limit = ParseLimit(flags_.quota);
    if (!limit.ok()) {
      return env->WithAdvice(limit.status().WithContext("--quota"),
                             "'--quota none' takes the limit away");
    }
    flags_.options.quota_bytes = *limit;
    return Status::Ok();
  }

  // Tells the user if the limit is below the stored bytes, like `attndb quota`.
  Status NoteQuota(Environment* env, const DB& db) const {
    const uint64_t quota_bytes = flags_.options.quota_bytes.value_or(0);
    if (quota_bytes == 0) return Status::Ok();
    ATTNDB_ASSIGN_OR_RETURN(const DBStats stats, db.Stats());
    if (stats.file_bytes <= quota_bytes) return Status::Ok();
    env->Note(FormatBytes(stats.file_bytes) + " are stored, and --quota allows " +
              FormatBytes(quota_bytes) + ": the next turn evicts what was used longest ago");
    return Status::Ok();
  }

  Status ReadPrompts() {
    for (const std::string& file : flags_.prompt_files) {
      ATTNDB_ASSIGN_OR_RETURN(std::string text, ReadText(file));
      while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
      if (text.empty()) return Status::InvalidArgument("'" + file + "' is empty");
      flags_.options.pinned_prompts.push_back(std::move(text));
    }
    return Status::Ok();
  }

  // A user who gives one of the two flags wants https, and must not get http.
  Status CheckTls() const {
    const bool has_certificate = !flags_.options.listener.certificate_file.empty();
    const bool has_key = !flags_.options.listener.private_key_file.empty();
    if (has_certificate == has_key) return Status::Ok();
    return Status::InvalidArgument(has_key
                                       ? "--tls-key is given without --tls-cert; https needs both"
                                       : "--tls-cert is given without --tls-key; https needs both");
  }

  Status ReadEdits() {
    const std::optional<server::Edits> edits = server::EditsNamed(flags_.edits);
    if (!edits) {
      return Status::InvalidArgument("--edits is '" + flags_.edits + "', expected " +
                                     std::string(server::kEditsNames));
    }
    flags_.options.edits = *edits;
    return Status::Ok();
  }

  // The format of --log. Without the flag, the log is like the rest of the output.
  Result<server::LogFormat> LogFormatOf(const Environment* env) const {
    if (flags_.log.empty() && env->options().quiet) return server::LogFormat::kOff;
    if (flags_.log == "json" || (flags_.log.empty() && env->json()))
      return server::LogFormat::kJson;
    if (flags_.log == "text" || flags_.log.empty()) return server::LogFormat::kText;
    if (flags_.log == "off") return server::LogFormat::kOff;
    return Status::InvalidArgument("--log is '" + flags_.log + "', expected text, json or off");
  }

  std::string UrlOf(uint16_t port) const {
    const bool tls = !flags_.options.listener.certificate_file.empty();
    const std::string& address = flags_.options.listener.address;
    const bool is_ipv6 = address.find(':') != std::string::npos;
    return std::string(tls ? "https" : "http") + "://" + (is_ipv6 ? "[" + address + "]" : address) +
           ":" + std::to_string(port);
  }

  // `chats`: why chats are refused, if they are.
  void SayWhere(Environment* env, const server::Server& server, const Status& chats) const {
    const std::string url = UrlOf(server.port());
    if (server::IsOpenToNetwork(flags_.options)) {
      env->Warn("anybody who reaches " + url +
                " may read, change and remove what is stored, because no key is asked for; "
                "set --api-key or --keys");
    }
    SayIgnoredLines(env);
    if (flags_.options.edits == server::Edits::kCut) {
      env->Note(
          "Tokens behind a removed piece of a chat are not run again. This is approximate. "
          "A request turns it off with \"edits\": \"exact\".");
    }
    env->Note(flags_.options.model_id + " answers at " + url + "/v1; Ctrl-C ends");
    if (server.max_tokens() < flags_.options.max_tokens) {
      env->Note("replies have at most " + Counted(server.max_tokens(), "token") +
                " unless a request says 'max_tokens', not " +
                FormatCount(flags_.options.max_tokens) +
                ": memory for K and V (--memory) allows no more");
    }
    Json started = JsonObject({{"url", url},
                               {"port", server.port()},
                               {"model", flags_.options.model_id},
                               {"max_tokens", server.max_tokens()}});
    if (!flags_.options.ignored_lines.empty()) {
      started["ignored_lines"] = flags_.options.ignored_lines;
    }
    if (!chats.ok()) started["chat_template_error"] = std::string(chats.message());
    if (flags_.options.edits == server::Edits::kCut) started["edits"] = flags_.edits;
    env->PrintJson(started);
    std::fflush(stdout);
  }

  void SayIgnoredLines(Environment* env) const {
    std::string expressions;
    for (const std::string& expression : flags_.options.ignored_lines) {
      expressions += (expressions.empty() ? "'" : ", '") + expression + "'";
    }
    if (expressions.empty()) return;
    env->Note("lines of system messages are deleted that match " + expressions +
              "; the log says how many of each request");
  }

  ServeFlags flags_;
};

}  // namespace
}  // namespace attndb::cli

int main(int argc, char** argv) {
  using attndb::cli::Command;
  const attndb::cli::CommandEntry serve = {
      "serve", "Serve OpenAI's interface; every conversation is kept and goes on at once",
      "attndb serve\n"
      "attndb serve --help",
      []() -> std::unique_ptr<Command> { return std::make_unique<attndb::cli::ServerCommand>(); }};
  return attndb::cli::RunProgram({.name = "attndb",
                                  .about = "The server of attndb, which 'attndb serve' starts.",
                                  .examples = "  attndb serve\n",
                                  .commands = {&serve, 1},
                                  .moved = {}},
                                 argc, argv);
}
