#include "store/catalog/checked_vfs.h"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "common/crc32c.h"
#include "common/hex.h"

namespace attndb::store {
namespace {

constexpr size_t kNumberOffset = kPageBytes - kReservedBytes;
constexpr size_t kCrcOffset = kPageBytes - 4;
constexpr int kHeaderBytes = 100;  // SQLite's database header, at the start of page 1.

// SQLite allocates szOsFile bytes for it: this, then the file of the VFS below.
struct CheckedFile {
  sqlite3_file base;     // First: SQLite sees only this.
  int64_t damaged_page;  // 0 = none.
};

CheckedFile* Self(sqlite3_file* file) { return reinterpret_cast<CheckedFile*>(file); }
sqlite3_file* Below(sqlite3_file* file) { return reinterpret_cast<sqlite3_file*>(Self(file) + 1); }
sqlite3_vfs* Below(sqlite3_vfs* vfs) { return static_cast<sqlite3_vfs*>(vfs->pAppData); }

uint32_t Load32(ConstPageBytes page, size_t offset) {
  uint32_t value = 0;
  std::memcpy(&value, page.data() + offset, sizeof(value));
  return value;
}

bool IsWholePage(int num_bytes, sqlite3_int64 offset) {
  return num_bytes == static_cast<int>(kPageBytes) && offset >= 0 &&
         offset % static_cast<sqlite3_int64>(kPageBytes) == 0;
}

uint32_t PageNumber(sqlite3_int64 offset) {
  return static_cast<uint32_t>(offset / static_cast<sqlite3_int64>(kPageBytes)) + 1;
}

int Damaged(sqlite3_file* file, sqlite3_int64 page_number) {
  if (Self(file)->damaged_page == 0) Self(file)->damaged_page = page_number;
  return SQLITE_IOERR_DATA;
}

// SQLite peeks at the header before it reads page 1, and would believe it: it picks the page size,
// the reserved bytes and the auto-vacuum mode there. They are always these.
bool IsOurHeader(std::span<const std::byte, kHeaderBytes> header) {
  const auto zero = [&](size_t begin) {
    return std::ranges::all_of(header.subspan(begin, 4),
                               [](std::byte b) { return b == std::byte{0}; });
  };
  return std::memcmp(header.data(), "SQLite format 3", 16) == 0 && header[16] == std::byte{0x10} &&
         header[17] == std::byte{0} && header[20] == std::byte{kReservedBytes} && zero(52) &&
         zero(64);
}

int CloseFile(sqlite3_file* file) { return Below(file)->pMethods->xClose(Below(file)); }

int ReadFile(sqlite3_file* file, void* out, int num_bytes, sqlite3_int64 offset) {
  const int rc = Below(file)->pMethods->xRead(Below(file), out, num_bytes, offset);
  if (rc == SQLITE_IOERR_SHORT_READ) {
    // SQLite takes a short page for one full of zeros. That is right for a file that was just made.
    sqlite3_int64 file_bytes = 0;
    const int size_rc = Below(file)->pMethods->xFileSize(Below(file), &file_bytes);
    if (size_rc != SQLITE_OK) return size_rc;
    return file_bytes == 0 ? rc : Damaged(file, PageNumber(offset));
  }
  if (rc != SQLITE_OK) return rc;
  const auto* const bytes = static_cast<const std::byte*>(out);
  if (IsWholePage(num_bytes, offset)) {
    const uint32_t number = PageNumber(offset);
    const ConstPageBytes page(bytes, kPageBytes);
    const bool good = Load32(page, kNumberOffset) == number &&
                      Load32(page, kCrcOffset) == Crc32c(page.first(kCrcOffset));
    return good ? SQLITE_OK : Damaged(file, number);
  }
  if (offset == 0 && num_bytes == kHeaderBytes) {
    const std::span<const std::byte, kHeaderBytes> header(bytes, kHeaderBytes);
    return IsOurHeader(header) ? SQLITE_OK : Damaged(file, 1);
  }
  // The change counter: SQLite compares it with its own, to know whether to read page 1 again.
  if (offset >= 0 && offset + num_bytes <= kHeaderBytes) return SQLITE_OK;
  return Damaged(file, PageNumber(offset));
}

int WriteFile(sqlite3_file* file, const void* data, int num_bytes, sqlite3_int64 offset) {
  if (!IsWholePage(num_bytes, offset)) return SQLITE_IOERR_WRITE;
  std::array<std::byte, kPageBytes> page;
  std::memcpy(page.data(), data, kPageBytes);
  SealPage(PageNumber(offset), page);
  return Below(file)->pMethods->xWrite(Below(file), page.data(), num_bytes, offset);
}

int TruncateFile(sqlite3_file* file, sqlite3_int64 size) {
  return Below(file)->pMethods->xTruncate(Below(file), size);
}
int SyncFile(sqlite3_file* file, int flags) {
  return Below(file)->pMethods->xSync(Below(file), flags);
}
int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  return Below(file)->pMethods->xFileSize(Below(file), size);
}
int LockFile(sqlite3_file* file, int level) {
  return Below(file)->pMethods->xLock(Below(file), level);
}
int UnlockFile(sqlite3_file* file, int level) {
  return Below(file)->pMethods->xUnlock(Below(file), level);
}
int CheckReservedLock(sqlite3_file* file, int* out) {
  return Below(file)->pMethods->xCheckReservedLock(Below(file), out);
}
int FileControl(sqlite3_file* file, int op, void* arg) {
  if (op == kDamagedPageOp) {
    *static_cast<int64_t*>(arg) = Self(file)->damaged_page;
    return SQLITE_OK;
  }
  return Below(file)->pMethods->xFileControl(Below(file), op, arg);
}
int SectorSize(sqlite3_file* file) { return Below(file)->pMethods->xSectorSize(Below(file)); }
int DeviceCharacteristics(sqlite3_file* file) {
  return Below(file)->pMethods->xDeviceCharacteristics(Below(file));
}
int ShmMap(sqlite3_file* file, int page, int page_bytes, int extend, void volatile** out) {
  return Below(file)->pMethods->xShmMap(Below(file), page, page_bytes, extend, out);
}
int ShmLock(sqlite3_file* file, int offset, int n, int flags) {
  return Below(file)->pMethods->xShmLock(Below(file), offset, n, flags);
}
void ShmBarrier(sqlite3_file* file) { Below(file)->pMethods->xShmBarrier(Below(file)); }
int ShmUnmap(sqlite3_file* file, int delete_flag) {
  return Below(file)->pMethods->xShmUnmap(Below(file), delete_flag);
}

// Version 2 and not 3: without xFetch SQLite can't map pages into memory behind the checks.
constexpr sqlite3_io_methods kCheckedMethods = {
    2,
    CloseFile,
    ReadFile,
    WriteFile,
    TruncateFile,
    SyncFile,
    FileSize,
    LockFile,
    UnlockFile,
    CheckReservedLock,
    FileControl,
    SectorSize,
    DeviceCharacteristics,
    ShmMap,
    ShmLock,
    ShmBarrier,
    ShmUnmap,
    nullptr,
    nullptr,
};

int OpenFile(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  sqlite3_vfs* const below = Below(vfs);
  if ((flags & SQLITE_OPEN_MAIN_DB) == 0) return below->xOpen(below, name, file, flags, out_flags);
  *Self(file) = CheckedFile{};
  const int rc = below->xOpen(below, name, Below(file), flags, out_flags);
  // SQLite calls xClose on a file with methods, even if xOpen failed.
  if (Below(file)->pMethods != nullptr) file->pMethods = &kCheckedMethods;
  return rc;
}

int DeleteFile(sqlite3_vfs* vfs, const char* name, int sync_dir) {
  return Below(vfs)->xDelete(Below(vfs), name, sync_dir);
}
int AccessFile(sqlite3_vfs* vfs, const char* name, int flags, int* out) {
  return Below(vfs)->xAccess(Below(vfs), name, flags, out);
}
int FullPathname(sqlite3_vfs* vfs, const char* name, int num_out, char* out) {
  return Below(vfs)->xFullPathname(Below(vfs), name, num_out, out);
}
int Randomness(sqlite3_vfs* vfs, int num_bytes, char* out) {
  return Below(vfs)->xRandomness(Below(vfs), num_bytes, out);
}
int Sleep(sqlite3_vfs* vfs, int microseconds) {
  return Below(vfs)->xSleep(Below(vfs), microseconds);
}
int CurrentTime(sqlite3_vfs* vfs, double* out) { return Below(vfs)->xCurrentTime(Below(vfs), out); }
int GetLastError(sqlite3_vfs* vfs, int num_bytes, char* out) {
  return Below(vfs)->xGetLastError(Below(vfs), num_bytes, out);
}
int CurrentTimeInt64(sqlite3_vfs* vfs, sqlite3_int64* out) {
  return Below(vfs)->xCurrentTimeInt64(Below(vfs), out);
}

// Null if it can't be registered.
const sqlite3_vfs* RegisterCheckedVfs() {
  static sqlite3_vfs vfs{};  // SQLite keeps a pointer to it.
  sqlite3_vfs* const below = sqlite3_vfs_find("unix");
  if (below == nullptr || below->iVersion < 2) return nullptr;
  vfs.iVersion = 2;  // No system-call overrides; no loading of extensions either.
  vfs.szOsFile = static_cast<int>(sizeof(CheckedFile)) + below->szOsFile;
  vfs.mxPathname = below->mxPathname;
  vfs.zName = "attndb-checked";
  vfs.pAppData = below;
  vfs.xOpen = OpenFile;
  vfs.xDelete = DeleteFile;
  vfs.xAccess = AccessFile;
  vfs.xFullPathname = FullPathname;
  vfs.xRandomness = Randomness;
  vfs.xSleep = Sleep;
  vfs.xCurrentTime = CurrentTime;
  vfs.xGetLastError = GetLastError;
  vfs.xCurrentTimeInt64 = CurrentTimeInt64;
  return sqlite3_vfs_register(&vfs, /*makeDflt=*/0) == SQLITE_OK ? &vfs : nullptr;
}

}  // namespace

const char* CheckedVfsName() {
  static const sqlite3_vfs* const kVfs = RegisterCheckedVfs();
  return kVfs == nullptr ? nullptr : kVfs->zName;
}

void SealPage(uint32_t page_number, PageBytes page) {
  std::memcpy(page.data() + kNumberOffset, &page_number, sizeof(page_number));
  const uint32_t crc = Crc32c(page.first(kCrcOffset));
  std::memcpy(page.data() + kCrcOffset, &crc, sizeof(crc));
}

std::string PageDamage(uint32_t page_number, ConstPageBytes page) {
  const uint32_t stored = Load32(page, kCrcOffset);
  const uint32_t crc = Crc32c(page.first(kCrcOffset));
  if (stored != crc) return "checksum " + HexU32(crc) + ", expected " + HexU32(stored);
  const uint32_t number = Load32(page, kNumberOffset);
  if (number != page_number) return "holds page " + std::to_string(number);
  return "";
}

}  // namespace attndb::store
