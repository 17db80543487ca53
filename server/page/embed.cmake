# cmake -DFOLDER=... -DNAMES=a,b=PATH,... -DOUTPUT=x.cc -P embed.cmake
#   Writes the source that has the texts of these files: page_files.h. A file that is not in FOLDER
#   has its path behind its name.
string(REPLACE "," ";" NAMES "${NAMES}")
set(rows "")
foreach(name IN LISTS NAMES)
  set(path ${FOLDER}/${name})
  if(name MATCHES "^([^=]+)=(.+)$")
    set(name ${CMAKE_MATCH_1})
    set(path ${CMAKE_MATCH_2})
  endif()
  file(READ ${path} text)
  string(FIND "${text}" ")page\"" end)
  if(NOT end EQUAL -1)
    message(FATAL_ERROR "${name}: has the mark that ends a text in C++")
  endif()
  string(APPEND rows "    PageFile{\"${name}\", R\"page(${text})page\"},\n")
endforeach()
file(WRITE ${OUTPUT} "#include <array>

#include \"server/page/page_files.h\"

namespace attndb::server {
namespace {

constexpr std::array kFiles = {
${rows}};

}  // namespace

std::span<const PageFile> PageFiles() { return kFiles; }

}  // namespace attndb::server
")
