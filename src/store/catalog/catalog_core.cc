#include "store/catalog/catalog_core.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "common/clock.h"
#include "store/catalog/catalog_rows.h"
#include "store/catalog/context_notes.h"
#include "store/catalog/counters.h"
#include "store/catalog/lacking_companions.h"
#include "store/catalog/model_sources.h"
#include "store/catalog/sound_tokens.h"
#include "store/catalog/sqlite.h"
#include "store/catalog/tenant_numbers.h"
#include "store/catalog/text_layouts.h"
#include "store/catalog/wal_check.h"

namespace attndb::store {
namespace {

constexpr size_t kMaxTouches = 4096;
constexpr int64_t kNumbersReserved = 64;  // The most numbers that a crash leaves unused.
// No catalog reaches such a number by itself: it is made up, and too few numbers would follow it.
constexpr uint64_t kMadeUp = kMaxNumber / 2;

// Size, time and inode of a file, as text; "0" bytes and a missing file look alike.
std::string FileStamp(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return "none";
  return std::to_string(info.st_size) + "." + std::to_string(info.st_mtim.tv_sec) + "." +
         std::to_string(info.st_mtim.tv_nsec) + "." + std::to_string(info.st_ino);
}

bool IsEmptyOrMissing(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) != 0 || info.st_size == 0;
}

}  // namespace

CatalogCore::~CatalogCore() {
  // Access times are a hint: a store that can't be written any more still closes.
  if (!options_.read_only) (void)FlushTouches().ok();
}

Status CatalogCore::Open() {
  Status found = CheckCatalogFile(options_.path);
  const bool create = options_.create_if_missing && !options_.read_only;
  if (found.code() == StatusCode::kNotFound && create) {
    ATTNDB_RETURN_IF_ERROR(CreateCatalogFile(options_.path));
    found = CheckCatalogFile(options_.path);
  }
  ATTNDB_RETURN_IF_ERROR(found);
  if (!options_.read_only) CloseToOthers(options_.path);
  ATTNDB_RETURN_IF_ERROR(in_use_.Begin(options_.path));
  ATTNDB_RETURN_IF_ERROR(CheckWriteAheadLog(options_.path + "-wal"));
  MutexLock lock(&mutex_);
  ATTNDB_RETURN_IF_ERROR(Connect());
  ATTNDB_RETURN_IF_ERROR(LoadMeta());
  SeeLatestUse();
  return options_.read_only ? Status::Ok() : ForgetUnreferencedSegments();
}

Status CatalogCore::Connect() const {
  using Mode = SqliteDatabase::Mode;
  if (!options_.read_only) return ConnectAs(Mode::kReadWrite);
  const Status status = ConnectAs(Mode::kReadOnly);
  if (status.code() != StatusCode::kReadOnly && status.code() != StatusCode::kIoError &&
      status.code() != StatusCode::kResourceExhausted) {  // A disk with nothing free.
    immutable_stamp_.clear();
    return status;
  }
  // SQLite can't make its lock file here. If the log holds no commits, the file alone is the whole
  // catalog, as long as no process changes it: BeginRead checks that.
  if (!IsEmptyOrMissing(options_.path + "-wal")) {
    return Status::ReadOnly(status.message() +
                            "; its log holds commits that only a process that may write the folder "
                            "can recover");
  }
  immutable_stamp_ = FileStamp(options_.path);
  return ConnectAs(Mode::kImmutable);
}

Status CatalogCore::ConnectAs(SqliteDatabase::Mode mode) const {
  version_ = 0;  // If the file turns out not to be our catalog, BeginRead connects again.
  ATTNDB_ASSIGN_OR_RETURN(database_, SqliteDatabase::Open(options_.path, mode));
  ATTNDB_ASSIGN_OR_RETURN(version_, CheckSchema(database_.get()));
  if (mode != SqliteDatabase::Mode::kReadWrite) return ViewWhatIsMissing();
  if (version_ < kSchemaVersion) ATTNDB_RETURN_IF_ERROR(UpgradeSchema(database_.get()));
  version_ = kSchemaVersion;
  ATTNDB_RETURN_IF_ERROR(KeepCounters(database_.get()));
  ATTNDB_RETURN_IF_ERROR(KeepNoteBytes(database_.get()));
  return WatchCompanions(database_.get());
}

