#include "engines/llama/fingerprint.h"

#include <openssl/evp.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include "engines/llama/kept_file.h"

namespace attndb::llama {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = size_t{1} << 20;
constexpr std::string_view kHeader = "attndb-digest-1";

// SHA-256, incrementally.
class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) {
    ok_ = context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1;
  }
  void Add(const void* data, size_t size) {
    ok_ = ok_ && EVP_DigestUpdate(context_.get(), data, size) == 1;
  }
  Result<std::string> Hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest = {};
    unsigned int length = 0;
    if (!ok_ || EVP_DigestFinal_ex(context_.get(), digest.data(), &length) != 1) {
      return Status::Internal("SHA-256 is not available in OpenSSL");
    }
    std::string hex;
    for (unsigned int i = 0; i < length; ++i) {
      char byte[3];
      std::snprintf(byte, sizeof(byte), "%02x", digest[i]);
      hex += byte;
    }
    return hex;
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
  bool ok_ = false;
};

Result<std::string> HashFile(const std::string& path, const std::function<bool()>& keep_going) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status::IoError("'" + path + "' can't be opened: " + std::strerror(errno));
  Sha256 sha;
  std::vector<char> buffer(kReadBytes);
  while (file) {
    if (keep_going && !keep_going()) {
      return Status::Cancelled("stopped while '" + path + "' was read");
    }
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    sha.Add(buffer.data(), static_cast<size_t>(file.gcount()));
  }
  if (!file.eof()) return Status::IoError("'" + path + "' can't be read to its end");
  return sha.Hex();
}

// What must be unchanged for a kept digest to be believed. ctime can't be set back by a program.
Result<std::string> FileIdentity(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) {
    const std::string message = "'" + path + "': " + std::strerror(errno);
    return errno == ENOENT ? Status::NotFound(message) : Status::IoError(message);
  }
  std::error_code error;
  const fs::path canonical = fs::canonical(path, error);
  std::ostringstream text;
  text << kHeader << '\n'
       << (error ? path : canonical.string()) << '\n'
       << info.st_size << ' ' << info.st_mtim.tv_sec << '.' << info.st_mtim.tv_nsec << ' '
       << info.st_ctim.tv_sec << '.' << info.st_ctim.tv_nsec << ' ' << info.st_dev << ' '
       << info.st_ino << '\n';
  return text.str();
}

// A file that is not there has none, and who opens it says so.
std::string IdentityOrNone(const std::string& path) {
  Result<std::string> identity = FileIdentity(path);
  return identity.ok() ? *std::move(identity) : "none\n";
}

std::vector<std::string> AllPaths(const std::vector<std::string>& files,
                                  const std::vector<AdapterFile>& adapters) {
  std::vector<std::string> paths = files;
  for (const AdapterFile& adapter : adapters) paths.push_back(adapter.path);
  return paths;
}

// The digest in `file`, if it was kept for just this identity.
std::optional<std::string> ReadKept(const fs::path& file, const std::string& identity) {
  const std::string text = ReadKeptFile(file);
  if (text.size() != identity.size() + 65 || !text.starts_with(identity) || text.back() != '\n') {
    return std::nullopt;
  }
  std::string hex = text.substr(identity.size(), 64);
  if (hex.find_first_not_of("0123456789abcdef") != std::string::npos) return std::nullopt;
  return hex;
}

}  // namespace

std::string DefaultCacheDir() {
  // NOLINTBEGIN(concurrency-mt-unsafe): nobody sets the environment.
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && cache[0] == '/') {
    return std::string(cache) + "/attndb";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && home[0] != '\0') {
    return std::string(home) + "/.cache/attndb";
  }
  // NOLINTEND(concurrency-mt-unsafe)
  return "";
}

Result<std::string> TextDigest(std::string_view text) {
  Sha256 sha;
  sha.Add(text.data(), text.size());
  return sha.Hex();
}

Result<DigestInfo> FileDigest(const std::string& path, const std::string& cache_dir,
                              const std::function<bool()>& keep_going) {
  ATTNDB_ASSIGN_OR_RETURN(const std::string identity, FileIdentity(path));
  fs::path kept;
  if (!cache_dir.empty()) {
    std::error_code error;
    const fs::path canonical = fs::canonical(path, error);
    ATTNDB_ASSIGN_OR_RETURN(const std::string name, TextDigest(error ? path : canonical.string()));
    kept = fs::path(cache_dir) / "digests" / name;
    if (std::optional<std::string> hex = ReadKept(kept, identity)) {
      return DigestInfo{.hex = std::move(*hex), .from_cache = true};
    }
  }
  ATTNDB_ASSIGN_OR_RETURN(std::string hex, HashFile(path, keep_going));
  ATTNDB_ASSIGN_OR_RETURN(const std::string after, FileIdentity(path));
  if (after != identity) return Status::IoError("'" + path + "' changed while it was read");
  if (!kept.empty()) KeepFile(kept, identity + hex + "\n");
  return DigestInfo{.hex = std::move(hex), .from_cache = false};
}

std::string FilesIdentity(const std::vector<std::string>& files,
                          const std::vector<AdapterFile>& adapters) {
  std::string all;
  for (const std::string& path : AllPaths(files, adapters)) all += IdentityOrNone(path);
  return all;
}

Status CheckUnchanged(const std::string& before, const std::vector<std::string>& files,
                      const std::vector<AdapterFile>& adapters) {
  std::string_view rest = before;
  for (const std::string& path : AllPaths(files, adapters)) {
    const std::string now = IdentityOrNone(path);
    if (!rest.starts_with(now)) {
      return Status::FailedPrecondition("'" + path +
                                        "' was replaced or changed while the model was loaded, so "
                                        "that its weights may be others than its fingerprint "
                                        "says; open the model again");
    }
    rest.remove_prefix(now.size());
  }
  return Status::Ok();
}

Result<std::string> ModelFingerprint(const std::vector<std::string>& files,
                                     const std::vector<AdapterFile>& adapters,
                                     const std::string& cache_dir,
                                     const std::function<bool()>& keep_going) {
  std::string list;
  for (const std::string& file : files) {
    ATTNDB_ASSIGN_OR_RETURN(const DigestInfo digest, FileDigest(file, cache_dir, keep_going));
    if (files.size() == 1 && adapters.empty()) return "sha256:" + digest.hex;
    list += "model " + digest.hex + "\n";
  }
  for (const AdapterFile& adapter : adapters) {
    ATTNDB_ASSIGN_OR_RETURN(const DigestInfo digest,
                            FileDigest(adapter.path, cache_dir, keep_going));
    char scale[32];
    std::snprintf(scale, sizeof(scale), "%.9g", static_cast<double>(adapter.scale));
    list += "adapter " + digest.hex + " " + scale + "\n";
  }
  ATTNDB_ASSIGN_OR_RETURN(const std::string hex, TextDigest(list));
  return "sha256:" + hex;
}

}  // namespace attndb::llama
