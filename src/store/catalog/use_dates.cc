#include "store/catalog/use_dates.h"

#include <algorithm>

namespace attndb::store {
namespace {

constexpr int64_t kMinDate = std::numeric_limits<int64_t>::min();
constexpr int64_t kMaxDate = std::numeric_limits<int64_t>::max();
// No clock says more: sums stay far inside 64 bits.
constexpr int64_t kMaxClockUs = int64_t{1} << 62;
// The clock must be so far beyond the dates that lay ahead: as many contexts find room for a date
// of their own between these and the clock's.
constexpr int64_t kRoomUs = 100'000;

// SQLite lets a program keep named numbers in this table, and itself uses the names of tables.
constexpr const char* kFirst = "clock.behind.first_us";
constexpr const char* kNewest = "clock.behind.newest_us";
constexpr const char* kAhead = "clock.behind.ahead_us";

Result<std::optional<int64_t>> LoadNumber(SqliteDatabase* database, const char* name) {
  Query query = database->Select("SELECT seq FROM sqlite_sequence WHERE name = ?", name);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  return found ? query.OptionalInt(0) : std::nullopt;
}

bool IsOfAClock(int64_t date_us) { return date_us > -kMaxClockUs && date_us < kMaxClockUs; }

}  // namespace

Result<int64_t> LatestUse(SqliteDatabase* database) {
  Query query = database->Select(
      "SELECT max(latest) FROM (SELECT (SELECT last_access_us FROM contexts "
      "INDEXED BY contexts_by_access WHERE tenant = t.id AND NOT pinned "
      "ORDER BY last_access_us DESC LIMIT 1) AS latest FROM tenants t)");
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  const std::optional<int64_t> latest = found ? query.OptionalInt(0) : std::nullopt;
  return latest.value_or(kMinDate);
}

Result<std::optional<BehindTime>> LoadBehind(SqliteDatabase* database) {
  ATTNDB_ASSIGN_OR_RETURN(const std::optional<int64_t> first, LoadNumber(database, kFirst));
  ATTNDB_ASSIGN_OR_RETURN(const std::optional<int64_t> newest, LoadNumber(database, kNewest));
  ATTNDB_ASSIGN_OR_RETURN(const std::optional<int64_t> ahead, LoadNumber(database, kAhead));
  if (!first || !newest || !ahead || *first > *newest) return std::optional<BehindTime>();
  if (!IsOfAClock(*first) || !IsOfAClock(*newest) || !IsOfAClock(*ahead)) {
    return std::optional<BehindTime>();
  }
  return std::optional(BehindTime{*first, *newest, *ahead});
}

void UseDates::Begin(int64_t latest_us, int64_t now_us, const std::optional<BehindTime>& behind) {
  newest_us_ = std::min(latest_us, kMaxClockUs);
  behind_ = behind;
  written_ = behind;
  if (behind_ && newest_us_ > behind_->newest_us) {
    behind_->ahead_us = std::max(behind_->ahead_us, newest_us_);
  }
  SeeClock(now_us);
}

void UseDates::SeeClock(int64_t now_us) {
  if (!behind_.has_value()) {
    if (now_us < newest_us_) BeginBehind(now_us);
  } else if (lift_us_.has_value()) {
    if (now_us < newest_us_) ResumeBehind();
  } else if (now_us > std::max(behind_->ahead_us, behind_->newest_us) + kRoomUs) {
    EndBehind(now_us);
  }
}

// Noted uses are newer than all rows. They get the first dates of the time that begins.
void UseDates::BeginBehind(int64_t now_us) {
  BehindTime behind = {.first_us = now_us, .newest_us = now_us, .ahead_us = newest_us_};
  const std::vector<ContextId> noted = NotedWithin(now_us + 1, kMaxDate);
  behind.first_us -= static_cast<int64_t>(noted.size());
  int64_t date_us = behind.first_us;
  for (const ContextId context : noted) noted_us_[context] = date_us++;
  behind_ = behind;
}

void UseDates::EndBehind(int64_t now_us) {
  newest_us_ = now_us;
  if (behind_->newest_us >= behind_->ahead_us) {  // The clock has run so far, and gave dates there.
    behind_.reset();
    return;
  }
  const std::vector<ContextId> noted = NotedWithin(behind_->first_us, behind_->newest_us);
  int64_t date_us = now_us - static_cast<int64_t>(noted.size());
  lift_us_ = date_us - 1;
  for (const ContextId context : noted) noted_us_[context] = date_us++;
}

// The clock fell behind once more before the rows were written.
void UseDates::ResumeBehind() {
  behind_->ahead_us = std::max(behind_->ahead_us, newest_us_);
  for (const ContextId context : NotedWithin(behind_->newest_us + 1, kMaxDate)) {
    noted_us_[context] = ++behind_->newest_us;
  }
  lift_us_.reset();
}

std::vector<ContextId> UseDates::NotedWithin(int64_t first_us, int64_t last_us) const {
  std::vector<std::pair<int64_t, ContextId>> noted;
  for (const auto& [context, date_us] : noted_us_) {
    if (date_us >= first_us && date_us <= last_us) noted.emplace_back(date_us, context);
  }
  std::ranges::sort(noted);
  std::vector<ContextId> contexts;
  contexts.reserve(noted.size());
  for (const auto& [date_us, context] : noted) contexts.push_back(context);
  return contexts;
}

void UseDates::Note(ContextId context, int64_t now_us) { noted_us_[context] = Give(now_us); }

int64_t UseDates::Give(int64_t now_us) {
  SeeClock(now_us);
  if (FindBehind() == nullptr) {
    newest_us_ = std::max(newest_us_, now_us);
    return now_us;
  }
  // Dates of this time keep their order even if the clock goes back in it.
  int64_t& newest_us = behind_->newest_us;
  newest_us = now_us >= newest_us ? now_us : newest_us + 1;
  return newest_us;
}

int64_t UseDates::DateOf(ContextId context, int64_t stored_us, int64_t now_us) const {
  int64_t date_us = DateOfRow(stored_us);
  if (const int64_t* const noted_us = FindNoted(context)) date_us = std::max(date_us, *noted_us);
  return std::min(date_us, now_us);
}

int64_t UseDates::DateOfRow(int64_t stored_us) const {
  if (!behind_.has_value() || stored_us < behind_->first_us) return stored_us;
  const bool is_ahead = stored_us > behind_->newest_us;
  if (lift_us_.has_value()) return is_ahead ? stored_us : *lift_us_;
  return is_ahead ? behind_->first_us - 1 : stored_us;
}

std::vector<UseDates::Range> UseDates::RangesByUse() const {
  if (!behind_.has_value()) return {{kMinDate, kMaxDate}};
  return {{kMinDate, behind_->first_us - 1},
          {behind_->newest_us + 1, kMaxDate},
          {behind_->first_us, behind_->newest_us}};
}

const int64_t* UseDates::FindNoted(ContextId context) const {
  const auto found = noted_us_.find(context);
  return found == noted_us_.end() ? nullptr : &found->second;
}

Status UseDates::Write(SqliteDatabase* database) {
  is_lifted_ = must_lift();
  if (is_lifted_) {
    ATTNDB_RETURN_IF_ERROR(database->Run(
        "UPDATE contexts SET last_access_us = ?1 - used.num_later FROM "
        "(SELECT id, row_number() OVER (ORDER BY last_access_us DESC, id DESC) - 1 AS num_later "
        "FROM contexts WHERE last_access_us BETWEEN ?2 AND ?3) AS used WHERE contexts.id = used.id",
        *lift_us_, behind_->first_us, behind_->newest_us));
  }
  for (const auto& [context, date_us] : noted_us_) {
    ATTNDB_RETURN_IF_ERROR(
        database->Run("UPDATE contexts SET last_access_us = ? WHERE id = ?", date_us, context));
  }
  return {};
}

Status UseDates::WriteBehind(SqliteDatabase* database) {
  const BehindTime* const behind = is_lifted_ || !behind_.has_value() ? nullptr : &*behind_;
  if (behind == nullptr ? !written_.has_value() : written_ == *behind) return {};
  ATTNDB_RETURN_IF_ERROR(database->Run("DELETE FROM sqlite_sequence WHERE name IN (?, ?, ?)",
                                       kFirst, kNewest, kAhead));
  if (behind == nullptr) return {};
  return database->Run("INSERT INTO sqlite_sequence(name, seq) VALUES(?, ?), (?, ?), (?, ?)",
                       kFirst, behind->first_us, kNewest, behind->newest_us, kAhead,
                       behind->ahead_us);
}

void UseDates::Clear() {
  ClearNoted();
  if (is_lifted_) {
    behind_.reset();
    lift_us_.reset();
  }
  is_lifted_ = false;
  written_ = behind_;
}

}  // namespace attndb::store
