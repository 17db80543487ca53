#include "cli/common/serve_flags.h"

namespace attndb::cli {
namespace {

constexpr uint32_t kMaxPort = 65535;
constexpr uint32_t kMaxSessions = 64;
constexpr double kLeastStall = 1;  // Prompts keep a tenth of a pass (pass_times.h).
constexpr double kMostStall = 1e6;
constexpr uint32_t kMaxMinutes = 60 * 24 * 365;
constexpr uint32_t kMaxDrainSeconds = 24 * 60 * 60;

}  // namespace

void ServeFlags::AddTo(Flags* flags) {
  AddListener(flags);
  AddRequests(flags);
  AddLimits(flags);
  model.AddTo(flags);
}

void ServeFlags::AddListener(Flags* flags) {
  server::ListenerOptions& listener = options.listener;
  flags->Add({"--host", "ADDRESS", "Address to listen on (default: 127.0.0.1)"}, &listener.address);
  flags->Add({"-p,--port", "PORT", "Port to listen on; 0 = any that is free (default: 8080)"},
             &port, 0U, kMaxPort);
  flags->Add({"--tls-cert", "FILE", "Certificate chain, PEM: serves https"},
             &listener.certificate_file);
  flags->Add({"--tls-key", "FILE", "Private key of the certificate, PEM"},
             &listener.private_key_file);
  flags->Add({"--keys", "FILE", "Who may ask: keys, tenants and limits (docs/serving.md)"},
             &options.keys_file);
  flags->Add({"--api-key", "KEY",
              "Key that clients must send; it may do everything (default: $ATTNDB_API_KEY, which "
              "no list of processes shows)"},
             &api_key);
  flags->Add({"--model-id", "NAME", "What clients call the model (default: its file's name)"},
             &options.model_id);
  flags->Add({"--log", "FORMAT",
              "A line for each request on stderr: text (default), json, off; never with what was "
              "asked or said"},
             &log);
}

void ServeFlags::AddRequests(Flags* flags) {
  flags->Group("Requests");
  flags->Add({"--plan", "TEXT",
              "Plan of requests that name none (default: auto(error=0.01); full is exact)"},
             &options.plan);
  flags->Add({"--fixed-plan", "", "Requests may not name a plan"}, &fixed_plan);
  flags->Add({"--sessions", "N", "Requests in one pass of the model, at most (default: 16)"},
             &num_sessions, 1U, kMaxSessions);
  flags->Add({"--stall-factor", "X",
              "Replies take on the mean at most so many times as long while prompts are read "
              "(default: 2)"},
             &options.scheduler.stall_factor, kLeastStall, kMostStall);
  flags->Add({"--max-tokens", "N", "Tokens of a reply whose request says nothing (default: 4096)"},
             &options.max_tokens, 1U, uint32_t{1} << 30);
  flags->Add({"--window", "N",
              "Tokens that are attended to at most (default: what the model was trained on, "
              "times the factor of --rope-scaling)"},
             &options.window_tokens, uint64_t{64}, uint64_t{1} << 40);
  flags->Add({"--pin-prompt", "FILE",
              "System message that is read at the start and kept; may be given more than once"},
             &prompt_files);
  flags->Add({"--chat-template-kwargs", "JSON",
              "Variables of the model's chat template, as {\"enable_thinking\": false}; those of a "
              "request are stronger"},
             &chat_variables);
  flags->Add({"--ignore-line", "REGEX",
              "Lines of system messages with a match are deleted before the model sees them (RE2); "
              "may be given more than once"},
             &options.ignored_lines);
  flags->Add({"--edits", "HOW",
              "How a chat goes on after its client removed earlier text, such as thoughts or tool "
              "results. exact: the text behind it is computed again. cut: the text behind it stays "
              "as it was computed, which is faster but only approximate. A request can choose "
              "with \"edits\" (default: exact)"},
             &edits);
  flags->Add({"--reasoning-budget", "N",
              "Tokens that the model may think for, if a request does not say; 0 = it does not "
              "think, -1 = any number (default: -1)"},
             &options.reasoning_budget, -1, INT32_MAX);
  flags->Add({"--reasoning-budget-message", "TEXT",
              "Text that ends a thinking whose budget is used up (default: none)"},
             &options.reasoning_message);
}

void ServeFlags::AddLimits(Flags* flags) {
  flags->Add({"--memory", "SIZE",
              "K and V in memory at most, as 8GiB (default: three quarters of what is free)"},
             &memory);
  flags->Add({"--quota", "SIZE",
              "Bytes on disk at most, as 20GiB, or none (default: what 'attndb quota' has set)"},
             &quota);
  flags->Add(
      {"--ttl", "MINUTES", "Conversations go when nobody asked for so long (default: never)"},
      &ttl_minutes, 1U, kMaxMinutes);
  flags->Add({"--drain", "SECONDS", "What is under way may take to end at SIGTERM (default: 30)"},
             &drain_seconds, 0U, kMaxDrainSeconds);
}

}  // namespace attndb::cli
