// The texts that an import names: files, folders with all texts below them, and patterns of files.
//
// Trust:   hostile: folders are walked without following links, and a file in one is taken if it
//          begins like a text.
// Errors:  kNotFound (no file fits a pattern); kInvalidArgument (a folder without files; two files
//          of one name); kIoError; kCancelled after a signal.
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_IMPORT_SOURCES_H_
#define ATTNDB_CLI_COMMON_IMPORT_SOURCES_H_

#include <string>
#include <vector>

#include "attndb/result.h"

namespace attndb::cli {

struct ImportSource {
  std::string path;  // "-": stdin.
  std::string name;  // The name of its context; empty for stdin.
};

// A file of a folder that is no text.
struct SkippedFile {
  std::string path;
  std::string reason;  // "it is a PNG image".
};

struct ImportSources {
  // Files of a folder or a pattern are in the order of their names. Empty: folders were named, and
  // all of their files were skipped.
  std::vector<ImportSource> files;
  std::vector<SkippedFile> skipped;
  bool is_list = false;  // More than one file was meant, even if only one was found.
};

// `arguments`: paths, "-", or patterns of the shell's (glob(7)). A file in a folder is called by
// its path from there. Names lose the last extension where they differ without.
Result<ImportSources> FindImportSources(const std::vector<std::string>& arguments);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_IMPORT_SOURCES_H_
