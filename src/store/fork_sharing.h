// Lets the Stores of sessions that forked from one another write their common tokens once.
//
// Method:  the first session of a family that is stored writes the tokens up to its last fork as a
//          segment of their own (ForkOf). The Stores of the others continue this segment (Beside).
//          If its context is gone, or has other tokens than the caller said, a session writes all
//          of its tail, as if it had no forks.
// Threads: thread-safe. The Stores of a family come one after another.
#ifndef ATTNDB_STORE_FORK_SHARING_H_
#define ATTNDB_STORE_FORK_SHARING_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "attndb/types.h"
#include "common/fork_points.h"
#include "store/catalog/catalog.h"
#include "store/chain.h"
#include "store/uses.h"

namespace attndb::store {

class ForkSharing {
 public:
  // Both must outlive it.
  ForkSharing(Catalog* catalog, Uses* uses) : catalog_(catalog), uses_(uses) {}

  // The request behind the chain of the stored session that has most of its tail. Nothing if no
  // stored session has as much as a block of it.
  std::optional<StoreRequest> Beside(const StoreRequest& request) const;
  // The number of the request's first tokens that its session shared when it forked last. Nothing
  // if the tail begins with less than a block of them, or has no other tokens.
  static std::optional<uint64_t> ForkOf(const StoreRequest& request);
  // Tells the other sessions of the family which context has the request's tokens.
  static void NoteStored(const StoreRequest& request, ContextId context);

 private:
  // The request behind the context's first tokens.
  std::optional<StoreRequest> Behind(const StoreRequest& request,
                                     const ForkPoint::Stored& stored) const;

  Catalog* const catalog_;
  Uses* const uses_;
};

// The rows of these tokens of the request, which lie in its tail. Null for no tokens.
std::shared_ptr<storage::SegmentSource> PartOfTail(const StoreRequest& request, TokenRange tokens);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_FORK_SHARING_H_
