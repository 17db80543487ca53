// Segments in the catalog: ids, rows, quarantine, and the merge of runs.
//
// Parts:   catalog_settling.cc has the functions for Compact.
// Errors:  those of every call of the catalog (catalog.h); the functions list further codes.
// Threads: thread-safe.
#ifndef ATTNDB_STORE_CATALOG_CATALOG_SEGMENTS_H_
#define ATTNDB_STORE_CATALOG_CATALOG_SEGMENTS_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "store/catalog/catalog_core.h"
#include "store/catalog/catalog_types.h"

namespace attndb::store {

class CatalogSegments {
 public:
  // `core` must outlive it.
  explicit CatalogSegments(CatalogCore* core) : core_(core) {}

  // Returns an id for a new segment. The reservation is durable before it returns: no id is handed
  // out twice.
  Result<SegmentId> ReserveId();
  // Errors: kNotFound.
  Result<SegmentRecord> Get(SegmentId segment) const;
  Result<std::vector<SegmentRecord>> List(TenantId tenant) const;
  // Whether a context uses it.
  Result<bool> IsUsed(SegmentId segment) const;
  // Forgets those of `segments` that no context uses, with their companions. Returns the forgotten
  // segments: their files may be removed then.
  Result<std::vector<SegmentRecord>> Remove(std::span<const SegmentId> segments);
  // Marks a segment as damaged; its first num_sound tokens are sound. Replaces earlier knowledge of
  // its damage. Contexts that use more of the segment go out of service. Contexts that no longer
  // use a damaged token return to service. Returns the contexts that are out of service. Errors:
  // kNotFound.
  Result<std::vector<ContextRecord>> Quarantine(SegmentId segment, std::string_view damage,
                                                uint64_t num_sound = 0);
  // Returns a segment whose bytes proved right to service, and its contexts that use no damaged
  // token of another segment. Does nothing if the segment is gone or in service.
  Status Lift(SegmentId segment);
  // Replaces the run by the merged segment in every chain that has the whole run. Such a chain may
  // use fewer tokens of the last link.
  // Errors: kFailedPrecondition (a segment of the run is gone or quarantined); kInternal.
  Result<MergeOutcome> ReplaceRun(const MergeRequest& request);

  // --- The work list of Compact: segments whose chains have changed since Compact was done with
  // them.

  // Makes all segments of the tenant unsettled if they were settled for segments of another length.
  Status UnsettleForLength(TenantId tenant, uint64_t segment_tokens);
  // Segments whose chains have changed since they were settled, oldest first.
  // Cost: O(those segments + log of all).
  Result<std::vector<UnsettledSegment>> Unsettled(TenantId tenant) const;
  // Returns the contexts without damage whose chains show all possible merges of these segments,
  // oldest first. Contexts that share a segment also share all segments before it, and all later
  // segments that the same number of contexts have. So one context represents all: the one that
  // uses most of the segment.
  Result<std::vector<ContextId>> ContextsToCompact(
      std::span<const UnsettledSegment> segments) const;
  // Settles them, unless they changed after they were read.
  Status Settle(std::span<const UnsettledSegment> segments);

 private:
  CatalogCore* const core_;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_CATALOG_SEGMENTS_H_
