#include "storage/vfs/object_reader.h"

#include <algorithm>

#include "common/check.h"
#include "common/checked_math.h"
#include "common/crc32c.h"
#include "common/hex.h"
#include "storage/vfs/field_check.h"
#include "storage/vfs/format.h"

namespace attndb::storage {
namespace {

// Read and verified as one piece: small enough to be still in the L2 cache when it is verified.
constexpr uint64_t kChunkBytes = uint64_t{512} << 10;

constexpr uint64_t kProgressBytes = uint64_t{1} << 20;

uint64_t GranuleFloor(uint64_t offset) { return offset / kGranuleBytes * kGranuleBytes; }

// A catalogued file that is not there is damage to the store, not a question with the answer no.
Status MissingIsCorrupt(Status status) {
  if (status.code() != StatusCode::kNotFound) return status;
  return Status::Corruption(status.message());
}

Result<std::unique_ptr<RandomAccessFile>> OpenFile(FileSystem* file_system,
                                                   const std::string& path) {
  Result<std::unique_ptr<RandomAccessFile>> file = file_system->OpenForRead(path);
  if (!file.ok()) return MissingIsCorrupt(std::move(file).status());
  return file;
}

// Reads the manifest; no byte of it is looked at before its hash was compared.
Result<Manifest> ReadManifest(FileSystem* file_system, const std::string& path,
                              const ObjectName& name, const Sha256Digest& root_hash) {
  ATTNDB_ASSIGN_OR_RETURN(const auto file, OpenFile(file_system, path));
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t num_bytes, file->Size());
  ATTNDB_RETURN_IF_ERROR(
      ExpectAtMost(path, "length of the manifest", num_bytes, ManifestBytes(kMaxObjectBytes)));
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer buffer, AlignedBuffer::Allocate(num_bytes));
  ATTNDB_RETURN_IF_ERROR(file->ReadAt(0, buffer.span()));
  const Sha256Digest found = Sha256::Of(buffer.span());
  if (found != root_hash) {
    return Mismatch(path, "SHA-256 of the manifest", HexEncode(root_hash), HexEncode(found));
  }
  return DecodeManifest(buffer.span(), name);
}

}  // namespace

ObjectReader::ObjectReader(Key, std::string path, std::unique_ptr<RandomAccessFile> file,
                           Manifest manifest)
    : path_(std::move(path)),
      description_(Describe(manifest.name)),
      file_(std::move(file)),
      manifest_(std::move(manifest)) {}

Result<std::unique_ptr<const ObjectReader>> ObjectReader::Open(FileSystem* file_system,
                                                               const std::string& dir,
                                                               const ObjectName& name,
                                                               const Sha256Digest& root_hash) {
  const std::string manifest_path = JoinPath(dir, FileNameOf(name, ObjectFile::kManifest));
  ATTNDB_ASSIGN_OR_RETURN(Manifest manifest,
                          ReadManifest(file_system, manifest_path, name, root_hash));
  std::string path = JoinPath(dir, FileNameOf(name, ObjectFile::kData));
  ATTNDB_ASSIGN_OR_RETURN(auto file, OpenFile(file_system, path));
  std::unique_ptr<const ObjectReader> reader =
      std::make_unique<ObjectReader>(Key(), std::move(path), std::move(file), std::move(manifest));
  ATTNDB_RETURN_IF_ERROR(reader->CheckLength());
  return reader;
}

Status ObjectReader::CheckLength() const {
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t found, file_->Size());
  return ExpectEqual(path_, "length of the file", found, length());
}

uint64_t ObjectReader::ReadBufferBytes(uint64_t offset, uint64_t size) const {
  ATTNDB_CHECK(offset <= length() && size <= length() - offset);
  const uint64_t end = RoundUp(offset + size, kGranuleBytes);
  return std::min(end, length()) - GranuleFloor(offset);
}

Result<ObjectRange> ObjectReader::Read(uint64_t offset, uint64_t size) const {
  if (size == 0) return ObjectRange();
  ObjectRange range;
  ATTNDB_ASSIGN_OR_RETURN(range.buffer, AlignedBuffer::Allocate(ReadBufferBytes(offset, size)));
  ATTNDB_RETURN_IF_ERROR(ReadGranules(GranuleFloor(offset), range.buffer.span()));
  range.bytes = range.buffer.span().subspan(offset - GranuleFloor(offset), size);
  return range;
}

Status ObjectReader::ReadGranules(uint64_t offset, std::span<std::byte> out) const {
  ATTNDB_CHECK(offset % kGranuleBytes == 0);
  ATTNDB_CHECK(out.size() % kGranuleBytes == 0 || offset + out.size() == length());
  while (!out.empty()) {
    std::span<std::byte> chunk = out.first(std::min<size_t>(out.size(), kChunkBytes));
    out = out.subspan(chunk.size());
    ATTNDB_RETURN_IF_ERROR(file_->ReadAt(offset, chunk));
    while (!chunk.empty()) {
      const size_t num_bytes = std::min<size_t>(chunk.size(), kGranuleBytes);
      const uint32_t expected = manifest_.granule_crcs[offset / kGranuleBytes];
      const uint32_t found = Crc32c(chunk.first(num_bytes));
      if (found != expected) {
        return Mismatch(path_, "CRC-32C of the granule at offset " + std::to_string(offset),
                        HexU32(expected), HexU32(found));
      }
      offset += num_bytes;
      chunk = chunk.subspan(num_bytes);
    }
  }
  return Status::Ok();
}

Status ObjectReader::VerifyAll(const std::function<bool(uint64_t bytes_done)>& progress) const {
  ATTNDB_RETURN_IF_ERROR(CheckLength());
  file_->DropCache();
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer buffer,
                          AlignedBuffer::Allocate(std::min(kProgressBytes, length())));
  for (uint64_t done = 0; done < length();) {
    const uint64_t num_bytes = std::min<uint64_t>(buffer.size(), length() - done);
    ATTNDB_RETURN_IF_ERROR(ReadGranules(done, buffer.span().first(num_bytes)));
    done += num_bytes;
    if (progress && !progress(done)) {
      return Status::Cancelled(path_ + ": verification stopped at offset " + std::to_string(done));
    }
  }
  return Status::Ok();
}

}  // namespace attndb::storage
