#include "cli/common/contexts.h"

#include <fnmatch.h>

#include <string_view>
#include <utility>

#include "cli/client/server_contexts.h"
#include "cli/common/context_text.h"
#include "cli/common/nearest.h"

namespace attndb::cli {
namespace {

class StoredContexts final : public Contexts {
 public:
  explicit StoredContexts(DB db) : db_(std::move(db)) {}

  Result<ContextList> List() override {
    ContextList list;
    ATTNDB_ASSIGN_OR_RETURN(list.contexts, db_.List());
    ATTNDB_ASSIGN_OR_RETURN(const DBStats stats, db_.Stats());
    list.file_bytes = stats.file_bytes;
    list.quota_bytes = stats.quota_bytes;
    return list;
  }
  Result<ContextInfo> Describe(const std::string& context) override {
    return db_.Describe(context);
  }
  Status Pin(const std::string& context, bool pinned) override { return db_.Pin(context, pinned); }
  Status SetTtl(const std::string& context, std::optional<std::chrono::seconds> ttl) override {
    return db_.SetTtl(context, ttl);
  }
  Status Rename(const std::string& context, const std::string& name) override {
    return db_.Rename(context, name);
  }
  Status Drop(const std::string& context) override { return db_.Drop(context); }

 private:
  const DB db_;
};

}  // namespace

std::string GuessContext(Environment* env, const Status& failure) {
  constexpr std::string_view kBefore = "no context \"";
  constexpr size_t kMostNames = 3;
  const std::string& message = failure.message();
  const size_t found = message.find(kBefore);
  if (failure.code() != StatusCode::kNotFound || found == std::string::npos) return "";
  const size_t begin = found + kBefore.size();
  const std::string name = message.substr(begin, message.find('"', begin) - begin);
  const auto contexts =
      env->server().empty() ? OpenContexts(env, Access::kRead) : ConnectContexts(env);
  if (!contexts.ok()) return "";
  const Result<ContextList> list = (*contexts)->List();
  if (!list.ok()) return "";
  std::vector<std::string> names;
  for (const ContextInfo& context : list->contexts) {
    if (!context.name.empty()) names.push_back(context.name);
  }
  std::string text;
  for (const std::string& like : NamesLike(name, names, kMostNames)) {
    text += (text.empty() ? "did you mean '" : "' or '") + like;
  }
  return text.empty() ? "" : text + "'?";
}

Result<std::optional<ContextInfo>> IfThere(Result<ContextInfo> found) {
  if (found.ok()) return std::optional(*std::move(found));
  if (found.status().code() == StatusCode::kNotFound) return std::optional<ContextInfo>();
  return found.status();
}

std::vector<ContextInfo> Matching(std::vector<ContextInfo> contexts, const std::string& pattern) {
  std::erase_if(contexts, [&pattern](const ContextInfo& context) {
    return !pattern.empty() && fnmatch(pattern.c_str(), NameOf(context).c_str(), 0) != 0;
  });
  return contexts;
}

bool IsPattern(const std::string& name) { return name.find_first_of("*?[") != std::string::npos; }

Result<std::unique_ptr<Contexts>> OpenContexts(Environment* env, Access access) {
  if (!env->server().empty()) return OpenServerContexts(env);
  ATTNDB_ASSIGN_OR_RETURN(
      DB db, access == Access::kRead ? env->OpenForReading() : env->OpenForWriting(false));
  return std::unique_ptr<Contexts>(std::make_unique<StoredContexts>(std::move(db)));
}

}  // namespace attndb::cli
