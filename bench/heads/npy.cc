#include "bench/heads/npy.h"

#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "cli/common/units.h"

namespace attndb::bench {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxHeaderBytes = 65536;
constexpr size_t kMaxSizes = 8;

Status Bad(const std::string& what) { return Status::InvalidArgument(what); }

// Reads the small part of Python's syntax that a header uses.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : text_(text) {}

  bool Take(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool AtEnd() {
    SkipSpace();
    return at_ == text_.size();
  }

  // 'text' or "text", without escapes.
  std::optional<std::string> String() {
    SkipSpace();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return std::nullopt;
    const size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }

  std::optional<bool> Bool() {
    SkipSpace();
    for (const auto& [word, value] : {std::pair("True", true), std::pair("False", false)}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += std::strlen(word);
      return value;
    }
    return std::nullopt;
  }

  std::optional<int64_t> Number() {
    SkipSpace();
    int64_t value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc() || value < 0) return std::nullopt;
    at_ += static_cast<size_t>(end - begin);
    return value;
  }

  // (3,) or (3, 4).
  std::optional<std::vector<int64_t>> Tuple() {
    std::vector<int64_t> values;
    if (!Take('(')) return std::nullopt;
    while (!Take(')')) {
      const std::optional<int64_t> value = Number();
      if (!value || values.size() == kMaxSizes) return std::nullopt;
      values.push_back(*value);
      if (Take(')')) break;
      if (!Take(',')) return std::nullopt;
    }
    return values;
  }

 private:
  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }

  const std::string_view text_;
  size_t at_ = 0;
};

Result<DType> ToDType(const std::string& descr) {
  if (descr == "<f4") return DType::kFloat32;
  if (descr == "<f2") return DType::kFloat16;
  return Bad("element type is '" + descr + "'; expected '<f4' (float32) or '<f2' (float16)");
}

// One `'key': value` into `*header`; `*seen` has a bit for each key that was there.
Status ReadEntry(HeaderReader* reader, NpyHeader* header, unsigned* seen) {
  const std::optional<std::string> key = reader->String();
  if (!key || !reader->Take(':')) return Bad("header is no dictionary");
  if (*key == "descr") {
    const std::optional<std::string> descr = reader->String();
    if (!descr) return Bad("element type is no plain type; expected '<f4' or '<f2'");
    ATTNDB_ASSIGN_OR_RETURN(header->dtype, ToDType(*descr));
    *seen |= 1U;
    return Status();
  }
  if (*key == "fortran_order") {
    const std::optional<bool> fortran = reader->Bool();
    if (!fortran) return Bad("fortran_order is neither True nor False");
    if (*fortran) return Bad("array is in Fortran order; expected C order (np.ascontiguousarray)");
    *seen |= 2U;
    return Status();
  }
  if (*key == "shape") {
    std::optional<std::vector<int64_t>> shape = reader->Tuple();
    if (!shape) return Bad("shape is no tuple of at most 8 sizes");
    header->shape = *std::move(shape);
    *seen |= 4U;
    return Status();
  }
  return Bad("header has the unknown key '" + *key + "'");
}

Result<uint64_t> DataBytes(const NpyHeader& header) {
  uint64_t bytes = DTypeBytes(header.dtype);
  for (const int64_t size : header.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) {
      return Bad("shape has a size that overflows");
    }
  }
  return bytes;
}

// Where the header's text begins and how long it is. REQUIRES: the magic was checked.
Result<std::pair<size_t, size_t>> HeaderExtent(std::string_view bytes) {
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(bytes[i])); };
  if (bytes.size() < 12) return Bad("file ends within its header");
  const size_t major = byte(6);
  if (major < 1 || major > 3) return Bad("format version is " + std::to_string(major));
  size_t length = byte(8) | byte(9) << 8;
  if (major >= 2) length |= byte(10) << 16 | byte(11) << 24;
  const size_t begin = major == 1 ? 10 : 12;
  if (length > kMaxHeaderBytes) return Bad("header has " + std::to_string(length) + " bytes");
  if (length > bytes.size() - begin) return Bad("file ends within its header");
  return std::pair(begin, length);
}

Result<NpyArray> Parse(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) return Bad("no .npy file: it does not begin with \\x93NUMPY");
  ATTNDB_ASSIGN_OR_RETURN(const auto extent, HeaderExtent(bytes));
  NpyArray array;
  ATTNDB_ASSIGN_OR_RETURN(array.header, ParseNpyHeader(bytes.substr(extent.first, extent.second)));
  const std::string_view data = bytes.substr(extent.first + extent.second);
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t expected, DataBytes(array.header));
  if (data.size() != expected) {
    return Bad("shape and type ask for " + FormatCount(expected) + " bytes of data, file has " +
               FormatCount(data.size()));
  }
  array.words.resize((data.size() + 7) / 8);
  if (!data.empty()) std::memcpy(array.words.data(), data.data(), data.size());
  return array;
}

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

Result<std::string> ReadFile(const std::string& path) {
  const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) {
    const std::string message = "cannot open '" + path + "': " + std::strerror(errno);
    return errno == ENOENT ? Status::NotFound(message) : Status::IoError(message);
  }
  struct stat info = {};
  if (fstat(fileno(file.get()), &info) != 0 || !S_ISREG(info.st_mode)) {
    return Bad("'" + path + "' is no regular file");
  }
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  if (std::fread(bytes.data(), 1, bytes.size(), file.get()) != bytes.size()) {
    return Status::IoError("cannot read '" + path + "'");
  }
  return bytes;
}

}  // namespace

TensorView NpyArray::View() const {
  const std::vector<int64_t>& shape = header.shape;
  const int64_t heads = shape.size() == 3 ? shape[1] : 1;
  return TensorView::Contiguous(data(), header.dtype, shape.front(), heads, shape.back());
}

Result<NpyHeader> ParseNpyHeader(std::string_view text) {
  HeaderReader reader(text);
  NpyHeader header;
  unsigned seen = 0;
  if (!reader.Take('{')) return Bad("header is no dictionary");
  while (!reader.Take('}')) {
    ATTNDB_RETURN_IF_ERROR(ReadEntry(&reader, &header, &seen));
    if (reader.Take('}')) break;
    if (!reader.Take(',')) return Bad("header is no dictionary");
  }
  if (!reader.AtEnd()) return Bad("header goes on after its dictionary");
  if (seen != 7U) return Bad("header lacks descr, fortran_order or shape");
  return header;
}

Result<NpyArray> ParseNpy(std::string_view bytes, const std::string& name) {
  Result<NpyArray> array = Parse(bytes);
  if (!array.ok()) return array.status().WithContext(name);
  return array;
}

Result<NpyArray> ReadNpy(const std::string& path) {
  ATTNDB_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  ATTNDB_ASSIGN_OR_RETURN(NpyArray array, ParseNpy(bytes, path));
  const std::vector<int64_t>& shape = array.header.shape;
  if (shape.size() != 2 && shape.size() != 3) {
    return Bad(path + ": array has " + std::to_string(shape.size()) +
               " sizes; expected [rows, dim] or [rows, heads, dim]");
  }
  for (const int64_t size : shape) {
    if (size == 0) return Bad(path + ": array is empty");
  }
  return array;
}

}  // namespace attndb::bench