Status CatalogCore::ViewWhatIsMissing() const {
  ATTNDB_RETURN_IF_ERROR(ViewNoteBytes(database_.get()));
  if (version_ < kFirstVersionWithCounters) {
    ATTNDB_RETURN_IF_ERROR(ViewAsCounters(database_.get()));
  }
  if (version_ < kFirstVersionWithSoundTokens) {
    ATTNDB_RETURN_IF_ERROR(ViewAsSoundTokens(database_.get()));
  }
  if (version_ < kFirstVersionWithNumbers) {
    ATTNDB_RETURN_IF_ERROR(ViewIdsAsNumbers(database_.get()));
  }
  if (version_ < kFirstVersionWithSources) {
    ATTNDB_RETURN_IF_ERROR(ViewNoSources(database_.get()));
  }
  if (version_ < kFirstVersionWithLayouts) {
    ATTNDB_RETURN_IF_ERROR(ViewNoLayouts(database_.get()));
  }
  return version_ < kFirstVersionWithNotes ? ViewNoNotes(database_.get()) : Status::Ok();
}

Status CatalogCore::LoadMeta() {
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, BeginRead());
  Query query = database_->Select("SELECT uuid FROM meta");
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  const std::span<const std::byte> uuid = query.Blob(0);
  if (!found || uuid.size() != store_uuid_.size()) {
    return Status::Corruption(options_.path + ": meta: no store uuid of 16 bytes");
  }
  std::ranges::copy(uuid, store_uuid_.begin());
  return {};
}

// Best effort: a catalog with a damaged index of uses can be opened and read.
void CatalogCore::SeeLatestUse() {
  if (options_.read_only) return;  // Another process writes the dates, and puts them right.
  const Result<int64_t> latest_us = LatestUse(database_.get());
  if (!latest_us.ok()) return;
  const Result<std::optional<BehindTime>> behind = LoadBehind(database_.get());
  uses_.Begin(*latest_us, Now(), behind.ok() ? *behind : std::nullopt);
}

// Forgets segments that the previous process kept for its sessions, which are gone.
Status CatalogCore::ForgetUnreferencedSegments() {
  ATTNDB_ASSIGN_OR_RETURN(
      forgotten_,
      ReadAll<SegmentId>(
          database_->Select("SELECT id FROM segments WHERE id NOT IN (SELECT segment FROM chain)"),
          ReadInt));
  if (forgotten_.empty()) return {};  // The usual case costs no sync.
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, BeginWrite());
  ATTNDB_RETURN_IF_ERROR(
      database_->Run("DELETE FROM segments WHERE id NOT IN (SELECT segment FROM chain)"));
  return Commit(&transaction);
}

Result<Transaction> CatalogCore::BeginRead() const {
  if (!immutable_stamp_.empty() && immutable_stamp_ != FileStamp(options_.path)) {
    ATTNDB_RETURN_IF_ERROR(Connect());
  }
  {
    ATTNDB_ASSIGN_OR_RETURN(Transaction transaction,
                            Transaction::Begin(database_.get(), Transaction::Kind::kRead));
    if (version_ == kSchemaVersion) return transaction;
    // If a writer has upgraded the catalog since, it uses numbers that the views lack.
    ATTNDB_ASSIGN_OR_RETURN(const int64_t version, SchemaVersion(database_.get()));
    if (version == version_) return transaction;
  }
  ATTNDB_RETURN_IF_ERROR(Connect());
  return Transaction::Begin(database_.get(), Transaction::Kind::kRead);
}

Result<Transaction> CatalogCore::BeginWrite() {
  if (options_.read_only) return Status::ReadOnly(options_.path + ": opened read-only");
  ATTNDB_RETURN_IF_ERROR(CheckPlace());
  if (log_is_copied_) {
    log_is_copied_ = database_->Checkpoint() == SqliteDatabase::LogState::kCopied;
    if (log_is_copied_) return Status::IoError(options_.path + "-wal: can't be cut off");
  }
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction,
                          Transaction::Begin(database_.get(), Transaction::Kind::kWrite));
  uses_.SeeClock(Now());
  ATTNDB_RETURN_IF_ERROR(uses_.Write(database_.get()));
  return transaction;
}

