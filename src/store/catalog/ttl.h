// Time to live: its limits and its end.
//
// Units:   seconds for a TTL, microseconds for times.
// Threads: pure functions.
#ifndef ATTNDB_STORE_CATALOG_TTL_H_
#define ATTNDB_STORE_CATALOG_TTL_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "attndb/status.h"
#include "store/catalog/catalog_types.h"

namespace attndb::store {

using OptionalTtl = std::optional<std::chrono::seconds>;

// A limit beyond any practical use; sums with times stay far inside 64 bits.
inline constexpr std::chrono::seconds kMaxTtl = std::chrono::hours(100 * 366 * 24);

// Errors: kInvalidArgument (negative or longer than kMaxTtl).
inline Status CheckTtl(const OptionalTtl& ttl) {
  if (!ttl.has_value() || (ttl->count() >= 0 && *ttl <= kMaxTtl)) return {};
  return Status::InvalidArgument("ttl of " + std::to_string(ttl->count()) + " s: expected 0 to " +
                                 std::to_string(kMaxTtl.count()) + ", or none for ever");
}

inline std::optional<int64_t> TtlSeconds(const OptionalTtl& ttl) {
  return ttl.has_value() ? std::optional<int64_t>(ttl->count()) : std::nullopt;
}

// A TTL counts from the last access; a pinned context never expires.
inline bool IsExpired(bool pinned, std::optional<int64_t> ttl_seconds, int64_t last_access_us,
                      int64_t now_us) {
  if (pinned || !ttl_seconds.has_value()) return false;
  // Divides in unsigned arithmetic instead of multiplying: the row may hold any number.
  if (now_us < last_access_us) return false;
  const uint64_t idle_us = static_cast<uint64_t>(now_us) - static_cast<uint64_t>(last_access_us);
  return *ttl_seconds < 0 || idle_us / 1'000'000 >= static_cast<uint64_t>(*ttl_seconds);
}

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_TTL_H_
