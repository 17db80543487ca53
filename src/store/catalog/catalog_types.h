// Arguments and results of the catalog: plain values.
//
// Units:   times in microseconds since the Unix epoch; positions and counts in tokens.
// Threads: values; no state.
#ifndef ATTNDB_STORE_CATALOG_CATALOG_TYPES_H_
#define ATTNDB_STORE_CATALOG_CATALOG_TYPES_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/status.h"
#include "attndb/types.h"
#include "common/context_number.h"
#include "common/sha256.h"

namespace attndb::store {

enum class TenantId : int64_t { kNone = 0 };
enum class ModelId : int64_t { kNone = 0 };
// A segment's id names its file. Never reused, not even after a crash.
using SegmentId = int64_t;
// The number by which a tenant knows its segment: as ContextNumber.
enum class SegmentNumber : int64_t { kNone = 0 };

using StoreUuid = std::array<std::byte, 16>;

struct CatalogOptions {
  std::string path;        // Path of the file, "<store>/catalog.db".
  bool read_only = false;  // Read-only, beside a writer of another process.
  // Creates the catalog if it does not exist. The caller makes sure that the store then holds no
  // segments: an empty catalog would call all of them orphans.
  bool create_if_missing = false;
  std::function<int64_t()> clock;  // Now, in microseconds. Null = the system's clock.
  // Microseconds since the machine started, which confirm the clock. Null = the system's; if only
  // `clock` is given, `clock` is trusted.
  std::function<int64_t()> since_boot;
  // Checks that the store lies where it was opened. Called before each commit, and again before it
  // is acknowledged. May be null.
  std::function<Status()> check_place;
};

struct Tenant {
  TenantId id = TenantId::kNone;
  std::string name;
  uint64_t quota_bytes = 0;  // 0 = none.
};

// An object derived from a segment: planes or an index.
struct CompanionRecord {
  std::string kind;
  uint64_t generation = 0;  // Distinguishes its files from those of other companions of its kind.
  bool required = false;    // A reader that doesn't know the kind can't read the segment.
  uint64_t file_bytes = 0;
  Sha256Digest root_hash{};
};

// The catalog's record of a segment. The segment's file is checked against all of it.
struct SegmentRecord {
  SegmentId id = 0;
  SegmentNumber number = SegmentNumber::kNone;  // The catalog gives it.
  TenantId tenant = TenantId::kNone;
  ModelId model = ModelId::kNone;
  int64_t first_position = 0;  // Position of its first token.
  uint64_t num_tokens = 0;
  uint64_t file_bytes = 0;
  uint64_t kv_bytes = 0;
  uint64_t query_bytes = 0;
  Sha256Digest root_hash{};
  std::vector<std::byte> non_finite;  // The caller's encoding of (layer, head) flags; may be empty.
  std::string damage;                 // Empty, or the reason of the quarantine.
  std::vector<CompanionRecord> companions;

  // The companion of the newest generation; null if there is none of the kind.
  const CompanionRecord* FindCompanion(std::string_view kind) const;
  // Bytes of its files and its companions' files.
  uint64_t total_bytes() const;
};

// Segments that could have a companion and have none: in use, not quarantined, long enough.
struct MissingCompanions {
  std::string kind;
  uint64_t min_tokens = 0;
};

// A segment of a context, and the number of its first tokens that the context uses.
struct ChainLink {
  SegmentId segment = 0;
  uint64_t num_tokens_used = 0;
  friend bool operator==(const ChainLink&, const ChainLink&) = default;
};

// "#number": a tenant's label of a context without a name.
std::string NumberLabel(ContextNumber number);

struct ContextRecord {
  ContextId id = ContextId::kNone;
  ContextNumber number = ContextNumber::kNone;
  TenantId tenant = TenantId::kNone;
  ModelId model = ModelId::kNone;
  std::string name;  // Empty if unnamed.
  int64_t first_position = 0;
  uint64_t num_tokens = 0;
  uint64_t kv_bytes = 0;
  int64_t created_us = 0;
  int64_t last_access_us = 0;
  std::optional<int64_t> ttl_seconds;
  bool pinned = false;
  bool damaged = false;  // It uses tokens of a segment that are not sound.

  // Its name, or "#number".
  std::string Label() const;
};

// A link of a chain with its segment and how it is shared.
struct ChainSegment {
  SegmentRecord segment;
  uint64_t num_tokens_used = 0;  // Tokens that this context uses.
  // The most tokens that any context uses; the rest is retained only.
  uint64_t num_tokens_kept = 0;
  uint32_t num_contexts = 0;  // Contexts that use the segment.
};

struct ContextDetail {
  ContextRecord context;
  std::string title;
  ContextNumber continues = ContextNumber::kNone;
  std::vector<ChainSegment> chain;  // In the order of tokens.
  uint64_t file_bytes = 0;          // Bytes of all its segments, and of its note.
  uint64_t own_bytes = 0;           // Bytes of the segments that no other context uses; its note.
  // Bytes of KV in its segments that belong to tokens no context uses.
  uint64_t retained_bytes = 0;
  uint64_t query_bytes = 0;
};

// The tokens and cuts that a context's K and V were computed from.
struct History {
  std::vector<TokenId> tokens;
  std::vector<Cut> cuts;
};

// A new context, or a context that grows.
struct PublishRequest {
  TenantId tenant = TenantId::kNone;
  ModelId model = ModelId::kNone;
  int64_t first_position = 0;
  std::span<const TokenId> tokens;  // All tokens; at least one.
  uint64_t kv_bytes = 0;            // Bytes of K and V of all tokens.
  std::vector<Cut> cuts;            // The history's: CheckCuts.
  ModelSource source;               // The tenant's name of the model.

