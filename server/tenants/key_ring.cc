#include "server/tenants/key_ring.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "engines/llama/fingerprint.h"
#include "server/json.h"

namespace attndb::server {
namespace {

constexpr size_t kDigestDigits = 64;

std::string StampOf(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return "";
  return std::to_string(info.st_ino) + "." + std::to_string(info.st_size) + "." +
         std::to_string(info.st_mtim.tv_sec) + "." + std::to_string(info.st_mtim.tv_nsec);
}

bool IsDigest(const std::string& text) {
  return text.size() == kDigestDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

Status ReadLimit(const Json& entry, const char* field, uint64_t most, uint64_t* value) {
  const auto found = entry.find(field);
  if (found == entry.end()) return Status::Ok();
  if (!found->is_number_unsigned() || found->get<uint64_t>() > most) {
    return Status::InvalidArgument(std::string(field) + " is " + Shown(*found) +
                                   ", expected an integer from 0 to " + std::to_string(most));
  }
  *value = found->get<uint64_t>();
  return Status::Ok();
}

std::string TextOf(const Json& entry, const char* field) {
  const auto found = entry.find(field);
  return found != entry.end() && found->is_string() ? found->get<std::string>() : "";
}

Result<std::pair<std::string, TenantRules>> ParseEntry(const Json& entry) {
  if (!entry.is_object()) return Status::InvalidArgument("not an object");
  const std::string digest = TextOf(entry, "sha256");
  if (!IsDigest(digest)) {
    return Status::InvalidArgument("sha256 is '" + digest + "', expected " +
                                   std::to_string(kDigestDigits) + " digits of 0-9 and a-f");
  }
  TenantRules rules;
  rules.tenant = TextOf(entry, "tenant");
  if (rules.tenant.empty()) return Status::InvalidArgument("tenant is missing");
  if (const Json* const is_operator = FindMember(entry, "operator")) {
    if (!is_operator->is_boolean()) {
      return Status::InvalidArgument("operator is " + Shown(*is_operator) +
                                     ", expected true or false");
    }
    rules.is_operator = is_operator->get<bool>();
  }
  uint64_t max_requests = 0;
  ATTNDB_RETURN_IF_ERROR(ReadLimit(entry, "max_requests", UINT32_MAX, &max_requests));
  rules.max_requests = static_cast<uint32_t>(max_requests);
  ATTNDB_RETURN_IF_ERROR(
      ReadLimit(entry, "tokens_per_minute", UINT64_MAX, &rules.tokens_per_minute));
  ATTNDB_RETURN_IF_ERROR(ReadLimit(entry, "quota_bytes", INT64_MAX, &rules.quota_bytes));
  ATTNDB_RETURN_IF_ERROR(ReadLimit(entry, "tpot_ms", 1'000'000, &rules.tpot_ms));
  return std::pair(digest, rules);
}

}  // namespace

Result<KeyRing::Rules> KeyRing::Read(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return errno == ENOENT ? Status::NotFound("keys file '" + path + "' does not exist")
                           : Status::IoError(path + ": " + std::strerror(errno));
  }
  std::ostringstream text;
  text << file.rdbuf();
  const Result<Json> json = ParseJson(text.str());
  if (!json.ok()) return json.status().WithContext(path);
  if (!json->is_object() || !json->contains("keys") || !(*json)["keys"].is_array()) {
    return Status::InvalidArgument(path + R"(: expected {"keys": [...]})");
  }
  Rules rules;
  const Json& keys = (*json)["keys"];
  for (size_t i = 0; i < keys.size(); ++i) {
    Result<std::pair<std::string, TenantRules>> entry = ParseEntry(keys[i]);
    if (!entry.ok()) {
      return entry.status().WithContext(path + ": keys[" + std::to_string(i) + "]");
    }
    rules.insert(*std::move(entry));
  }
  return rules;
}

Result<std::unique_ptr<KeyRing>> KeyRing::Open(const std::string& path) {
  auto ring = std::make_unique<KeyRing>();
  ring->path_ = path;
  if (path.empty()) return ring;
  ring->stamp_ = StampOf(path);
  ATTNDB_ASSIGN_OR_RETURN(ring->rules_, Read(path));
  ring->changed_ = true;
  return ring;
}

void KeyRing::ReadAgain() {
  std::string stamp = StampOf(path_);
  if (stamp == stamp_) return;
  Result<Rules> rules = Read(path_);
  if (!rules.ok()) return;
  rules_ = *std::move(rules);
  stamp_ = std::move(stamp);
  changed_ = true;
}

std::optional<TenantRules> KeyRing::Find(std::string_view key) {
  if (path_.empty()) return TenantRules{.is_operator = true};
  const Result<std::string> digest = llama::TextDigest(key);
  if (!digest.ok()) return std::nullopt;
  const std::lock_guard<std::mutex> lock(mutex_);
  ReadAgain();
  const auto found = rules_.find(*digest);
  return found == rules_.end() ? std::nullopt : std::optional(found->second);
}

std::map<std::string, TenantRules> KeyRing::Tenants() const {
  std::map<std::string, TenantRules> tenants;
  for (const auto& [digest, rules] : rules_) tenants.emplace(rules.tenant, rules);
  return tenants;
}

std::vector<TenantChange> KeyRing::TakeChanges() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!std::exchange(changed_, false)) return {};
  std::vector<TenantChange> changes;
  std::map<std::string, TenantRules> tenants = Tenants();
  for (const auto& [name, rules] : tenants) {
    const auto before = taken_.find(name);
    TenantChange change = {.tenant = name, .is_new = before == taken_.end()};
    const uint64_t quota_before = change.is_new ? 0 : before->second.quota_bytes;
    if (rules.quota_bytes != quota_before) change.quota_bytes = rules.quota_bytes;
    if (change.is_new || change.quota_bytes) changes.push_back(std::move(change));
  }
  taken_ = std::move(tenants);
  return changes;
}

}  // namespace attndb::server
