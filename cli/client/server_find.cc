#include "cli/client/server_find.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/client/server_client.h"
#include "cli/client/server_commands.h"
#include "cli/client/server_contexts.h"
#include "cli/common/found_text.h"
#include "cli/common/library.h"
#include "server/json.h"

namespace attndb::cli {
namespace {

constexpr std::array<std::string_view, 4> kFindFlags = {"question", "--context", "--limit",
                                                        "--passage-tokens"};

Json RequestFor(const std::string& question, const FindOptions& options) {
  Json body = {
      {"question", question}, {"top", options.limit}, {"passage_tokens", options.passage_tokens}};
  if (!options.contexts.empty()) body["contexts"] = options.contexts;
  return body;
}

// The passages that a server found.
struct ServerFound {
  FindResult result;
  std::vector<std::string> texts;
  FindTimes times;
};

Status NotFoundByAttndb() {
  return Status::IoError("the server's answer tells no passages: is it attndb's?");
}

// Reads an answer. Returns false if a member is missing or has a wrong type.
bool ReadPassage(const Json& json, ServerFound* found) {
  std::string context;
  std::string text;
  uint64_t first = 0;
  uint64_t count = 0;
  const Json* const score = json.is_object() ? server::FindMember(json, "score") : nullptr;
  if (score == nullptr || !score->is_number() ||
      !server::ReadString(json, "context", &context).ok() ||
      !server::ReadString(json, "text", &text).ok() ||
      !server::ReadCount(json, "first_token", 0, INT64_MAX, &first).ok() ||
      !server::ReadCount(json, "num_tokens", 1, INT32_MAX, &count).ok()) {
    return false;
  }
  Passage passage;
  passage.context = Printable(context);
  passage.tokens = {first, first + count};
  passage.score = score->get<double>();
  found->result.passages.push_back(std::move(passage));
  found->texts.push_back(std::move(text));
  return true;
}

bool ReadSkipped(const Json& json, ServerFound* found) {
  SkippedContext skipped;
  if (!json.is_object() || !server::ReadString(json, "context", &skipped.context).ok() ||
      !server::ReadString(json, "reason", &skipped.reason).ok()) {
    return false;
  }
  found->result.skipped.push_back({Printable(skipped.context), Printable(skipped.reason)});
  return true;
}

// Reads each entry of a list.
bool ReadEach(const Json& json, const char* name, bool (*read)(const Json&, ServerFound*),
              ServerFound* found) {
  const Json* const list = server::FindMember(json, name);
  return list != nullptr && list->is_array() &&
         std::ranges::all_of(*list, [&](const Json& each) { return read(each, found); });
}

Result<ServerFound> ReadFound(const Json& json) {
  ServerFound found;
  if (!json.is_object()) return NotFoundByAttndb();
  if (!ReadEach(json, "passages", ReadPassage, &found) ||
      !ReadEach(json, "skipped", ReadSkipped, &found)) {
    return NotFoundByAttndb();
  }
  const auto count = [&json](const char* name, uint64_t* value) {
    return server::ReadCount(json, name, 0, INT64_MAX, value).ok();
  };
  const auto milliseconds = [&json](const char* name, double* value) {
    const Json* const number = server::FindMember(json, name);
    if (number != nullptr && number->is_number()) *value = number->get<double>();
    return number != nullptr && number->is_number();
  };
  if (!count("num_contexts", &found.result.num_contexts) ||
      !count("num_tokens", &found.result.num_tokens) ||
      !milliseconds("question_ms", &found.times.question_ms) ||
      !milliseconds("find_ms", &found.times.find_ms)) {
    return NotFoundByAttndb();
  }
  return found;
}

}  // namespace

Status NothingFound(Environment* env, const std::vector<std::string>& among, Status status) {
  if (status.code() != StatusCode::kNotFound || !among.empty()) return status;
  const auto contexts = ConnectContexts(env);
  if (!contexts.ok()) return status;
  const Result<ContextList> list = (*contexts)->List();
  return list.ok() && list->contexts.empty() ? EmptyStore(env) : status;
}

Result<ExitCode> FindThroughServer(Environment* env, const std::string& question,
                                   const FindOptions& options) {
  ATTNDB_RETURN_IF_ERROR(env->CheckForServer(kFindFlags));
  ATTNDB_ASSIGN_OR_RETURN(const ServerClient client, ServerClient::Connect(env));
  const Result<Json> json =
      client.Ask("POST", std::string(kFindPath), RequestFor(question, options));
  if (!json.ok()) return NothingFound(env, options.contexts, json.status());
  ATTNDB_ASSIGN_OR_RETURN(const ServerFound found, ReadFound(*json));
  NoteSkipped(env, found.result);
  env->PrintJson(*json);
  PrintFound(env, found.result, found.texts, found.times);
  return ExitCode::kOk;
}

}  // namespace attndb::cli
