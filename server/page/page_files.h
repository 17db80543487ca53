// The page at `/`: its files, as they were when the server was built (embed.cmake).
//
// Threads: constants.
#ifndef ATTNDB_SERVER_PAGE_PAGE_FILES_H_
#define ATTNDB_SERVER_PAGE_PAGE_FILES_H_

#include <span>
#include <string_view>

namespace attndb::server {

struct PageFile {
  std::string_view name;  // "page.css"
  std::string_view text;
};

std::span<const PageFile> PageFiles();

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_PAGE_PAGE_FILES_H_
