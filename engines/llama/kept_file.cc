#include "engines/llama/kept_file.h"

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <system_error>

namespace attndb::llama {

namespace fs = std::filesystem;

std::string ReadKeptFile(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream content;
  if (!in || !(content << in.rdbuf())) return "";
  return content.str();
}

void KeepFile(const fs::path& file, const std::string& text) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  const fs::path temporary = file.string() + "." + std::to_string(::getpid()) + ".tmp";
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    if (!(out << text) || !out.flush()) {
      fs::remove(temporary, error);
      return;
    }
  }
  fs::rename(temporary, file, error);
  if (error) fs::remove(temporary, error);
}

}  // namespace attndb::llama
