#include "storage/vfs/object_reader.h"

#include <algorithm>
#include <optional>
#include <vector>

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

// Whether the folder has any object at all.
bool HasObjects(FileSystem* file_system, const std::string& dir) {
  const Result<std::vector<std::string>> names = file_system->List(dir);
  if (!names.ok()) return false;
  return std::ranges::any_of(*names, [](const std::string& name) {
    const std::optional<ParsedFileName> file = ParseFileName(name);
    return file && !file->temporary;
  });
}

const Status& StatusOf(const Status& status) { return status; }
template <typename T>
const Status& StatusOf(const Result<T>& result) {
  return result.status();
}

// Returns the result of `call`, which opens or reads a catalogued file. A missing file is damage to
// the store, not the answer "no". If no object exists, perhaps not even its folder, the disk is
// absent.
template <typename Call>
auto OfCatalogued(FileSystem* file_system, const std::string& dir, const std::string& path,
                  const Call& call) -> decltype(call()) {
  auto result = call();
  if (StatusOf(result).code() != StatusCode::kNotFound) return result;
  if (!HasObjects(file_system, dir)) {
    return Status::IoError(path + ": is not there, and neither is any other object in " + dir +
                           ": is its disk mounted?");
  }
  result = call();  // The disk may have come back since.
  if (StatusOf(result).code() != StatusCode::kNotFound) return result;
  return Status::Corruption(StatusOf(result).message());
}

Result<std::unique_ptr<RandomAccessFile>> OpenFile(FileSystem* file_system, const std::string& dir,
                                                   const std::string& name) {
  const std::string path = JoinPath(dir, name);
  return OfCatalogued(file_system, dir, path, [&] { return file_system->OpenForRead(path); });
}

// The SHA-256 of a file, read in pieces.
Result<Sha256Digest> HashOf(const RandomAccessFile& file, uint64_t num_bytes) {
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer piece, AlignedBuffer::Allocate(kProgressBytes));
  Sha256 sha;
  for (uint64_t done = 0; done < num_bytes;) {
    const auto part = piece.span().first(std::min<uint64_t>(piece.size(), num_bytes - done));
    ATTNDB_RETURN_IF_ERROR(file.ReadAt(done, part));
    sha.Update(part);
    done += part.size();
  }
  return sha.Finish();
}

Status CheckHash(const std::string& path, const Sha256Digest& found, const Sha256Digest& expected) {
  if (found == expected) return Status::Ok();
  return Mismatch(path, "SHA-256 of the manifest", HexEncode(expected), HexEncode(found));
}

// Reads the manifest; no byte of it is looked at before its hash was compared, and no memory taken
// for a long one before that.
Result<Manifest> ReadManifest(FileSystem* file_system, const std::string& dir,
                              const ObjectName& name, const Sha256Digest& root_hash) {
  const std::string file_name = FileNameOf(name, ObjectFile::kManifest);
  const std::string path = JoinPath(dir, file_name);
  ATTNDB_ASSIGN_OR_RETURN(const auto file, OpenFile(file_system, dir, file_name));
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t num_bytes, file->Size());
  ATTNDB_RETURN_IF_ERROR(
      ExpectAtMost(path, "length of the manifest", num_bytes, ManifestBytes(kMaxObjectBytes)));
  if (num_bytes > kProgressBytes) {
    ATTNDB_ASSIGN_OR_RETURN(const Sha256Digest found, HashOf(*file, num_bytes));
    ATTNDB_RETURN_IF_ERROR(CheckHash(path, found, root_hash));
  }
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer buffer, AlignedBuffer::Allocate(num_bytes));
  ATTNDB_RETURN_IF_ERROR(file->ReadAt(0, buffer.span()));
  ATTNDB_RETURN_IF_ERROR(CheckHash(path, Sha256::Of(buffer.span()), root_hash));
  return DecodeManifest(buffer.span(), name);
}

}  // namespace

ObjectReader::ObjectReader(Key, FileSystem* file_system, std::string dir, std::string path,
                           std::unique_ptr<RandomAccessFile> file, Manifest manifest)
    : file_system_(file_system),
      dir_(std::move(dir)),
      path_(std::move(path)),
      description_(Describe(manifest.name)),
      file_(std::move(file)),
      manifest_(std::move(manifest)) {}

