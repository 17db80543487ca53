#include "cli/client/server_contexts.h"

#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cli/client/context_json.h"
#include "cli/client/server_client.h"
#include "server/json.h"

namespace attndb::cli {
namespace {

constexpr std::chrono::seconds kMostStoreWait{5};    // For a turn to be durable.
constexpr std::chrono::milliseconds kStoreLook{20};  // Between looks.

class ServerContexts final : public Contexts {
 public:
  explicit ServerContexts(ServerClient client) : client_(std::move(client)) {}

  Result<ContextList> List() override {
    ATTNDB_ASSIGN_OR_RETURN(const Json json, client_.Ask("GET", std::string(kContextsPath)));
    const Json* const contexts = json.is_object() ? server::FindMember(json, "contexts") : nullptr;
    if (contexts == nullptr || !contexts->is_array()) {
      return Status::IoError("the server's answer is no list of contexts: is it attndb's?");
    }
    ContextList list;
    for (const Json& context : *contexts) {
      ATTNDB_ASSIGN_OR_RETURN(ContextInfo info, ContextFromJson(context));
      list.contexts.push_back(std::move(info));
    }
    ATTNDB_ASSIGN_OR_RETURN(list.file_bytes, CountFromJson(json, "file_bytes"));
    ATTNDB_ASSIGN_OR_RETURN(list.quota_bytes, CountFromJson(json, "quota_bytes"));
    return list;
  }

  // A turn that was just answered is durable a moment later.
  Result<ContextInfo> Describe(const std::string& context) override {
    const auto deadline = std::chrono::steady_clock::now() + kMostStoreWait;
    while (true) {
      ATTNDB_ASSIGN_OR_RETURN(const Json json, client_.Ask("GET", ContextPath(context)));
      if (!json.is_object()) return Status::IoError("the server's answer is no context");
      const Json* const durable = server::FindMember(json, "durable");
      const Json* const damaged = server::FindMember(json, "damaged");
      if (damaged != nullptr && *damaged == true) return ContextFromJson(json);
      const Json* const error = server::FindMember(json, "error");
      if (error != nullptr && error->is_string()) {
        return Status::FailedPrecondition("'" + context + "' could not be stored: " +
                                          Printable(error->get_ref<const std::string&>()));
      }
      if (durable == nullptr || *durable != false) return ContextFromJson(json);
      if (std::chrono::steady_clock::now() >= deadline) {
        return Status::FailedPrecondition("'" + context + "' is being stored");
      }
      std::this_thread::sleep_for(kStoreLook);
    }
  }

  Status Pin(const std::string& context, bool pinned) override {
    return client_.Ask("POST", ContextPath(context), {{"pinned", pinned}}).status();
  }

  Status SetTtl(const std::string& context, std::optional<std::chrono::seconds> ttl) override {
    const Json seconds = ttl ? Json(ttl->count()) : Json();
    return client_.Ask("POST", ContextPath(context), {{"ttl_seconds", seconds}}).status();
  }

  Status Rename(const std::string& context, const std::string& name) override {
    return client_.Ask("POST", ContextPath(context), {{"name", name}}).status();
  }

  Status Drop(const std::string& context) override {
    return client_.Ask("DELETE", ContextPath(context)).status();
  }

 private:
  const ServerClient client_;
};

}  // namespace

Result<std::unique_ptr<Contexts>> OpenServerContexts(Environment* env) {
  constexpr std::array<std::string_view, 9> kFlags = {
      "context", "contexts", "ttl", "name", "--off", "--sort", "--tree", "--all", "pattern"};
  ATTNDB_RETURN_IF_ERROR(env->CheckForServer(kFlags));
  return ConnectContexts(env);
}

Result<std::unique_ptr<Contexts>> ConnectContexts(Environment* env) {
  ATTNDB_ASSIGN_OR_RETURN(ServerClient client, ServerClient::Connect(env));
  return std::unique_ptr<Contexts>(std::make_unique<ServerContexts>(std::move(client)));
}

}  // namespace attndb::cli
