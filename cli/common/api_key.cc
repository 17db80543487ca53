#include "cli/common/api_key.h"

#include <algorithm>
#include <cstdlib>

namespace attndb::cli {
namespace {

// A key that no client could send would lock everybody out: headers lose spaces at the ends, and
// have no line ends.
Status CheckKey(const std::string& source, const std::string& key) {
  const auto is_visible = [](char c) { return c > ' ' && c <= '~'; };
  if (key.empty()) return Status::InvalidArgument(source + " is empty");
  if (key.size() > kMaxApiKeyBytes || !std::ranges::all_of(key, is_visible)) {
    return Status::InvalidArgument(source + ": expected at most " +
                                   std::to_string(kMaxApiKeyBytes) +
                                   " letters, digits and signs of ASCII, without spaces");
  }
  // Users of llama.cpp's server may mean several keys.
  if (key.find(',') == std::string::npos) return Status::Ok();
  return Status::InvalidArgument(source +
                                 " has a comma, expected one key; --keys names a file of several");
}

}  // namespace

// NOLINTBEGIN(concurrency-mt-unsafe): there are no threads yet.
Result<std::string> ApiKeyOf(const std::optional<std::string>& flag) {
  const char* const variable = std::getenv(kApiKeyVariable);
  if (!flag && variable == nullptr) return std::string();
  std::string key = flag ? *flag : variable;
  // "--api-key $KEY --json" with an empty variable: the key would be one that anybody guesses.
  if (flag && key.starts_with('-')) {
    return Status::InvalidArgument(std::string(kApiKeyFlag) +
                                   ": its value begins with '-', as an option does; " +
                                   kApiKeyVariable + " takes a key that begins so");
  }
  ATTNDB_RETURN_IF_ERROR(CheckKey(flag ? kApiKeyFlag : kApiKeyVariable, key));
  return key;
}

void HandOverApiKey(const std::string& key) { setenv(kApiKeyVariable, key.c_str(), 1); }
// NOLINTEND(concurrency-mt-unsafe)

std::vector<std::string> WithoutApiKey(const std::vector<std::string>& words) {
  const std::string with_value = std::string(kApiKeyFlag) + "=";
  std::vector<std::string> rest;
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (word->starts_with(with_value)) continue;
    if (*word != kApiKeyFlag) {
      rest.push_back(*word);
    } else if (word + 1 != words.end()) {
      ++word;  // The flag's value.
    }
  }
  return rest;
}

}  // namespace attndb::cli
