// Reading and writing little-endian fields of on-disk structures, with every bound checked.
//
// A ByteReader keeps its first error: after it, every read gives zeros, so that a parser reads a
// fixed structure straight down and looks at status() once before it uses anything.
//
//   ByteReader in(page, "segment 7");
//   const uint32_t version = in.U32("version");
//   const uint64_t num_tokens = in.U64("num_tokens");
//   ATTNDB_RETURN_IF_ERROR(in.status());
//
// Errors:  kCorruption naming object, field, offset, bytes needed and bytes left.
// Threads: thread-compatible.
#ifndef ATTNDB_COMMON_CODING_H_
#define ATTNDB_COMMON_CODING_H_

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/status.h"

namespace attndb {

// Rows and index arrays are stored as they lie in memory, so the byte order is the machine's.
static_assert(std::endian::native == std::endian::little, "attndb's formats are little-endian");

// The bytes of a contiguous range of plain values: a std::string, an array of uint32_t, ...
template <typename Range>
std::span<const std::byte> BytesOf(const Range& range) {
  return std::as_bytes(std::span(range));
}

class ByteReader {
 public:
  // `data` must outlive the reader. `object` names it in errors.
  ByteReader(std::span<const std::byte> data, std::string_view object)
      : data_(data), object_(object) {}

  uint8_t U8(std::string_view field) { return Read<uint8_t>(field); }
  uint16_t U16(std::string_view field) { return Read<uint16_t>(field); }
  uint32_t U32(std::string_view field) { return Read<uint32_t>(field); }
  uint64_t U64(std::string_view field) { return Read<uint64_t>(field); }
  int64_t I64(std::string_view field) { return Read<int64_t>(field); }

  // The next num_bytes; empty after an error.
  std::span<const std::byte> Bytes(uint64_t num_bytes, std::string_view field);

  // Fills `out`; with zeros after an error.
  void ReadInto(std::span<std::byte> out, std::string_view field);

  size_t position() const { return position_; }
  size_t remaining() const { return data_.size() - position_; }
  const Status& status() const { return status_; }

  // status(), or kCorruption if bytes are left over.
  Status Finish() const;

 private:
  template <std::integral T>
  T Read(std::string_view field) {
    T value = 0;
    const std::span<const std::byte> bytes = Bytes(sizeof(T), field);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

  std::span<const std::byte> data_;
  std::string object_;
  size_t position_ = 0;
  Status status_;
};

// Builds a structure in memory.
class ByteWriter {
 public:
  void U8(uint8_t value) { Write(value); }
  void U16(uint16_t value) { Write(value); }
  void U32(uint32_t value) { Write(value); }
  void U64(uint64_t value) { Write(value); }
  void I64(int64_t value) { Write(value); }
  void Bytes(std::span<const std::byte> bytes);

  // Appends zeros up to `size` bytes in all. REQUIRES: size() <= size.
  void PadTo(size_t size);

  size_t size() const { return data_.size(); }
  std::span<const std::byte> bytes() const { return data_; }
  std::vector<std::byte> Release() { return std::move(data_); }

 private:
  template <std::integral T>
  void Write(T value) {
    Bytes(std::as_bytes(std::span(&value, 1)));
  }

  std::vector<std::byte> data_;
};

}  // namespace attndb

#endif  // ATTNDB_COMMON_CODING_H_
