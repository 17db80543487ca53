// The catalog: the contexts, segments, models and tenants of a store. The store's only commit
// point: the store has exactly what a transaction here has published.
//
//   auto catalog = Catalog::Open({.path = "/var/lib/attndb/catalog.db"});
//   const SegmentId id = *(*catalog)->segments()->ReserveId();
//   ... write and sync the segment's file ...
//   (*catalog)->contexts()->Publish(request);  // durable when it returns
//
// A segment that no context uses any more keeps its row until CatalogSegments::Remove, because a
// session may still read it and build on it. The order on disk is: transaction, then files.
//
// Parts:   each subject has its own class and header: tenants and models in CatalogOwners, then
//          CatalogSegments, CatalogCompanions, CatalogContexts, CatalogPrefixes, CatalogSettling.
//          They share a connection and its mutex: CatalogCore.
// Promise: a byte of catalog.db is used only after its page's checksum was verified
//          (checked_vfs.h): damage is kCorruption, never a wrong answer or a miss.
// Errors:  every call: kCorruption (catalog.db, with page or row), kIoError, kBusy (another process
//          holds SQLite's lock for seconds). Calls that write: also kReadOnly, kResourceExhausted
//          (disk full); nothing has changed then. The functions list further codes.
// Threads: thread-safe: one mutex; a call takes microseconds to milliseconds, a commit some syncs.
// Source:  docs/formats/catalog.md; prefix index: prefix_index.h.
#ifndef ATTNDB_STORE_CATALOG_CATALOG_H_
#define ATTNDB_STORE_CATALOG_CATALOG_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "store/catalog/catalog_companions.h"
#include "store/catalog/catalog_contexts.h"
#include "store/catalog/catalog_core.h"
#include "store/catalog/catalog_owners.h"
#include "store/catalog/catalog_prefixes.h"
#include "store/catalog/catalog_segments.h"
#include "store/catalog/catalog_types.h"

namespace attndb::store {

class Catalog {
 public:
  // Opens or creates the catalog. The writer forgets segments that no context uses: their files may
  // be removed.
  // Errors: kNotFound (no file, and create_if_missing is false); kUnsupported (of a newer attndb,
  //         naming both versions); kCorruption (not a catalog, or damaged); kReadOnly (a crash left
  //         work that only a writer can finish).
  static Result<std::unique_ptr<Catalog>> Open(const CatalogOptions& options);

  explicit Catalog(const CatalogOptions& options) : core_(options) {}  // For Open only.

  const StoreUuid& store_uuid() const { return core_.store_uuid(); }
  bool read_only() const { return core_.options().read_only; }
  static uint32_t format_version();

  CatalogOwners* owners() { return &owners_; }
  CatalogSegments* segments() { return &segments_; }
  CatalogCompanions* companions() { return &companions_; }
  CatalogContexts* contexts() { return &contexts_; }
  CatalogPrefixes* prefixes() { return &prefixes_; }

  // Writes the access times that Touch noted. The destructor also writes them, if it can.
  Status FlushTouches() { return core_.FlushTouches(); }
  // Moves the content of the write-ahead log into the file. Returns false if that is impossible
  // now. Afterwards a failed commit can't be found in the log any more.
  bool EmptyLog() { return core_.EmptyLog(); }
  // The time by which contexts expire, in microseconds since the Unix epoch.
  int64_t ExpiryNow() const { return core_.ExpiryNow(); }
  // Ids and generations from this number on were never handed out.
  Result<uint64_t> EndOfNumbers() const { return core_.EndOfNumbers(); }
  // Another catalog of the store has handed out `numbers`, ids and generations. This catalog hands
  // out no number up to the largest of them, also after another open. Ignores numbers that no
  // catalog can reach.
  Status PassNumbers(std::span<const uint64_t> numbers) { return core_.PassNumbers(numbers); }
  // Segments that the writer forgot when it opened.
  const std::vector<SegmentId>& forgotten() const { return core_.forgotten(); }
  // O(log of all).
  Result<CatalogStats> Stats(TenantId tenant) const;
  // Reads every page and compares every row with every other. Returns findings in words; an empty
  // list is good. `go_on` may be null; it is called from time to time, and its error ends the call.
  // Any other error means that the check was impossible. Other calls continue meanwhile; a commit
  // waits up to .3 s for the snapshot in which rows are compared.
  Result<std::vector<std::string>> Verify(const std::function<Status()>& go_on = {}) const;

 private:
  CatalogCore core_;
  CatalogOwners owners_{&core_};
  CatalogSegments segments_{&core_};
  CatalogCompanions companions_{&core_};
  CatalogContexts contexts_{&core_, &owners_};
  CatalogPrefixes prefixes_{&core_};
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_CATALOG_H_
