// When contexts were last used: uses that are noted and not written yet, and dates that lie ahead
// of the clock.
//
// A clock may run ahead for a while, and be set right. Dates that it gave meanwhile are none: such
// a context would outlive its time to live, and would be evicted after all others. They count as
// the moment when the clock was first seen behind them, in their own order. The next write of the
// catalog puts that into the rows. A use and a time to live from then on count from the clock.
//
// Limits:  a pinned context expires never and is not evicted: its date is put right when it is used
//          or unpinned.
// Units:   microseconds since the Unix epoch.
// Errors:  those of SQLite.
// Threads: thread-compatible. Changes of rows happen inside the caller's transaction.
#ifndef ATTNDB_STORE_CATALOG_USE_DATES_H_
#define ATTNDB_STORE_CATALOG_USE_DATES_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <unordered_map>

#include "attndb/result.h"
#include "attndb/status.h"
#include "attndb/types.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {

// The latest use in the catalog, of contexts that are not pinned; the least number if there is
// none.
// Cost: O(tenants * log of all).
Result<int64_t> LatestUse(SqliteDatabase* database);

class UseDates {
 public:
  // `latest_us`: the latest use that the catalog has, as far as it is known.
  void Begin(int64_t latest_us, int64_t now_us);
  // Looks whether the clock is behind dates that were given.
  void SeeClock(int64_t now_us);
  // The context is used now.
  void Note(ContextId context, int64_t now_us);
  // A row is written with this date.
  void NoteGiven(int64_t now_us);

  // When the context was last used, of which the row says `stored_us`.
  int64_t DateOf(ContextId context, int64_t stored_us, int64_t now_us) const;
  // The same of a context that is not noted, for an order: it rises with `stored_us`.
  int64_t DateOfRow(int64_t stored_us) const;
  // The date that is noted; null if there is none.
  const int64_t* FindNoted(ContextId context) const;
  size_t num_noted() const { return noted_us_.size(); }
  // Whether rows may have dates that lie ahead.
  bool has_ahead() const { return row_limit_us_ != kNever; }
  bool is_written() const { return noted_us_.empty() && !has_ahead(); }

  // Puts all of it into the rows: dates that lie ahead first, then what is noted.
  Status Write(SqliteDatabase* database) const;
  // The transaction of Write is durable.
  void Clear();
  // Forgets the uses that are noted.
  void ClearNoted() { noted_us_.clear(); }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  std::unordered_map<ContextId, int64_t> noted_us_;
  int64_t newest_us_ = std::numeric_limits<int64_t>::min();  // The latest date that was given.
  // Dates of rows count as this at most: a moment before the clock was first seen behind them, and
  // before the dates that are noted.
  int64_t row_limit_us_ = kNever;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_USE_DATES_H_
