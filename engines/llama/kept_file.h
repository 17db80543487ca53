// Small files that only save time: what can't be read is as if it were not there, and what can't be
// written is not kept.
//
// Errors:  none.
// Threads: thread-safe; processes may share a folder, since files are replaced whole.
#ifndef ATTNDB_ENGINES_LLAMA_KEPT_FILE_H_
#define ATTNDB_ENGINES_LLAMA_KEPT_FILE_H_

#include <filesystem>
#include <string>

namespace attndb::llama {

// The whole text; empty if it can't be read.
std::string ReadKeptFile(const std::filesystem::path& file);

// Replaces `file` whole, so that a reader sees the old text or the new one.
void KeepFile(const std::filesystem::path& file, const std::string& text);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_KEPT_FILE_H_
