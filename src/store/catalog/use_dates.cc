#include "store/catalog/use_dates.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace attndb::store {

Result<int64_t> LatestUse(SqliteDatabase* database) {
  Query query = database->Select(
      "SELECT max(latest) FROM (SELECT (SELECT last_access_us FROM contexts "
      "INDEXED BY contexts_by_access WHERE tenant = t.id AND NOT pinned "
      "ORDER BY last_access_us DESC LIMIT 1) AS latest FROM tenants t)");
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  const std::optional<int64_t> latest = found ? query.OptionalInt(0) : std::nullopt;
  return latest.value_or(std::numeric_limits<int64_t>::min());
}

void UseDates::Begin(int64_t latest_us, int64_t now_us) {
  newest_us_ = latest_us;
  SeeClock(now_us);
}

void UseDates::SeeClock(int64_t now_us) {
  if (now_us >= newest_us_) return;
  newest_us_ = now_us;
  std::vector<std::pair<int64_t, ContextId>> ahead;
  for (const auto& [context, date_us] : noted_us_) {
    if (date_us > now_us) ahead.emplace_back(date_us, context);
  }
  std::ranges::sort(ahead, std::greater<>());
  int64_t date_us = now_us;
  for (const auto& [noted_us, context] : ahead) noted_us_[context] = --date_us;
  row_limit_us_ = std::min(row_limit_us_, date_us - 1);
}

void UseDates::Note(ContextId context, int64_t now_us) {
  SeeClock(now_us);
  noted_us_[context] = now_us;
  NoteGiven(now_us);
}

void UseDates::NoteGiven(int64_t now_us) { newest_us_ = std::max(newest_us_, now_us); }

int64_t UseDates::DateOf(ContextId context, int64_t stored_us, int64_t now_us) const {
  int64_t date_us = DateOfRow(stored_us);
  if (const int64_t* const noted_us = FindNoted(context)) date_us = std::max(date_us, *noted_us);
  return std::min(date_us, now_us);
}

int64_t UseDates::DateOfRow(int64_t stored_us) const { return std::min(stored_us, row_limit_us_); }

const int64_t* UseDates::FindNoted(ContextId context) const {
  const auto found = noted_us_.find(context);
  return found == noted_us_.end() ? nullptr : &found->second;
}

Status UseDates::Write(SqliteDatabase* database) const {
  if (has_ahead()) {
    ATTNDB_RETURN_IF_ERROR(database->Run(
        "UPDATE contexts SET last_access_us = ?1 - ahead.num_later FROM "
        "(SELECT c.id AS id, row_number() OVER (ORDER BY c.last_access_us DESC, c.id DESC) - 1 "
        "AS num_later FROM tenants t CROSS JOIN contexts c INDEXED BY contexts_by_access "
        "WHERE c.tenant = t.id AND NOT c.pinned AND c.last_access_us > ?1) AS ahead "
        "WHERE contexts.id = ahead.id",
        row_limit_us_));
  }
  for (const auto& [context, date_us] : noted_us_) {
    ATTNDB_RETURN_IF_ERROR(
        database->Run("UPDATE contexts SET last_access_us = ? WHERE id = ?", date_us, context));
  }
  return {};
}

void UseDates::Clear() {
  ClearNoted();
  row_limit_us_ = kNever;
}

}  // namespace attndb::store
