#include "server/http/hidden_paths.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>
#include <string_view>
#include <system_error>

#include "server/json.h"

namespace attndb::server {
namespace {

std::string InJson(const std::string& text) {
  const std::string quoted = ToText(Json(text));
  return quoted.substr(1, quoted.size() - 2);
}

// Whether a character may stand in the middle of a file's name: no path begins or ends beside it.
bool IsOfName(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// Whether one of the files is named at this place.
bool NamesFile(const std::vector<std::string>& files, std::string_view text) {
  return std::ranges::any_of(files, [text](const std::string& file) {
    if (!text.starts_with(file)) return false;
    const char next = text.size() == file.size() ? ' ' : text[file.size()];
    return std::isalnum(static_cast<unsigned char>(next)) == 0 && next != '_';
  });
}

bool BeginsAt(const std::string& text, size_t at) {
  return at == 0 || (!IsOfName(text[at - 1]) && text[at - 1] != '/');
}

}  // namespace

HiddenPaths::HiddenPaths(const std::vector<Entry>& entries) {
  for (const Entry& entry : entries) {
    std::string path = entry.path;
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    if (path.empty() || path == "." || path == "/") continue;
    std::error_code error;
    const std::string full = std::filesystem::absolute(path, error).lexically_normal().string();
    for (const std::string& form : {path, full, InJson(path), InJson(full)}) {
      entries_.push_back({form, entry.label, entry.files});
    }
  }
  std::ranges::stable_sort(entries_, std::greater(),
                           [](const Entry& entry) { return entry.path.size(); });
}

std::string HiddenPaths::Hide(std::string text) const {
  for (const auto& [path, label, files] : entries_) {
    for (size_t at = text.find(path); at != std::string::npos; at = text.find(path, at)) {
      const size_t end = at + path.size();
      const bool is_above = end < text.size() && text[end] == '/';
      const bool is_folder = is_above && NamesFile(files, std::string_view(text).substr(end + 1));
      // A relative path may be a word of the message: "store".
      const bool is_whole =
          path.front() == '/' && (end == text.size() || !IsOfName(text[end])) && !is_above;
      if (!BeginsAt(text, at) || !(is_folder || is_whole)) {
        ++at;
      } else if (is_folder) {
        text.erase(at, path.size() + 1);
      } else {
        text.replace(at, path.size(), label);
        at += label.size();
      }
    }
  }
  return text;
}

}  // namespace attndb::server
