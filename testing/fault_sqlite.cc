#include "testing/fault_sqlite.h"

#include <sqlite3.h>

#include "common/check.h"
#include "common/mutex.h"

namespace attndb::test {
namespace {

struct State {
  Mutex mutex;
  FaultFileSystem::Plan plan ATTNDB_GUARDED_BY(mutex);
  uint64_t num_operations ATTNDB_GUARDED_BY(mutex) = 0;
  uint64_t num_faults ATTNDB_GUARDED_BY(mutex) = 0;
};

State& TheState() {
  static State state;
  return state;
}

struct Fault {
  bool now = false;
  FaultKind kind = FaultKind::kIoError;
};

Fault Next() {
  State& state = TheState();
  MutexLock lock(&state.mutex);
  const uint64_t number = ++state.num_operations;
  const FaultFileSystem::Plan plan = state.plan;
  const bool now =
      plan.fail_at != 0 && (plan.sticky ? number >= plan.fail_at : number == plan.fail_at);
  if (now) ++state.num_faults;
  return {now, plan.kind};
}

// Runs `call`, or fails in its place or after it.
template <typename Call>
int Do(int error, const Call& call) {
  const Fault fault = Next();
  if (!fault.now) return call();
  if (fault.kind == FaultKind::kErrorAfter) (void)call();
  const bool no_space = fault.kind == FaultKind::kNoSpace || fault.kind == FaultKind::kTornWrite;
  const bool grows = error == SQLITE_IOERR_WRITE || error == SQLITE_IOERR_SHMMAP;
  return no_space && grows ? SQLITE_FULL : error;
}

// SQLite allocates szOsFile bytes for it: this, then the file of the VFS below.
struct FaultyFile {
  sqlite3_file base;
};
sqlite3_file* Below(sqlite3_file* file) {
  return reinterpret_cast<sqlite3_file*>(reinterpret_cast<FaultyFile*>(file) + 1);
}
sqlite3_vfs* Below(sqlite3_vfs* vfs) { return static_cast<sqlite3_vfs*>(vfs->pAppData); }
const sqlite3_io_methods& MethodsBelow(sqlite3_file* file) { return *Below(file)->pMethods; }

int CloseFile(sqlite3_file* file) { return MethodsBelow(file).xClose(Below(file)); }
int ReadFile(sqlite3_file* file, void* out, int size, sqlite3_int64 offset) {
  return Do(SQLITE_IOERR_READ,
            [&] { return MethodsBelow(file).xRead(Below(file), out, size, offset); });
}
int WriteFile(sqlite3_file* file, const void* data, int size, sqlite3_int64 offset) {
  const auto write = [&](int n) { return MethodsBelow(file).xWrite(Below(file), data, n, offset); };
  const Fault fault = Next();
  if (!fault.now) return write(size);
  if (fault.kind == FaultKind::kErrorAfter) (void)write(size);
  if (fault.kind == FaultKind::kTornWrite) (void)write(size / 2);
  const bool io_error = fault.kind == FaultKind::kIoError || fault.kind == FaultKind::kErrorAfter;
  return io_error ? SQLITE_IOERR_WRITE : SQLITE_FULL;
}
int TruncateFile(sqlite3_file* file, sqlite3_int64 size) {
  return Do(SQLITE_IOERR_TRUNCATE, [&] { return MethodsBelow(file).xTruncate(Below(file), size); });
}
int SyncFile(sqlite3_file* file, int flags) {
  return Do(SQLITE_IOERR_FSYNC, [&] { return MethodsBelow(file).xSync(Below(file), flags); });
}
int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  return Do(SQLITE_IOERR_FSTAT, [&] { return MethodsBelow(file).xFileSize(Below(file), size); });
}
int LockFile(sqlite3_file* file, int level) { return MethodsBelow(file).xLock(Below(file), level); }
int UnlockFile(sqlite3_file* file, int level) {
  return MethodsBelow(file).xUnlock(Below(file), level);
}
int CheckReservedLock(sqlite3_file* file, int* out) {
  return MethodsBelow(file).xCheckReservedLock(Below(file), out);
}
int FileControl(sqlite3_file* file, int op, void* arg) {
  return MethodsBelow(file).xFileControl(Below(file), op, arg);
}
int SectorSize(sqlite3_file* file) { return MethodsBelow(file).xSectorSize(Below(file)); }
int DeviceCharacteristics(sqlite3_file* file) {
  return MethodsBelow(file).xDeviceCharacteristics(Below(file));
}
int ShmMap(sqlite3_file* file, int page, int page_bytes, int extend, void volatile** out) {
  return Do(SQLITE_IOERR_SHMMAP,
            [&] { return MethodsBelow(file).xShmMap(Below(file), page, page_bytes, extend, out); });
}
int ShmLock(sqlite3_file* file, int offset, int n, int flags) {
  return MethodsBelow(file).xShmLock(Below(file), offset, n, flags);
}
void ShmBarrier(sqlite3_file* file) { MethodsBelow(file).xShmBarrier(Below(file)); }
int ShmUnmap(sqlite3_file* file, int delete_flag) {
  return MethodsBelow(file).xShmUnmap(Below(file), delete_flag);
}

constexpr sqlite3_io_methods kFaultyMethods = {
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
  file->pMethods = nullptr;
  return Do(SQLITE_CANTOPEN, [&] {
    const int rc = Below(vfs)->xOpen(Below(vfs), name, Below(file), flags, out_flags);
    if (Below(file)->pMethods != nullptr) file->pMethods = &kFaultyMethods;
    return rc;
  });
}

int DeleteFile(sqlite3_vfs* vfs, const char* name, int sync_dir) {
  return Do(SQLITE_IOERR_DELETE, [&] { return Below(vfs)->xDelete(Below(vfs), name, sync_dir); });
}
int AccessFile(sqlite3_vfs* vfs, const char* name, int flags, int* out) {
  return Do(SQLITE_IOERR_ACCESS, [&] { return Below(vfs)->xAccess(Below(vfs), name, flags, out); });
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

}  // namespace

SqliteFaults& SqliteFaults::Install() {
  static SqliteFaults faults;
  static sqlite3_vfs vfs{};
  if (vfs.zName != nullptr) return faults;
  sqlite3_vfs* const below = sqlite3_vfs_find("unix");
  ATTNDB_CHECK(below != nullptr && below->iVersion >= 2);
  vfs.iVersion = 2;
  vfs.szOsFile = static_cast<int>(sizeof(FaultyFile)) + below->szOsFile;
  vfs.mxPathname = below->mxPathname;
  vfs.zName = "unix";
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
  // At the head of SQLite's list, in front of the one that it stands upon.
  ATTNDB_CHECK(sqlite3_vfs_register(&vfs, /*makeDflt=*/1) == SQLITE_OK);
  return faults;
}

void SqliteFaults::SetPlan(const FaultFileSystem::Plan& plan) {
  State& state = TheState();
  MutexLock lock(&state.mutex);
  state.plan = plan;
  state.num_operations = 0;
  state.num_faults = 0;
}

uint64_t SqliteFaults::num_operations() const {
  State& state = TheState();
  MutexLock lock(&state.mutex);
  return state.num_operations;
}

uint64_t SqliteFaults::num_faults() const {
  State& state = TheState();
  MutexLock lock(&state.mutex);
  return state.num_faults;
}

}  // namespace attndb::test
