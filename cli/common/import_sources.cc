#include "cli/common/import_sources.h"

#include <glob.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "cli/common/interrupt.h"
#include "cli/common/text_input.h"

namespace attndb::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLookBytes = 65536;  // Enough to tell the kind of a file.

// A file, and its path from the folder that was named.
struct FoundFile {
  std::string path;
  std::string relative;
};

// Why the file is left out; empty: it begins like a text, or reading it says why not.
std::string ReasonToSkip(const fs::directory_entry& entry) {
  std::error_code error;
  const bool is_link = entry.is_symlink(error);
  if (is_link && !entry.exists(error)) return "it is a link to nothing";
  if (is_link && entry.is_directory(error)) return "it is a link to a folder";
  if (!entry.is_regular_file(error)) return "it is no file of data";
  std::FILE* const file = std::fopen(entry.path().c_str(), "rb");
  if (file == nullptr) return "";
  std::string begin(kLookBytes, '\0');
  begin.resize(std::fread(begin.data(), 1, begin.size(), file));
  std::fclose(file);
  return ReasonForNoText(begin, begin.size() < kLookBytes);
}

bool IsHidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

Status WalkFolder(const std::string& folder, std::vector<FoundFile>* found,
                  std::vector<SkippedFile>* skipped) {
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  const fs::recursive_directory_iterator end;
  std::vector<FoundFile> files;
  std::vector<SkippedFile> others;
  for (; !error && entry != end; entry.increment(error)) {
    if (Interrupted()) return Status::Cancelled("interrupted while '" + folder + "' was read");
    if (IsHidden(entry->path())) {
      entry.disable_recursion_pending();
      continue;
    }
    std::error_code ignored;
    if (entry->is_directory(ignored) && !entry->is_symlink(ignored)) continue;
    const std::string path = entry->path().string();
    if (std::string reason = ReasonToSkip(*entry); !reason.empty()) {
      others.push_back({path, std::move(reason)});
    } else {
      files.push_back({path, entry->path().lexically_relative(folder).string()});
    }
  }
  if (error) return Status::IoError("cannot read '" + folder + "': " + error.message());
  if (files.empty() && others.empty()) {
    return Status::InvalidArgument("'" + folder + "' is a folder without files");
  }
  std::ranges::sort(files, {}, &FoundFile::relative);
  std::ranges::sort(others, {}, &SkippedFile::path);
  found->insert(found->end(), files.begin(), files.end());
  skipped->insert(skipped->end(), others.begin(), others.end());
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

// Drops files that were named before: twice, or by a folder or a pattern that also has them. True:
// there were some.
bool DropRepeated(std::vector<FoundFile>* found) {
  std::set<fs::path> seen;
  const size_t num_dropped = std::erase_if(*found, [&seen](const FoundFile& file) {
    std::error_code error;
    const fs::path path = fs::absolute(file.path, error).lexically_normal();
    const fs::path folder = fs::weakly_canonical(path.parent_path(), error);
    return !seen.insert(error ? path : folder / path.filename()).second;
  });
  return num_dropped > 0;
}

// A path as a name; the last extension stays if `keeps`.
std::string NameOfFile(const std::string& relative, bool keeps) {
  const fs::path path(relative);
  std::string name;
  // A part that ends with a dot loses nothing else.
  for (const fs::path& folder : path.parent_path())
    name += NameFromPath(folder.string() + ".") + '/';
  return name + NameFromPath(path.filename().string() + (keeps ? "." : ""));
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
  bool names_many = false;  // A folder or a pattern.
  std::vector<FoundFile> found;
  for (const std::string& argument : arguments) {
    std::error_code ignored;
    std::vector<std::string> paths = {argument};
    const bool is_pattern = argument.find_first_of("*?[") != std::string::npos;
    if (is_pattern && !fs::exists(argument, ignored)) {
      ATTNDB_ASSIGN_OR_RETURN(paths, FilesThatFit(argument));
      names_many = true;
    }
    for (const std::string& path : paths) {
      if (!fs::is_directory(path, ignored)) {
        found.push_back({path, path.substr(path.find_last_of('/') + 1)});
        continue;
      }
      names_many = true;
      ATTNDB_RETURN_IF_ERROR(WalkFolder(path, &found, &sources.skipped));
    }
  }
  const bool is_one_file = DropRepeated(&found) && found.size() == 1;
  sources.is_list = names_many || (arguments.size() > 1 && !is_one_file);
  ATTNDB_ASSIGN_OR_RETURN(sources.files, Named(found));
  return sources;
}

}  // namespace attndb::cli
