// Paths of the server's host, which no client may learn from an answer.
//
// Method:  messages of the library name files by their path. A file of a hidden folder is named
//          from there: "segments/7.seg: read: ..."; a hidden path itself by its label.
//          Only files that the folder is known to have are changed. Other words may look alike: the
//          store "notes" may have a context "notes/may".
// Threads: constant after construction.
#ifndef ATTNDB_SERVER_HTTP_HIDDEN_PATHS_H_
#define ATTNDB_SERVER_HTTP_HIDDEN_PATHS_H_

#include <string>
#include <vector>

namespace attndb::server {

class HiddenPaths {
 public:
  struct Entry {
    std::string path;   // Empty: nothing.
    std::string label;  // "the store".
    std::vector<std::string> files =
        {};  // Names in the folder; a file's name may go on: ".db-wal".
  };

  // Hides each path as it is given, from the root, and as JSON has it.
  explicit HiddenPaths(const std::vector<Entry>& entries);

  // The text without these paths.
  std::string Hide(std::string text) const;

 private:
  std::vector<Entry> entries_;  // The longest path first.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_HTTP_HIDDEN_PATHS_H_