Result<std::unique_ptr<const ObjectReader>> ObjectReader::Open(FileSystem* file_system,
                                                               const std::string& dir,
                                                               const ObjectName& name,
                                                               const Sha256Digest& root_hash) {
  ATTNDB_ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(file_system, dir, name, root_hash));
  const std::string file_name = FileNameOf(name, ObjectFile::kData);
  ATTNDB_ASSIGN_OR_RETURN(auto file, OpenFile(file_system, dir, file_name));
  std::unique_ptr<const ObjectReader> reader = std::make_unique<ObjectReader>(
      Key(), file_system, dir, JoinPath(dir, file_name), std::move(file), std::move(manifest));
  ATTNDB_RETURN_IF_ERROR(reader->CheckLength());
  return reader;
}

Status ObjectReader::CheckLength() const {
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t found, OfCatalogued(file_system_, dir_, path_,
                                                             [this] { return file_->Size(); }));
  return ExpectEqual(path_, "length of the file", found, length());
}

uint64_t ObjectReader::ReadBufferBytes(uint64_t offset, uint64_t size) const {
  ATTNDB_CHECK(offset <= length() && size <= length() - offset);
  const uint64_t end = RoundUp(offset + size, kGranuleBytes);
  return std::min(end, length()) - GranuleFloor(offset);
}

Result<ObjectRange> ObjectReader::Read(uint64_t offset, uint64_t size,
                                       GranuleDamage* damage) const {
  if (size == 0) return ObjectRange();
  ObjectRange range;
  ATTNDB_ASSIGN_OR_RETURN(range.buffer, AlignedBuffer::Allocate(ReadBufferBytes(offset, size)));
  ATTNDB_RETURN_IF_ERROR(ReadGranules(GranuleFloor(offset), range.buffer.span(), damage));
  range.bytes = range.buffer.span().subspan(offset - GranuleFloor(offset), size);
  return range;
}

Status ObjectReader::CheckGranule(uint64_t offset, std::span<const std::byte> bytes) const {
  const uint32_t expected = manifest_.granule_crcs[offset / kGranuleBytes];
  const uint32_t found = Crc32c(bytes);
  if (found == expected) return Status::Ok();
  return Mismatch(path_, "CRC-32C of the granule at offset " + std::to_string(offset),
                  HexU32(expected), HexU32(found));
}

Status ObjectReader::ReadGranules(uint64_t offset, std::span<std::byte> out,
                                  GranuleDamage* damage) const {
  ATTNDB_CHECK(offset % kGranuleBytes == 0);
  ATTNDB_CHECK(out.size() % kGranuleBytes == 0 || offset + out.size() == length());
  while (!out.empty()) {
    std::span<std::byte> chunk = out.first(std::min<size_t>(out.size(), kChunkBytes));
    out = out.subspan(chunk.size());
    ATTNDB_RETURN_IF_ERROR(
        OfCatalogued(file_system_, dir_, path_, [&] { return file_->ReadAt(offset, chunk); }));
    while (!chunk.empty()) {
      const auto granule = chunk.first(std::min<size_t>(chunk.size(), kGranuleBytes));
      Status status = CheckGranule(offset, granule);
      if (!status.ok()) {
        if (damage == nullptr) return status;
        std::ranges::fill(granule, std::byte{0});
        if (damage->offsets.empty()) damage->first = std::move(status);
        damage->offsets.push_back(offset);
      }
      offset += granule.size();
      chunk = chunk.subspan(granule.size());
    }
  }
  return Status::Ok();
}

Status ObjectReader::VerifyAll(const std::function<bool(uint64_t bytes_done)>& progress,
                               GranuleDamage* damage) const {
  ATTNDB_RETURN_IF_ERROR(CheckLength());
  file_->DropCache();
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer buffer,
                          AlignedBuffer::Allocate(std::min(kProgressBytes, length())));
  for (uint64_t done = 0; done < length();) {
    const uint64_t num_bytes = std::min<uint64_t>(buffer.size(), length() - done);
    ATTNDB_RETURN_IF_ERROR(ReadGranules(done, buffer.span().first(num_bytes), damage));
    done += num_bytes;
    if (progress && !progress(done)) {
      return Status::Cancelled(path_ + ": verification stopped at offset " + std::to_string(done));
    }
  }
  return Status::Ok();
}

}  // namespace attndb::storage
