// The core of the catalog, which all its classes use: one connection, its transactions, and data
// that stays in memory until the next transaction.
//
// Errors:  those of every call of the catalog (catalog.h).
// Threads: thread-safe. Its mutex is held from before a transaction begins until after it has
//          ended.
#ifndef ATTNDB_STORE_CATALOG_CATALOG_CORE_H_
#define ATTNDB_STORE_CATALOG_CATALOG_CORE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "common/borne_out_time.h"
#include "common/mutex.h"
#include "store/catalog/catalog_types.h"
#include "store/catalog/forked_files.h"
#include "store/catalog/schema.h"
#include "store/catalog/sqlite.h"
#include "store/catalog/use_dates.h"

namespace attndb::store {

class CatalogCore {
 public:
  explicit CatalogCore(const CatalogOptions& options)
      : options_(options), borne_out_(Now(), SinceBoot()) {}
  // Writes the access times that Touch noted, if it can.
  ~CatalogCore();
  CatalogCore(const CatalogCore&) = delete;
  CatalogCore& operator=(const CatalogCore&) = delete;

  // Like Catalog::Open. Called first, and only once.
  Status Open() ATTNDB_EXCLUDES(mutex_);

  const CatalogOptions& options() const { return options_; }
  const StoreUuid& store_uuid() const { return store_uuid_; }
  // Segments that Open forgot, because no context used them.
  const std::vector<SegmentId>& forgotten() const { return forgotten_; }
  Mutex* mutex() const ATTNDB_RETURN_CAPABILITY(mutex_) { return &mutex_; }
  SqliteDatabase* database() const ATTNDB_REQUIRES(mutex_) { return database_.get(); }
  // Whether the catalog's version has cuts (prefix_index.h).
  bool has_cuts() const ATTNDB_REQUIRES(mutex_) { return version_ >= kFirstVersionWithCuts; }
  // Opened without locks, because the folder can't be written.
  bool is_immutable() const ATTNDB_REQUIRES(mutex_) { return !immutable_stamp_.empty(); }
  // Checks the clock now. Returns the uses that are not written yet, and the state of the clock.
  const UseDates& SeeUses() ATTNDB_REQUIRES(mutex_);

  // Begins a snapshot that all statements read until it ends.
  Result<Transaction> BeginRead() const ATTNDB_REQUIRES(mutex_);
  // Begins a transaction. Writes noted uses first, so that its statements see them.
  Result<Transaction> BeginWrite() ATTNDB_REQUIRES(mutex_);
  Status Commit(Transaction* transaction) ATTNDB_REQUIRES(mutex_);

  // Returns a number greater than all before it, for a segment or a companion. The reservation is
  // durable before it returns: no number is handed out twice.
  Result<int64_t> ReserveNumber() ATTNDB_EXCLUDES(mutex_);
  // Like Catalog::PassNumbers.
  Status PassNumbers(std::span<const uint64_t> numbers) ATTNDB_EXCLUDES(mutex_);

  int64_t Now() const;
  // The present time, for a row that gets it as the context's last use.
  int64_t GiveDate() ATTNDB_REQUIRES(mutex_);
  // The time by which contexts expire. A clock that jumps ahead while the store is open expires no
  // context, because an expired context is lost for ever.
  int64_t ExpiryNow() const;
  // The row's access time, or a later noted one; never a time ahead of the clock.
  int64_t LastAccess(ContextId context, int64_t stored_us) ATTNDB_REQUIRES(mutex_);
  // Like CatalogContexts::Touch.
  void Touch(ContextId context) ATTNDB_EXCLUDES(mutex_);
  // Like Catalog::FlushTouches and Catalog::EmptyLog.
  Status FlushTouches() ATTNDB_EXCLUDES(mutex_);
  bool EmptyLog() ATTNDB_EXCLUDES(mutex_);
  // Like Catalog::EndOfNumbers.
  Result<uint64_t> EndOfNumbers() const ATTNDB_EXCLUDES(mutex_);

 private:
  int64_t SinceBoot() const {
    return options_.since_boot ? options_.since_boot() : SinceBootMicros();
  }
  Status CheckPlace() const { return options_.check_place ? options_.check_place() : Status(); }
  // Opens the file and checks that it is a catalog.
  Status Connect() const ATTNDB_REQUIRES(mutex_);
  Status ConnectAs(SqliteDatabase::Mode mode) const ATTNDB_REQUIRES(mutex_);
  // Makes views in place of tables that a catalog of an older version lacks.
  Status ViewWhatIsMissing() const ATTNDB_REQUIRES(mutex_);
  Status LoadMeta() ATTNDB_REQUIRES(mutex_);
  void SeeLatestUse() ATTNDB_REQUIRES(mutex_);
  Status ForgetUnreferencedSegments() ATTNDB_REQUIRES(mutex_);
  void SealLog() ATTNDB_REQUIRES(mutex_);

  // Constant after Open.
  const CatalogOptions options_;
  StoreUuid store_uuid_{};
  const BorneOutTime borne_out_;

  FileInUse in_use_;  // Lives as long as database_ may have the file open.
  std::vector<SegmentId> forgotten_;

  mutable Mutex mutex_;
  // Mutable: a reader opens the file again in two cases. The folder can't be written and the file
  //          has changed, or a writer has upgraded an older catalog.
  mutable std::unique_ptr<SqliteDatabase> database_ ATTNDB_GUARDED_BY(mutex_);
  mutable std::string immutable_stamp_ ATTNDB_GUARDED_BY(mutex_);  // Empty: not opened that way.
  mutable int64_t version_ ATTNDB_GUARDED_BY(mutex_) = 0;          // The catalog's schema version.
  // At most kMaxTouches are noted; then they are written at once.
  UseDates uses_ ATTNDB_GUARDED_BY(mutex_);
  // The log could not be cut off, although the file has all of its content. Until it can be cut
  // off, nothing is written. A write would begin the log anew, and if it were torn there, commits
  // would seem to be lost.
  bool log_is_copied_ ATTNDB_GUARDED_BY(mutex_) = false;
  // Numbers reserved on disk and not handed out yet: [next, end).
  int64_t next_number_ ATTNDB_GUARDED_BY(mutex_) = 0;
  int64_t end_number_ ATTNDB_GUARDED_BY(mutex_) = 0;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_CATALOG_CORE_H_
