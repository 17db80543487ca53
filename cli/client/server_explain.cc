#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "cli/client/server_client.h"
#include "cli/client/server_commands.h"
#include "server/json.h"

namespace attndb::cli {
namespace {

constexpr std::array<std::string_view, 7> kExplainFlags = {
    "context", "--plan", "--verbose", "--prompt", "--file", "--system", "--raw"};

Json RequestFor(const ServerExplain& asked) {
  Json body = Json::object();
  if (!asked.context.empty()) body["context"] = asked.context;
  if (!asked.text) {
    body["plan"] = asked.plan;
    return body;
  }
  body["text"] = *asked.text;
  if (!asked.system.empty()) body["system"] = asked.system;
  body["raw"] = asked.raw;
  return body;
}

// Returns `text` with lines that are safe for a terminal.
std::string PrintableLines(std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    const size_t length = std::min(text.find('\n'), text.size());
    lines += Printable(text.substr(0, length)) + "\n";
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return lines;
}

}  // namespace

Result<ExitCode> ExplainThroughServer(Environment* env, const ServerExplain& asked) {
  ATTNDB_RETURN_IF_ERROR(env->CheckForServer(kExplainFlags));
  ATTNDB_ASSIGN_OR_RETURN(const ServerClient client, ServerClient::Connect(env));
  ATTNDB_ASSIGN_OR_RETURN(const Json json,
                          client.Ask("POST", std::string(kExplainPath), RequestFor(asked)));
  const char* const member = asked.text ? "prefix" : "explain";
  const Json* const explain = json.is_object() ? server::FindMember(json, member) : nullptr;
  const char* const text = asked.text || !asked.verbose ? "report" : "tables";
  const Json* const report = json.is_object() ? server::FindMember(json, text) : nullptr;
  if (explain == nullptr || report == nullptr || !report->is_string()) {
    return Status::IoError("the server's answer explains nothing: is it attndb's?");
  }
  env->PrintJson(*explain);
  env->Print(PrintableLines(report->get_ref<const std::string&>()));
  return ExitCode::kOk;
}

}  // namespace attndb::cli