Status CatalogCore::Commit(Transaction* transaction) {
  auto log = SqliteDatabase::LogState::kHolds;
  ATTNDB_RETURN_IF_ERROR(uses_.WriteBehind(database_.get()));
  ATTNDB_RETURN_IF_ERROR(transaction->Commit(&log));
  uses_.Clear();
  log_is_copied_ = log == SqliteDatabase::LogState::kCopied;
  if (log == SqliteDatabase::LogState::kHolds) SealLog();
  return CheckPlace();
}

// A commit that stays in the log is safe from silent loss only if others follow it (wal_check.h).
// Two, because damage may hit the very mark that makes a frame a commit. Best effort: it is
// durable.
void CatalogCore::SealLog() {
  for (int i = 0; i < 2; ++i) {
    Result<Transaction> seal = Transaction::Begin(database_.get(), Transaction::Kind::kWrite);
    if (!seal.ok()) return;
    if (!database_->Run("UPDATE meta SET next_segment = next_segment + 1").ok()) return;
    if (!seal->Commit().ok()) return;
  }
}

Result<int64_t> CatalogCore::ReserveNumber() {
  MutexLock lock(&mutex_);
  if (next_number_ < end_number_) return next_number_++;
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, BeginWrite());
  int64_t next = 0;
  {
    Query query = database_->Select("SELECT next_segment FROM meta");
    ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (found) next = query.Int(0);
  }
  if (next <= 0 || next > kMaxNumber) {
    return Status::Corruption(options_.path + ": meta: next_segment is " + std::to_string(next) +
                              ", expected 1 to " + std::to_string(kMaxNumber));
  }
  const int64_t end = next + kNumbersReserved;
  ATTNDB_RETURN_IF_ERROR(database_->Run("UPDATE meta SET next_segment = ?", end));
  ATTNDB_RETURN_IF_ERROR(Commit(&transaction));
  next_number_ = next + 1;
  end_number_ = end;
  return next;
}

Result<uint64_t> CatalogCore::EndOfNumbers() const {
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, BeginRead());
  Query query = database_->Select("SELECT next_segment FROM meta");
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  return static_cast<uint64_t>(found ? std::max<int64_t>(query.Int(0), 0) : 0);
}

Status CatalogCore::PassNumbers(std::span<const uint64_t> numbers) {
  int64_t next = 0;
  for (const uint64_t number : numbers) {
    if (number < kMadeUp) next = std::max(next, static_cast<int64_t>(number) + 1);
  }
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t end, EndOfNumbers());
  MutexLock lock(&mutex_);
  next_number_ = std::max(next_number_, next);
  if (static_cast<uint64_t>(next) <= end) return {};  // The usual case costs no sync.
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, BeginWrite());
  ATTNDB_RETURN_IF_ERROR(database_->Run(
      "UPDATE meta SET next_segment = ?1 WHERE next_segment BETWEEN 1 AND ?1", next));
  return Commit(&transaction);
}

int64_t CatalogCore::Now() const { return options_.clock ? options_.clock() : SystemNowMicros(); }

int64_t CatalogCore::ExpiryNow() const {
  const bool is_believed = options_.clock && !options_.since_boot;
  return is_believed ? options_.clock() : borne_out_.Now(Now(), SinceBoot());
}

int64_t CatalogCore::GiveDate() { return uses_.Give(Now()); }

const UseDates& CatalogCore::SeeUses() {
  uses_.SeeClock(Now());
  return uses_;
}

void CatalogCore::Touch(ContextId context) {
  MutexLock lock(&mutex_);
  uses_.Note(context, Now());
  if (uses_.num_noted() < kMaxTouches) return;
  lock.Unlock();
  // A reader keeps the newest few thousand to itself; a failed write is tried again with the next.
  if (options_.read_only || !FlushTouches().ok()) {
    MutexLock clear_lock(&mutex_);
    uses_.ClearNoted();
  }
}

bool CatalogCore::EmptyLog() {
  MutexLock lock(&mutex_);
  if (!CheckPlace().ok()) return false;
  return database_ != nullptr && database_->Checkpoint() == SqliteDatabase::LogState::kEmpty;
}

Status CatalogCore::FlushTouches() {
  MutexLock lock(&mutex_);
  if (uses_.is_written() || database_ == nullptr) return {};
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, BeginWrite());
  return Commit(&transaction);
}

int64_t CatalogCore::LastAccess(ContextId context, int64_t stored_us) {
  return SeeUses().DateOf(context, stored_us, Now());
}

}  // namespace attndb::store
