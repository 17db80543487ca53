#include "cli/common/import_sources.h"

#include <glob.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>

#include "cli/common/text_input.h"

namespace attndb::cli {
namespace {

namespace fs = std::filesystem;

// A file, and its path from the folder that was named.
struct FoundFile {
  std::string path;
  std::string relative;
};

// Whether the file begins like a text: with UTF-8, and no byte 0.
bool BeginsLikeText(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return true;  // Reading it says why not.
  std::array<char, 16384> bytes;
  const std::string_view begin(bytes.data(), std::fread(bytes.data(), 1, bytes.size(), file));
  std::fclose(file);
  if (begin.empty() || begin.find('\0') != std::string_view::npos) return false;
  // The last character may be cut.
  for (size_t cut = 0; cut < std::min<size_t>(begin.size(), 4); ++cut) {
    if (CheckUtf8(begin.substr(0, begin.size() - cut), "it").ok()) return true;
  }
  return false;
}

bool IsHidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

Status WalkFolder(const std::string& folder, std::vector<FoundFile>* found, uint64_t* num_skipped) {
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  const fs::recursive_directory_iterator end;
  std::vector<FoundFile> files;
  for (; !error && entry != end; entry.increment(error)) {
    if (IsHidden(entry->path())) {
      entry.disable_recursion_pending();
      continue;
    }
    std::error_code ignored;
    if (!entry->is_regular_file(ignored)) continue;
    const std::string path = entry->path().string();
    if (BeginsLikeText(path)) {
      files.push_back({path, entry->path().lexically_relative(folder).string()});
    } else {
      ++*num_skipped;
    }
  }
  if (error) return Status::IoError("cannot read '" + folder + "': " + error.message());
  if (files.empty()) return Status::InvalidArgument("'" + folder + "' is a folder without texts");
  std::ranges::sort(files, {}, &FoundFile::relative);
  found->insert(found->end(), files.begin(), files.end());
  return Status::Ok();
}

Result<std::vector<std::string>> FilesThatFit(const std::string& pattern) {
  glob_t matches = {};
  const int code = glob(pattern.c_str(), 0, nullptr, &matches);
  std::vector<std::string> paths;
  if (code == 0) paths.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  globfree(&matches);
  if (paths.empty()) return Status::NotFound("no file fits '" + pattern + "'");
  return paths;
}

// A path as a name; the last extension stays if `keeps`.
std::string NameOfFile(const std::string& relative, bool keeps) {
  std::string name;
  for (const fs::path& part : fs::path(relative)) {
    const bool is_last = part == fs::path(relative).filename();
    if (!name.empty()) name += '/';
    // What ends with a dot loses nothing else.
    name += NameFromPath(part.string() + (is_last && !keeps ? "" : "."));
  }
  return name;
}

Result<std::vector<ImportSource>> Named(const std::vector<FoundFile>& found) {
  std::map<std::string, int> num_called;
  for (const FoundFile& file : found) ++num_called[NameOfFile(file.relative, false)];
  std::map<std::string, std::string> taken;
  std::vector<ImportSource> sources;
  for (const FoundFile& file : found) {
    std::string name = NameOfFile(file.relative, false);
    if (num_called[name] > 1) name = NameOfFile(file.relative, true);
    const auto [other, is_new] = taken.emplace(name, file.path);
    if (!is_new) {
      return Status::InvalidArgument("'" + other->second + "' and '" + file.path +
                                     "' would both be called '" + name +
                                     "'; import them one by one, with --name");
    }
    sources.push_back({file.path, file.path == "-" ? "" : name});
  }
  return sources;
}

}  // namespace

Result<ImportSources> FindImportSources(const std::vector<std::string>& arguments) {
  ImportSources sources;
  sources.is_list = arguments.size() > 1;
  std::vector<FoundFile> found;
  for (const std::string& argument : arguments) {
    std::error_code ignored;
    std::vector<std::string> paths = {argument};
    const bool is_pattern = argument.find_first_of("*?[") != std::string::npos;
    if (is_pattern && !fs::exists(argument, ignored)) {
      ATTNDB_ASSIGN_OR_RETURN(paths, FilesThatFit(argument));
      sources.is_list = true;
    }
    for (const std::string& path : paths) {
      if (!fs::is_directory(path, ignored)) {
        found.push_back({path, path.substr(path.find_last_of('/') + 1)});
        continue;
      }
      sources.is_list = true;
      ATTNDB_RETURN_IF_ERROR(WalkFolder(path, &found, &sources.num_skipped));
    }
  }
  ATTNDB_ASSIGN_OR_RETURN(sources.files, Named(found));
  return sources;
}

}  // namespace attndb::cli
