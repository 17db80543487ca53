#include "cli/common/variables.h"

#include <array>

namespace attndb::cli {
namespace {

constexpr std::array<Variable, 14> kVariables = {{
    {"ATTNDB_PATH", "folder of the store, where --db is not given"},
    {"ATTNDB_URL", "server that is asked, where neither --server nor --db is given"},
    {"ATTNDB_KEY", "key that the server is asked with", /*is_secret=*/true},
    {"ATTNDB_MODEL", "model, where --model is not given"},
    {"ATTNDB_MODELS", "folder that model names are looked up in first"},
    {"ATTNDB_THREADS",
     "threads of the model, where --threads is not given; else as there are cores free"},
    {"ATTNDB_PYTHON", "Python that draws for 'attndb plot'; else python3"},
    {"ATTNDB_ISA", "forces the kernels: scalar, avx2, avx512 or avx512vnni"},
    {"HF_HUB_CACHE", "cache of Hugging Face, where models are looked up"},
    {"HF_HOME", "its folder hub is that cache, where HF_HUB_CACHE is not set"},
    {"LLAMA_CACHE", "cache of llama.cpp, where models are looked up"},
    {"XDG_DATA_HOME", "the store is its folder attndb, where nothing above names one"},
    {"XDG_CACHE_HOME", "its folder attndb keeps the fingerprints of model files"},
    {"XDG_STATE_HOME", "its folder attndb keeps the lines that were typed in chats"},
}};

}  // namespace

std::span<const Variable> Variables() { return kVariables; }

}  // namespace attndb::cli
