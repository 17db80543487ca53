#include "storage/vfs/object_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "attndb/units.h"
#include "common/check.h"
#include "common/checked_math.h"
#include "common/crc32c.h"
#include "storage/vfs/field_check.h"
#include "storage/vfs/format.h"
#include "storage/vfs/manifest.h"

namespace attndb::storage {
namespace {

// Unit of writing; whole granules. In the L2 cache when it is checksummed and copied to the kernel.
constexpr uint64_t kBufferBytes = uint64_t{512} << 10;
static_assert(kBufferBytes % kGranuleBytes == 0);

void AppendGranuleCrcs(std::span<const std::byte> data, std::vector<uint32_t>* crcs) {
  while (!data.empty()) {
    const size_t num_bytes = std::min<size_t>(data.size(), kGranuleBytes);
    crcs->push_back(Crc32c(data.first(num_bytes)));
    data = data.subspan(num_bytes);
  }
}

}  // namespace

ObjectWriter::ObjectWriter(Key, const Options& options) : options_(options), name_(options.name) {}

Result<std::unique_ptr<ObjectWriter>> ObjectWriter::Create(const Options& options) {
  ATTNDB_CHECK(options.head_bytes % kGranuleBytes == 0);
  auto writer = std::make_unique<ObjectWriter>(Key(), options);
  ATTNDB_RETURN_IF_ERROR(writer->Start());
  return writer;
}

Status ObjectWriter::Start() {
  ATTNDB_RETURN_IF_ERROR(CheckCancelled());
  ATTNDB_ASSIGN_OR_RETURN(buffer_, AlignedBuffer::Allocate(kBufferBytes));
  const std::string path = TemporaryPath(ObjectFile::kData);
  ATTNDB_ASSIGN_OR_RETURN(data_file_, options_.file_system->CreateNew(path));
  paths_.push_back(path);
  const std::vector<std::byte> head(options_.head_bytes, std::byte{0});
  ATTNDB_RETURN_IF_ERROR(data_file_->Append(head));
  flushed_bytes_ = head.size();
  return Status::Ok();
}

ObjectWriter::~ObjectWriter() {
  data_file_.reset();
  // A file that can't be removed now is an orphan, which the next open of the store collects.
  for (const std::string& path : paths_) (void)options_.file_system->Remove(path);
}

std::string ObjectWriter::TemporaryPath(ObjectFile file) const {
  return JoinPath(options_.dir, TemporaryNameOf(options_.name, file));
}

std::string ObjectWriter::FinalPath(ObjectFile file) const {
  return JoinPath(options_.dir, FileNameOf(name_, file));
}

Status ObjectWriter::CheckCancelled() const {
  // Relaxed: a flag that publishes nothing.
  if (options_.cancel == nullptr || !options_.cancel->load(std::memory_order_relaxed)) {
    return Status::Ok();
  }
  return Status::Cancelled("writing " + Describe(options_.name) + " was stopped");
}

Status ObjectWriter::Append(std::span<const std::byte> data) {
  if (data.size() > kMaxObjectBytes - position()) {
    return Status::InvalidArgument(Describe(options_.name) + ": expected at most " +
                                   FormatBytes(kMaxObjectBytes));
  }
  while (!data.empty()) {
    const size_t num_bytes = std::min<size_t>(data.size(), buffer_.size() - num_buffered_);
    std::memcpy(buffer_.data() + num_buffered_, data.data(), num_bytes);
    num_buffered_ += num_bytes;
    data = data.subspan(num_bytes);
    if (num_buffered_ == buffer_.size()) ATTNDB_RETURN_IF_ERROR(Flush());
  }
  return Status::Ok();
}

Status ObjectWriter::Align(uint64_t alignment) {
  static constexpr std::byte kZeros[kGranuleBytes] = {};
  ATTNDB_CHECK(alignment <= kGranuleBytes);
  return Append(std::span(kZeros).first(RoundUp(position(), alignment) - position()));
}

Status ObjectWriter::Flush() {
  ATTNDB_RETURN_IF_ERROR(CheckCancelled());
  const std::span<const std::byte> data = buffer_.span().first(num_buffered_);
  AppendGranuleCrcs(data, &granule_crcs_);
  ATTNDB_RETURN_IF_ERROR(data_file_->Append(data));
  flushed_bytes_ += data.size();
  num_buffered_ = 0;
  return Status::Ok();
}

Result<WrittenObject> ObjectWriter::Finish(std::span<const std::byte> head) {
  ATTNDB_CHECK(head.size() == options_.head_bytes);
  ATTNDB_RETURN_IF_ERROR(Flush());
  ATTNDB_RETURN_IF_ERROR(data_file_->WriteAt(0, head));
  ATTNDB_RETURN_IF_ERROR(data_file_->Sync());
  ATTNDB_RETURN_IF_ERROR(data_file_->Close());

  Manifest manifest{.name = name_, .object_bytes = flushed_bytes_, .granule_crcs = {}};
  AppendGranuleCrcs(head, &manifest.granule_crcs);
  manifest.granule_crcs.insert(manifest.granule_crcs.end(), granule_crcs_.begin(),
                               granule_crcs_.end());
  const std::vector<std::byte> bytes = EncodeManifest(manifest);
  ATTNDB_RETURN_IF_ERROR(WriteManifest(bytes));
  ATTNDB_RETURN_IF_ERROR(Publish());
  return WrittenObject{.object_bytes = flushed_bytes_,
                       .manifest_bytes = bytes.size(),
                       .root_hash = Sha256::Of(bytes)};
}

Status ObjectWriter::WriteManifest(std::span<const std::byte> manifest) {
  const std::string path = TemporaryPath(ObjectFile::kManifest);
  ATTNDB_ASSIGN_OR_RETURN(const auto file, options_.file_system->CreateNew(path));
  paths_.push_back(path);
  ATTNDB_RETURN_IF_ERROR(file->Append(manifest));
  ATTNDB_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

Status ObjectWriter::Publish() {
  ATTNDB_RETURN_IF_ERROR(CheckCancelled());
  for (const ObjectFile file : {ObjectFile::kData, ObjectFile::kManifest}) {
    const std::string path = FinalPath(file);
    ATTNDB_RETURN_IF_ERROR(options_.file_system->Rename(TemporaryPath(file), path));
    std::replace(paths_.begin(), paths_.end(), TemporaryPath(file), path);
  }
  ATTNDB_RETURN_IF_ERROR(options_.file_system->SyncDir(options_.dir));
  paths_.clear();
  return Status::Ok();
}

}  // namespace attndb::storage
