// The identity of a model: SHA-256 of the content of its files. Copies of one model under different
// names share their stored contexts; a changed byte starts afresh.
//
// Hashing 100 MB takes about 0.1 s and a 100 GB model minutes, so digests are kept in a folder: one
// small text file a model file, valid while path, size, mtime, ctime, device and inode are the
// same.
//
// Threads: thread-safe; processes may share the folder (files are replaced whole).
// Errors:  kNotFound, kIoError (a model file). A cache that can't be read or written is not an
//          error.
#ifndef ATTNDB_ENGINES_LLAMA_FINGERPRINT_H_
#define ATTNDB_ENGINES_LLAMA_FINGERPRINT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "engines/llama/llama_engine.h"

namespace attndb::llama {

// $XDG_CACHE_HOME/attndb, or ~/.cache/attndb; empty if neither variable is set.
std::string DefaultCacheDir();

// SHA-256 of a text, 64 characters of hexadecimal.
Result<std::string> TextDigest(std::string_view text);

// Where FileDigest's answer came from, for tests.
struct DigestInfo {
  std::string hex;  // 64 characters.
  bool from_cache = false;
};

// SHA-256 of a file's content. `cache_dir`: empty = no cache. `keep_going`, which may be null, is
// called for each MiB; false stops with kCancelled.
Result<DigestInfo> FileDigest(const std::string& path, const std::string& cache_dir,
                              const std::function<bool()>& keep_going = nullptr);

// The model's files and its adapters, as they are found now: names, times and inodes.
std::string FilesIdentity(const std::vector<std::string>& files,
                          const std::vector<AdapterFile>& adapters);
// Ok if the files are still those of which FilesIdentity gave `before`: weights that were loaded,
// and a fingerprint that was made, in between belong together. Errors: kFailedPrecondition, with
// the file.
Status CheckUnchanged(const std::string& before, const std::vector<std::string>& files,
                      const std::vector<AdapterFile>& adapters);

// "sha256:<hex>": of the file itself if it is one without adapters, else of the list of all files'
// digests and the adapters' scales.
Result<std::string> ModelFingerprint(const std::vector<std::string>& files,
                                     const std::vector<AdapterFile>& adapters,
                                     const std::string& cache_dir,
                                     const std::function<bool()>& keep_going = nullptr);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_FINGERPRINT_H_
