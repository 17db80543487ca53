// Where attndb's sources are, if a program runs from within them: searches for models look there,
// and advice may name its scripts.
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

// Whether one of `folders` holds attndb's sources. A program that a wheel or a prefix installed has
// none above it.
bool HasSources(std::span<const std::filesystem::path> folders);

// Advice how to get a llama.cpp that is compiled for this machine: with `has_sources` by the script
// that lies there, else for a reader who has an installed package only.
std::string HowToBuildLlama(bool has_sources);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_SOURCE_TREE_H_
