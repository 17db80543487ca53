#include "cli/common/variables.h"

#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace attndb::cli {
namespace {

constexpr std::array<Variable, 16> kVariables = {{
    {.name = "ATTNDB_PATH",
     .meaning = "folder of the store, where --db is not given",
     .is_path = true},
    {.name = "ATTNDB_URL",
     .meaning = "server that is asked, where neither --server nor --db is given"},
    {.name = "ATTNDB_KEY", .meaning = "key that the server is asked with", .is_secret = true},
    {.name = "ATTNDB_API_KEY",
     .meaning = "key that 'attndb serve' asks for, where --api-key is not given",
     .is_secret = true},
    {.name = "ATTNDB_MODEL", .meaning = "model, where --model is not given", .is_path = true},
    {.name = "ATTNDB_MODELS",
     .meaning = "folder that model names are looked up in first",
     .is_path = true},
    {.name = "ATTNDB_THREADS",
     .meaning = "threads of the model, where --threads is not given; else as there are cores free"},
    {.name = "ATTNDB_PYTHON",
     .meaning = "Python that draws for 'attndb plot'; else python3",
     .is_path = true},
    {.name = "ATTNDB_CHAT_PROGRAM",
     .meaning = "program that renders chat templates; else attndb-chat beside attndb",
     .is_path = true},
    {.name = "ATTNDB_ISA", .meaning = "forces the kernels: scalar, avx2, avx512 or avx512vnni"},
    {.name = "HF_HUB_CACHE",
     .meaning = "cache of Hugging Face, where models are looked up",
     .is_path = true},
    {.name = "HF_HOME",
     .meaning = "its folder hub is that cache, where HF_HUB_CACHE is not set",
     .is_path = true},
    {.name = "LLAMA_CACHE",
     .meaning = "cache of llama.cpp, where models are looked up",
     .is_path = true},
    {.name = "XDG_DATA_HOME",
     .meaning = "the store is its folder attndb, where nothing above names one",
     .is_path = true},
    {.name = "XDG_CACHE_HOME",
     .meaning = "its folder attndb keeps the fingerprints of model files",
     .is_path = true},
    {.name = "XDG_STATE_HOME",
     .meaning = "its folder attndb keeps the lines that were typed in chats",
     .is_path = true},
}};

}  // namespace

std::span<const Variable> Variables() { return kVariables; }

// NOLINTBEGIN(concurrency-mt-unsafe): there are no threads yet where these set a variable.
std::string HomeFolder() {
  const char* const home = std::getenv("HOME");
  if (home != nullptr && home[0] != '\0') return home;
  const passwd* const user = getpwuid(getuid());
  return user == nullptr || user->pw_dir == nullptr ? "" : user->pw_dir;
}

std::string WithHome(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  const std::string home = HomeFolder();
  return home.empty() ? path : home + path.substr(1);
}

void SetPathVariables() {
  if (const std::string home = HomeFolder(); !home.empty()) setenv("HOME", home.c_str(), 1);
  for (const Variable& variable : kVariables) {
    const char* const value = variable.is_path ? std::getenv(variable.name) : nullptr;
    if (value != nullptr) setenv(variable.name, WithHome(value).c_str(), 1);
  }
}
// NOLINTEND(concurrency-mt-unsafe)

}  // namespace attndb::cli
