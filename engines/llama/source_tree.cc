#include "engines/llama/source_tree.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace attndb::llama {
namespace {

namespace fs = std::filesystem;

// `start` and all folders above it.
std::vector<fs::path> Ancestors(fs::path start) {
  std::vector<fs::path> folders;
  while (!start.empty()) {
    folders.push_back(start);
    if (start == start.parent_path()) break;
    start = start.parent_path();
  }
  return folders;
}

}  // namespace

std::vector<fs::path> ProjectFolders() {
  std::error_code error;
  std::vector<fs::path> folders = Ancestors(fs::current_path(error));
  for (fs::path& folder : Ancestors(fs::read_symlink("/proc/self/exe", error).parent_path())) {
    folders.push_back(std::move(folder));
  }
  return folders;
}

bool HasSources(std::span<const fs::path> folders) {
  return std::ranges::any_of(folders, [](const fs::path& folder) {
    std::error_code error;
    return fs::exists(folder / "scripts/setup.sh", error) &&
           fs::exists(folder / "include/attndb/attndb.h", error);
  });
}

std::string HowToBuildLlama(bool has_sources) {
  if (has_sources) {
    return "build llama.cpp on this machine: run scripts/setup.sh, after removing what .deps/llama "
           "points to (or name an installed llama.cpp in CMAKE_PREFIX_PATH), then `pip install .` "
           "or "
           "CMake with -DATTNDB_BUILD_LLAMA=ON";
  }
  return "build and install llama.cpp on this machine, and attndb upon it: "
         "`CMAKE_PREFIX_PATH=/path/to/llama pip install --force-reinstall --no-cache-dir FOLDER`, "
         "where FOLDER holds attndb's sources, whose docs/install.md has the whole of it";
}

}  // namespace attndb::llama
