#include "api/kv_file/safetensors_file.h"

#include <cstring>
#include <filesystem>
#include <random>
#include <utility>

#include "common/check.h"
#include "common/coding.h"
#include "common/hex.h"

namespace attndb::internal {
namespace {

std::string FileText(const std::string& path) { return "file '" + path + "'"; }

// A pipe would wait for ever, a folder has no bytes.
Status CheckRegular(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (error || !std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) {
    return Status::Ok();  // Opening it reports any other problem.
  }
  return Status::InvalidArgument(FileText(path) + " is no regular file");
}

std::string DirOf(const std::string& path) {
  const std::string dir = std::filesystem::path(path).parent_path().string();
  return dir.empty() ? "." : dir;
}

// Says why a file of this path can't be made, from the error of its temporary file.
Status CannotCreate(const std::string& path, const std::string& temporary, const Status& status) {
  if (status.code() == StatusCode::kNotFound) {
    return Status::NotFound(FileText(path) + ": folder '" + DirOf(path) + "' does not exist");
  }
  std::string message = status.message();
  if (message.starts_with(temporary)) message.replace(0, temporary.size(), FileText(path));
  return {status.code(), std::move(message)};
}

}  // namespace

Result<SafetensorsReader> SafetensorsReader::Open(storage::FileSystem* file_system,
                                                  const std::string& path) {
  ATTNDB_RETURN_IF_ERROR(CheckRegular(path));
  SafetensorsReader reader;
  ATTNDB_ASSIGN_OR_RETURN(reader.file_, file_system->OpenForRead(path));
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t file_bytes, reader.file_->Size());
  if (file_bytes < kSafetensorsLengthBytes) {
    return Status::InvalidArgument(FileText(path) + " has " + std::to_string(file_bytes) +
                                   " bytes, expected at least " +
                                   std::to_string(kSafetensorsLengthBytes));
  }
  uint64_t header_bytes = 0;
  ATTNDB_RETURN_IF_ERROR(
      reader.file_->ReadAt(0, std::as_writable_bytes(std::span(&header_bytes, 1))));
  if (header_bytes > kMaxSafetensorsHeaderBytes ||
      header_bytes > file_bytes - kSafetensorsLengthBytes) {
    return Status::InvalidArgument(
        FileText(path) + " has a header of " + std::to_string(header_bytes) +
        " bytes by its first 8, expected at most " + std::to_string(kMaxSafetensorsHeaderBytes) +
        " and no more than the file has, " + std::to_string(file_bytes - kSafetensorsLengthBytes));
  }
  std::string json(header_bytes, '\0');
  ATTNDB_RETURN_IF_ERROR(
      reader.file_->ReadAt(kSafetensorsLengthBytes, std::as_writable_bytes(std::span(json))));
  reader.data_begin_ = kSafetensorsLengthBytes + header_bytes;
  Result<SafetensorsHeader> header = ParseSafetensorsHeader(json, file_bytes - reader.data_begin_);
  if (!header.ok()) return header.status().WithContext(FileText(path));
  reader.header_ = *std::move(header);
  return reader;
}

Status SafetensorsReader::ReadAt(const SafetensorsEntry& entry, uint64_t offset,
                                 std::span<std::byte> out) const {
  const uint64_t num_bytes = entry.end - entry.begin;
  ATTNDB_CHECK(offset <= num_bytes && out.size() <= num_bytes - offset);
  return file_->ReadAt(data_begin_ + entry.begin + offset, out);
}

Result<SafetensorsWriter> SafetensorsWriter::Create(storage::FileSystem* file_system,
                                                    const std::string& path,
                                                    const SafetensorsHeader& header) {
  // Looked at before the work; Rename looks again.
  if (file_system->FileSize(path).ok()) {
    return Status::AlreadyExists(FileText(path) + " exists; remove it, or choose another name");
  }
  const Result<std::string> text = FormatSafetensorsHeader(header);
  if (!text.ok()) return text.status().WithContext(FileText(path));
  const std::string temporary = path + "." + HexU32(std::random_device()()) + ".tmp";
  SafetensorsWriter writer(file_system, path, "");
  Result<std::unique_ptr<storage::WritableFile>> file = file_system->CreateNew(temporary);
  if (!file.ok()) return CannotCreate(path, temporary, file.status());
  writer.file_ = *std::move(file);
  writer.temporary_ = temporary;
  writer.missing_bytes_ = header.tensors.empty() ? 0 : header.tensors.back().end;
  ATTNDB_RETURN_IF_ERROR(writer.file_->Append(BytesOf(*text)));
  return writer;
}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&& other) noexcept
    : file_system_(other.file_system_),
      path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      file_(std::move(other.file_)),
      missing_bytes_(other.missing_bytes_) {}

SafetensorsWriter::~SafetensorsWriter() {
  file_.reset();
  if (!temporary_.empty()) (void)file_system_->Remove(temporary_);
}

Status SafetensorsWriter::Append(std::span<const std::byte> data) {
  ATTNDB_CHECK(data.size() <= missing_bytes_);
  missing_bytes_ -= data.size();
  return file_->Append(data);
}

Status SafetensorsWriter::Finish() {
  ATTNDB_CHECK(missing_bytes_ == 0);
  ATTNDB_RETURN_IF_ERROR(file_->Sync());
  ATTNDB_RETURN_IF_ERROR(file_->Close());
  ATTNDB_RETURN_IF_ERROR(file_system_->Rename(temporary_, path_));
  temporary_.clear();
  return file_system_->SyncDir(DirOf(path_));
}

}  // namespace attndb::internal
