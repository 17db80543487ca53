#include "common/coding.h"

#include <algorithm>
#include <cstring>

#include "common/check.h"

namespace attndb {

std::span<const std::byte> ByteReader::Bytes(uint64_t num_bytes, std::string_view field) {
  if (!status_.ok()) return {};
  if (num_bytes > remaining()) {
    status_ = Status::Corruption(
        object_ + ": " + std::string(field) + " at offset " + std::to_string(position_) +
        ": expected " + std::to_string(num_bytes) + " bytes, found " + std::to_string(remaining()));
    return {};
  }
  const std::span<const std::byte> bytes = data_.subspan(position_, num_bytes);
  position_ += num_bytes;
  return bytes;
}

void ByteReader::ReadInto(std::span<std::byte> out, std::string_view field) {
  const std::span<const std::byte> bytes = Bytes(out.size(), field);
  if (bytes.empty()) {
    std::fill(out.begin(), out.end(), std::byte{0});
  } else {
    std::copy(bytes.begin(), bytes.end(), out.begin());
  }
}

Status ByteReader::Finish() const {
  if (!status_.ok() || remaining() == 0) return status_;
  return Status::Corruption(object_ + ": expected the end at offset " + std::to_string(position_) +
                            ", found " + std::to_string(remaining()) + " more bytes");
}

void ByteWriter::Bytes(std::span<const std::byte> bytes) {
  const size_t begin = data_.size();
  data_.resize(begin + bytes.size());
  if (!bytes.empty()) std::memcpy(data_.data() + begin, bytes.data(), bytes.size());
}

void ByteWriter::PadTo(size_t size) {
  ATTNDB_CHECK(data_.size() <= size);
  data_.resize(size, std::byte{0});
}

}  // namespace attndb
