#include "server/tenants/keys_file.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "server/json.h"

namespace attndb::server {
namespace {

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
  ATTNDB_RETURN_IF_ERROR(ReadLimit(entry, "tpot_ms", kMaxTpotMs, &rules.tpot_ms));
  return std::pair(digest, rules);
}

}  // namespace

std::string_view KeyIn(std::string_view authorization, std::string_view api_key) {
  constexpr std::string_view kBearer = "bearer ";
  const auto is_same = [](char given, char lower) {
    return std::tolower(static_cast<unsigned char>(given)) == lower;
  };
  if (!std::ranges::equal(authorization.substr(0, kBearer.size()), kBearer, is_same)) {
    return api_key;
  }
  return authorization.substr(kBearer.size());
}

Result<KeyRules> ParseKeysFile(std::string_view text) {
  ATTNDB_ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  if (!json.is_object() || !json.contains("keys") || !json["keys"].is_array()) {
    return Status::InvalidArgument(R"(expected {"keys": [...]})");
  }
  KeyRules rules;
  const Json& keys = json["keys"];
  for (size_t i = 0; i < keys.size(); ++i) {
    Result<std::pair<std::string, TenantRules>> entry = ParseEntry(keys[i]);
    if (!entry.ok()) return entry.status().WithContext("keys[" + std::to_string(i) + "]");
    rules.insert(*std::move(entry));
  }
  return rules;
}

}  // namespace attndb::server
