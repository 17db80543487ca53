#include "server/tenants/key_ring.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "engines/llama/fingerprint.h"

namespace attndb::server {
namespace {

std::string StampOf(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return "";
  return std::to_string(info.st_ino) + "." + std::to_string(info.st_size) + "." +
         std::to_string(info.st_mtim.tv_sec) + "." + std::to_string(info.st_mtim.tv_nsec);
}

// The rules of the own key, and of everybody where there are no keys.
TenantRules OwnRules() { return {.is_operator = true}; }

}  // namespace

Result<KeyRules> KeyRing::Read(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return errno == ENOENT ? Status::NotFound("keys file '" + path + "' does not exist")
                           : Status::IoError(path + ": " + std::strerror(errno));
  }
  std::ostringstream text;
  text << file.rdbuf();
  Result<KeyRules> rules = ParseKeysFile(text.str());
  if (!rules.ok()) return rules.status().WithContext(path);
  return rules;
}

Result<std::unique_ptr<KeyRing>> KeyRing::Open(const std::string& path, std::string_view api_key) {
  auto ring = std::make_unique<KeyRing>();
  if (!api_key.empty()) {
    ATTNDB_ASSIGN_OR_RETURN(ring->api_key_digest_, llama::TextDigest(api_key));
  }
  ring->path_ = path;
  if (path.empty()) return ring;
  ring->stamp_ = StampOf(path);
  ATTNDB_ASSIGN_OR_RETURN(ring->rules_, Read(path));
  return ring;
}

void KeyRing::ReadAgain() {
  std::string stamp = StampOf(path_);
  if (stamp == stamp_) return;
  Result<KeyRules> rules = Read(path_);
  if (!rules.ok()) return;
  rules_ = *std::move(rules);
  stamp_ = std::move(stamp);
  changed_ = true;
}

std::optional<TenantRules> KeyRing::Find(std::string_view key) {
  if (lets_everybody_in()) return OwnRules();
  const Result<std::string> digest = llama::TextDigest(key);
  if (!digest.ok()) return std::nullopt;
  const std::lock_guard<std::mutex> lock(mutex_);
  ReadAgain();
  const auto found = rules_.find(*digest);
  if (found != rules_.end()) return found->second;
  return *digest == api_key_digest_ ? std::optional(OwnRules()) : std::nullopt;
}

std::map<std::string, TenantRules> KeyRing::Tenants() const {
  std::map<std::string, TenantRules> tenants;
  for (const auto& [digest, rules] : rules_) tenants.emplace(rules.tenant, rules);
  if (path_.empty() || !api_key_digest_.empty()) tenants.emplace(OwnRules().tenant, OwnRules());
  return tenants;
}

bool KeyRing::HasDefaultTenant() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return Tenants().contains(OwnRules().tenant);
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