  std::string name;      // Empty = unnamed.
  bool replace = false;  // Take the name from the context that has it, and drop that one.
  // The context that this one continues, and the number of first tokens that both share, according
  // to the caller. With it, the cost grows with the new tokens only. Without a base, or if the base
  // is gone, all tokens are walked over, and the result is the same.
  ContextId base = ContextId::kNone;
  uint64_t num_shared = 0;
  // Drop the base, if it is unnamed, not pinned, and all of it is in the new context.
  bool drop_base = false;
  // Contexts to drop in the same commit to make room. Skips contexts that are gone or pinned by
  // then.
  std::vector<ContextId> evict;
  std::optional<std::chrono::seconds> ttl;
  bool pin = false;
  TextLayout text_layout;
  std::string_view title;
  std::string_view note;

  std::vector<SegmentRecord>
      new_segments;  // Number, tenant, model, damage and companions are ignored.
  // The numbers of tokens sum up to tokens.size(). The base's present links replace the links of
  // the shared tokens, if the base still has these tokens: its segments may have been merged
  // meanwhile.
  std::vector<ChainLink> chain;
};

struct PublishOutcome {
  ContextId id = ContextId::kNone;
  ContextNumber number = ContextNumber::kNone;
  std::vector<ChainLink> chain;  // The published chain.
  bool grown = false;  // The base continues to exist under its id and number, as this context.
  std::vector<ContextId> dropped;    // Contexts dropped by replace, drop_base and evict.
  std::vector<std::string> evicted;  // Labels of the contexts that `evict` dropped, in its order.
  std::vector<SegmentId> unreferenced;  // See CatalogSegments::Remove.
};

// A companion that a segment is to have, and lacks.
struct Wish {
  SegmentId segment = 0;
  std::string kind;
  friend bool operator==(const Wish&, const Wish&) = default;
};

// Consecutive segments of a chain, to be replaced by one segment that holds their used tokens.
struct MergeRequest {
  std::vector<ChainLink> run;  // At least one. A single segment is cut to its used tokens.
  SegmentRecord merged;        // num_tokens = sum over run. tenant and model are the run's.
};

struct MergeOutcome {
  std::vector<ContextId> changed;
  std::vector<SegmentId> unreferenced;
};

struct DropOutcome {
  std::vector<ContextRecord> dropped;
  std::vector<SegmentId> unreferenced;
};

struct PrefixQuery {
  TenantId tenant = TenantId::kNone;
  const ModelSpec* spec = nullptr;  // Not owned.
  int64_t first_position = 0;
  std::span<const TokenId> tokens;
  bool truncated = true;  // Also match tokens that were computed after a cut.
};

struct PrefixMatch {
  ContextId context = ContextId::kNone;
  uint64_t num_tokens = 0;  // Exact; at least 1.
  std::vector<Cut> cuts;    // The cuts that K and V of these tokens depend on.
  friend bool operator==(const PrefixMatch&, const PrefixMatch&) = default;
};

// Why contexts that agree with a prompt are not reused.
struct PrefixNearMiss {
  enum class Reason { kOtherModel, kOtherPosition, kDamaged, kExpired };
  Reason reason = Reason::kOtherModel;
  uint64_t num_contexts = 0;  // Contexts of the tenant that are not reused for this reason.
  // The context that agrees longest, if it agrees longer than the reused one; else kNone.
  PrefixMatch best;
};

struct PrefixReport {
  std::optional<PrefixMatch> best;  // The result of CatalogPrefixes::Longest.
  // Token of best.context after the match; none if it ends there.
  std::optional<TokenId> next_token;
  std::vector<PrefixNearMiss> near_misses;
};

// A segment whose chains have changed since Compact last settled it.
struct UnsettledSegment {
  SegmentId segment = 0;
  int64_t num_changes = 0;  // Changes of these chains before it was read.
};

// Bytes to free by dropping contexts.
struct EvictionRequest {
  TenantId tenant = TenantId::kNone;
  std::span<const ContextId> in_use;  // Not to be dropped. Ascending.
  uint64_t missing_bytes = 0;
  bool with_companions = false;     // Bytes of companions count, too.
  std::span<const SegmentId> kept;  // Freed by no eviction: the new context uses them.
};

struct Evictions {
  std::vector<ContextId> contexts;  // Least recently used first.
  uint64_t freed_bytes = 0;         // Bytes that dropping all of them frees.
};

struct CatalogStats {
  uint64_t num_contexts = 0;
  uint64_t num_segments = 0;
  uint64_t num_tokens = 0;  // Tokens in segments.
  uint64_t file_bytes = 0;  // Bytes of segments, companions and notes.
  uint64_t num_companions = 0;
  uint64_t companion_bytes = 0;  // Bytes of companions, a part of file_bytes.
  uint64_t note_bytes = 0;       // Bytes of the notes of contexts, a part of file_bytes.
  uint64_t num_damaged_segments = 0;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_CATALOG_TYPES_H_
