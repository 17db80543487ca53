// Files of named arrays (safetensors): read in parts, written in one pass.
//
// A file is never mapped: a file that shrinks during a read gives an error, not a signal. Data has
// no alignment.
//
// Errors:  kInvalidArgument (not a safetensors file, see safetensors_header.h; not a regular file);
//          kNotFound, kIoError; kCorruption (the file has become shorter). All name the file.
// Threads: a reader is thread-safe; a writer is thread-compatible.
#ifndef ATTNDB_API_KV_FILE_SAFETENSORS_FILE_H_
#define ATTNDB_API_KV_FILE_SAFETENSORS_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "api/kv_file/safetensors_header.h"
#include "attndb/result.h"
#include "storage/io/file_system.h"

namespace attndb::internal {

class SafetensorsReader {
 public:
  // Reads and checks the header. `file_system` must outlive the reader.
  static Result<SafetensorsReader> Open(storage::FileSystem* file_system, const std::string& path);

  const SafetensorsHeader& header() const { return header_; }

  // Fills `out` with bytes of a tensor from `offset` on. REQUIRES: they are all inside it.
  Status ReadAt(const SafetensorsEntry& entry, uint64_t offset, std::span<std::byte> out) const;

 private:
  SafetensorsReader() = default;

  std::unique_ptr<storage::RandomAccessFile> file_;
  SafetensorsHeader header_;
  uint64_t data_begin_ = 0;
};

class SafetensorsWriter {
 public:
  // Writes the header to a temporary name beside `path`, which must be free: kAlreadyExists.
  // A header that FormatSafetensorsHeader refuses makes no file: kInvalidArgument.
  static Result<SafetensorsWriter> Create(storage::FileSystem* file_system, const std::string& path,
                                          const SafetensorsHeader& header);
  SafetensorsWriter(SafetensorsWriter&& other) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;
  ~SafetensorsWriter();  // Removes an unfinished file.

  // The next bytes of the data. REQUIRES: no more in all than the header says.
  Status Append(std::span<const std::byte> data);

  // Makes the file durable under its name. REQUIRES: all data was appended.
  Status Finish();

 private:
  SafetensorsWriter(storage::FileSystem* file_system, std::string path, std::string temporary)
      : file_system_(file_system), path_(std::move(path)), temporary_(std::move(temporary)) {}

  storage::FileSystem* file_system_;
  std::string path_;
  std::string temporary_;  // Empty when nothing is left to remove.
  std::unique_ptr<storage::WritableFile> file_;
  uint64_t missing_bytes_ = 0;
};

}  // namespace attndb::internal

#endif  // ATTNDB_API_KV_FILE_SAFETENSORS_FILE_H_
