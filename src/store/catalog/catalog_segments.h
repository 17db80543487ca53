// Segments in the catalog: ids, rows, quarantine, and the merge of runs.
//
// Parts:   what Compact is to look at is in catalog_settling.cc.
// Errors:  those of every call of the catalog (catalog.h); further codes are at the functions.
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

  // An id for a new segment. Durable before it returns: never handed out twice.
  Result<SegmentId> ReserveId();
  // Errors: kNotFound.
  Result<SegmentRecord> Get(SegmentId segment) const;
  Result<std::vector<SegmentRecord>> List(TenantId tenant) const;
  // Whether a context uses it.
  Result<bool> IsUsed(SegmentId segment) const;
  // Forgets those of `segments` that no context uses, with their companions. Returns them: their
  // files may be removed then.
  Result<std::vector<SegmentRecord>> Remove(std::span<const SegmentId> segments);
  // Notes that a segment is damaged, of which the first num_sound tokens are whole, whatever was
  // known of it before. Takes contexts out of service that use more of it, back into it that use no
  // damaged token any more. Returns those that are out of it. Errors: kNotFound.
  Result<std::vector<ContextRecord>> Quarantine(SegmentId segment, std::string_view damage,
                                                uint64_t num_sound = 0);
  // Takes a segment that proved to be as it was written back into service, and the contexts that
  // use no damaged token of another. Does nothing if it is gone or was in service.
  Status Lift(SegmentId segment);
  // Puts the merged segment in the place of the run in every chain that has the run in full; the
  // last link may be used for fewer tokens there.
  // Errors: kFailedPrecondition (a segment of the run is gone or quarantined); kInternal.
  Result<MergeOutcome> ReplaceRun(const MergeRequest& request);

  // --- What Compact is to look at: segments whose chains have changed since it found nothing to
  // do.

  // Makes all segments of the tenant unsettled if they were settled for segments of another length.
  Status UnsettleForLength(TenantId tenant, uint64_t segment_tokens);
  // Segments whose chains have changed since they were settled, oldest first.
  // Cost: O(those segments + log of all).
  Result<std::vector<UnsettledSegment>> Unsettled(TenantId tenant) const;
  // The contexts without damage whose chains show what can be merged of these segments, oldest
  // first. Contexts that have the same segment have what is before it, and, of what follows, all
  // that as many contexts have: so one speaks for all, the one that uses most of it.
  Result<std::vector<ContextId>> ContextsToCompact(
      std::span<const UnsettledSegment> segments) const;
  // Settles them, but for changes that came since they were read.
  Status Settle(std::span<const UnsettledSegment> segments);

 private:
  CatalogCore* const core_;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_CATALOG_SEGMENTS_H_
