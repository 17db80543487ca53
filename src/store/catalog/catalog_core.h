// What all of the catalog goes through: one connection, its transactions, and what is kept in
// memory until the next of them.
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

  // As Catalog::Open. Called first, and once.
  Status Open() ATTNDB_EXCLUDES(mutex_);

  const CatalogOptions& options() const { return options_; }
  const StoreUuid& store_uuid() const { return store_uuid_; }
  // Segments that Open forgot: no context used them.
  const std::vector<SegmentId>& forgotten() const { return forgotten_; }
  Mutex* mutex() const ATTNDB_RETURN_CAPABILITY(mutex_) { return &mutex_; }
  SqliteDatabase* database() const ATTNDB_REQUIRES(mutex_) { return database_.get(); }
  // Whether the catalog's version has cuts (prefix_index.h).
  bool has_cuts() const ATTNDB_REQUIRES(mutex_) { return version_ >= kFirstVersionWithCuts; }
  // Opened without locks, because the folder can't be written.
  bool is_immutable() const ATTNDB_REQUIRES(mutex_) { return !immutable_stamp_.empty(); }
  // Uses that are not written yet, and what is known of the clock: looked at now.
  const UseDates& SeeUses() ATTNDB_REQUIRES(mutex_);

  // Begins a snapshot that all statements read until it ends.
  Result<Transaction> BeginRead() const ATTNDB_REQUIRES(mutex_);
  // Begins a transaction. Writes what is noted of uses first, so that statements see it.
  Result<Transaction> BeginWrite() ATTNDB_REQUIRES(mutex_);
  Status Commit(Transaction* transaction) ATTNDB_REQUIRES(mutex_);

  // A number greater than all before it, for a segment or a companion. Durable before it returns:
  // never handed out twice.
  Result<int64_t> ReserveNumber() ATTNDB_EXCLUDES(mutex_);
  // As Catalog.
  Status PassNumbers(std::span<const uint64_t> numbers) ATTNDB_EXCLUDES(mutex_);

  int64_t Now() const;
  // The time, for a row that is written with it as the context's last use.
  int64_t GiveDate() ATTNDB_REQUIRES(mutex_);
  // The time by which contexts expire: a clock that jumps ahead while the store is open makes none
  // of them go, which could not be had back.
  int64_t ExpiryNow() const;
  // The row's access time, or a later one that is noted; none that lies ahead of the clock.
  int64_t LastAccess(ContextId context, int64_t stored_us) ATTNDB_REQUIRES(mutex_);
  // As CatalogContexts::Touch.
  void Touch(ContextId context) ATTNDB_EXCLUDES(mutex_);
  // As Catalog.
  Status FlushTouches() ATTNDB_EXCLUDES(mutex_);
  bool EmptyLog() ATTNDB_EXCLUDES(mutex_);
  // As Catalog.
  Result<uint64_t> EndOfNumbers() const ATTNDB_EXCLUDES(mutex_);

 private:
  int64_t SinceBoot() const {
    return options_.since_boot ? options_.since_boot() : SinceBootMicros();
  }
  Status CheckPlace() const { return options_.check_place ? options_.check_place() : Status(); }
  // Opens the file and checks that it is a catalog.
  Status Connect() const ATTNDB_REQUIRES(mutex_);
  Status ConnectAs(SqliteDatabase::Mode mode) const ATTNDB_REQUIRES(mutex_);
  // Makes views in the place of tables that a catalog of an older version does not have.
  Status ViewWhatIsMissing() const ATTNDB_REQUIRES(mutex_);
  Status LoadMeta() ATTNDB_REQUIRES(mutex_);
  void SeeLatestUse() ATTNDB_REQUIRES(mutex_);
  Status ForgetUnreferencedSegments() ATTNDB_REQUIRES(mutex_);
  void SealLog() ATTNDB_REQUIRES(mutex_);

  // Constant after Open.
  const CatalogOptions options_;
  StoreUuid store_uuid_{};
  const BorneOutTime borne_out_;

  FileInUse in_use_;  // For as long as database_ may have it open.
  std::vector<SegmentId> forgotten_;

  mutable Mutex mutex_;
  // Mutable: a reader of a folder that can't be written opens the file again when it has changed,
  // and one of an older catalog when a writer has upgraded it.
  mutable std::unique_ptr<SqliteDatabase> database_ ATTNDB_GUARDED_BY(mutex_);
  mutable std::string immutable_stamp_ ATTNDB_GUARDED_BY(mutex_);  // Empty: not opened that way.
  mutable int64_t version_ ATTNDB_GUARDED_BY(mutex_) = 0;          // The catalog's.
  // At most kMaxTouches are noted; then they are written at once.
  UseDates uses_ ATTNDB_GUARDED_BY(mutex_);
  // The log could not be cut off, though the file has all that it holds. Nothing is written until
  // it can: that would begin the log anew, and if it is torn there it looks as if commits were
  // lost.
  bool log_is_copied_ ATTNDB_GUARDED_BY(mutex_) = false;
  // Numbers reserved on disk and not handed out yet: [next, end).
  int64_t next_number_ ATTNDB_GUARDED_BY(mutex_) = 0;
  int64_t end_number_ ATTNDB_GUARDED_BY(mutex_) = 0;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_CATALOG_CORE_H_
