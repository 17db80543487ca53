// Dates of the last use of contexts: uses that are noted and not written yet, and dates that lie
// ahead of the clock.
//
// A date ahead of the clock has two explanations: the clock ran ahead when it gave the date, or the
// clock is behind now. Nothing tells them apart, so both must end well:
// - A row keeps the date that lies ahead. Until the clock has passed the date, the row counts as
//   used when the clock was first seen behind. Expiry and the order of eviction go by that.
// - A new use gets the clock's date, and counts as later than all dates that lie ahead. The catalog
//   remembers the range of dates that the clock gave meanwhile.
// - Once the clock has passed all dates that lay ahead, it may have been behind until then. The
//   dates that it gave meanwhile become the current time; their order stays.
//
// Limits:  a long rest looks like a clock that is behind by less than before. A context with a date
//          ahead can expire by either.
// Units:   microseconds since the Unix epoch.
// Errors:  those of SQLite.
// Threads: thread-compatible. Changes of rows happen inside the caller's transaction.
// Source:  docs/formats/catalog.md, "Uses under a clock that is behind".
#ifndef ATTNDB_STORE_CATALOG_USE_DATES_H_
#define ATTNDB_STORE_CATALOG_USE_DATES_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attndb/result.h"
#include "attndb/status.h"
#include "attndb/types.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {

// The latest use in the catalog, of contexts that are not pinned; the least number if there is
// none.
// Cost: O(tenants * log of all).
Result<int64_t> LatestUse(SqliteDatabase* database);

// The period in which the clock is behind given dates.
struct BehindTime {
  int64_t first_us = 0;   // The clock gave dates from here
  int64_t newest_us = 0;  // to here since it was first seen behind.
  int64_t ahead_us = 0;   // The latest date that lies ahead.

  friend bool operator==(const BehindTime&, const BehindTime&) = default;
};

// Reads the value that UseDates::WriteBehind wrote. Nothing: there is none, or no clock gave it.
Result<std::optional<BehindTime>> LoadBehind(SqliteDatabase* database);

class UseDates {
 public:
  // Dates of rows, from the first to the second.
  using Range = std::pair<int64_t, int64_t>;

  // `latest_us`: the latest known use in the catalog.
  void Begin(int64_t latest_us, int64_t now_us, const std::optional<BehindTime>& behind = {});
  // Checks whether the clock is behind given dates.
  void SeeClock(int64_t now_us);
  // Notes that the context is used now.
  void Note(ContextId context, int64_t now_us);
  // The date for a row that is written now.
  int64_t Give(int64_t now_us);

  // The date of the context's last use. The row has `stored_us`.
  int64_t DateOf(ContextId context, int64_t stored_us, int64_t now_us) const;
  // Does the same for a context that is not noted.
  int64_t DateOfRow(int64_t stored_us) const;
  // All dates of rows, in ranges: the contexts of an earlier range were used earlier. Noted
  // contexts were used after all others.
  std::vector<Range> RangesByUse() const;
  // The noted date; null if there is none.
  const int64_t* FindNoted(ContextId context) const;
  size_t num_noted() const { return noted_us_.size(); }
  // Rows with a later date than `newest_us` lie ahead of the clock. Null: no rows do.
  const BehindTime* FindBehind() const { return behind_ && !lift_us_ ? &*behind_ : nullptr; }
  // Whether the next write changes the dates of rows that were used while the clock was behind.
  bool must_lift() const { return lift_us_.has_value(); }
  bool is_written() const { return noted_us_.empty() && !lift_us_ && behind_ == written_; }

  // Writes the noted uses, and the dates of rows that must_lift tells of.
  Status Write(SqliteDatabase* database);
  // Writes the period in which the clock was behind, if it changed. Called last in a transaction.
  Status WriteBehind(SqliteDatabase* database);
  // Call it when the transaction of both writes is durable.
  void Clear();
  // Forgets the noted uses.
  void ClearNoted() { noted_us_.clear(); }

 private:
  void BeginBehind(int64_t now_us);
  void EndBehind(int64_t now_us);
  void ResumeBehind();
  // Noted contexts with a date in the range, in the order of their dates.
  std::vector<ContextId> NotedWithin(int64_t first_us, int64_t last_us) const;

  std::unordered_map<ContextId, int64_t> noted_us_;
  // The latest date that was given, except while the clock is behind.
  int64_t newest_us_ = std::numeric_limits<int64_t>::min();
  std::optional<BehindTime> behind_;
  // Set when the clock has caught up: rows that were dated while it was behind count as used at
  // this date.
  std::optional<int64_t> lift_us_;
  bool is_lifted_ = false;             // By the transaction that is about to be committed.
  std::optional<BehindTime> written_;  // The period in the catalog.
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_USE_DATES_H_
