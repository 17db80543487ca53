// Where attndb's sources are, if a program runs from within them: what a search for models looks
// in, and what advice may tell its reader to run.
//
// Threads: stateless.
// Errors:  none: a folder that can't be read holds nothing.
#ifndef ATTNDB_ENGINES_LLAMA_SOURCE_TREE_H_
#define ATTNDB_ENGINES_LLAMA_SOURCE_TREE_H_

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace attndb::llama {

// The working directory, the program's folder, and all folders above these.
std::vector<std::filesystem::path> ProjectFolders();

// Whether one of `folders` holds attndb's sources. A program of a wheel or a prefix has none above
// it.
bool HasSources(std::span<const std::filesystem::path> folders);

// How to get a llama.cpp of this machine's own under attndb: with `has_sources` by the script that
// lies there, else for a reader who has an installed package only.
std::string HowToBuildLlama(bool has_sources);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_SOURCE_TREE_H_
