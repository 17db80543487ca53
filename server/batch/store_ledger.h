// The Stores that the server has begun, by the names that they are to have.
//
// Names:   several Stores of one name may be under way at once. They are published in the order in
//          which they were noted. The last one decides what the name's failure is.
//          A Store that is refused because another context has the name (kAlreadyExists) leaves the
//          name to that context, and is no failure of the name.
// Limits:  the last 256 failures; the Stores that are under way.
// Threads: thread-safe. Only StoreTicket::Wait and WaitFor wait.
#ifndef ATTNDB_SERVER_BATCH_STORE_LEDGER_H_
#define ATTNDB_SERVER_BATCH_STORE_LEDGER_H_

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "attndb/result.h"
#include "server/batch/kept_text.h"

namespace attndb::server {

// One Store that was begun, or refused at once.
class StoreTicket {
 public:
  StoreTicket() : StoreTicket(Status::Internal("no store was begun")) {}
  explicit StoreTicket(const Result<PendingStore>& begun);

  bool done() const { return !store_ || store_->done(); }
  // Errors: those of the Store.
  Result<ContextId> Wait() const;
  // Has no value if the Store was refused at once.
  const std::optional<PendingStore>& store() const { return store_; }

 private:
  std::optional<PendingStore> store_;
  Status refused_;
};

class StoreLedger {
 public:
  using Key = std::pair<std::string, std::string>;  // The tenant, and the context's name.
  using Text = std::shared_ptr<const KeptText>;

  // The text of a name that may not be in the store yet.
  struct Unstored {
    Text text;  // Null: there is none.
    bool takes_name =
        true;  // False: if a stored context has the name, the name stays with that context.
  };

  // Notes a Store of `text`. `replaces`: as StoreOptions::replace.
  void Note(const Key& key, const StoreTicket& ticket, Text text, bool replaces);

  bool IsPending(const Key& key) const;
  // The Stores of this name that have not ended.
  std::vector<PendingStore> PendingOf(const Key& key) const;
  // All Stores that have not ended.
  std::vector<PendingStore> Pending() const;
  // Waits until no Store of this name that was noted before is under way. Errors: as FailureOf.
  Status WaitFor(const Key& key) const;
  // Why the last Store of this name failed. No value: it did not fail, or is forgotten.
  std::optional<Status> FailureOf(const Key& key) const;
  // The text of a Store that is under way, or that failed and whose text is in use elsewhere.
  Unstored UnstoredOf(const Key& key) const;

  struct Forgotten {
    bool was_failure = false;
    Text text;  // Null: nobody uses it any more.
  };
  // Forgets the failure of this name: another context has the name, or none.
  Forgotten ForgetFailure(const Key& key);

  // A context that will be stored under this name is being made until the result is destroyed.
  // REQUIRES: the result is destroyed before this.
  std::shared_ptr<void> NoteUnderWay(const Key& key);
  bool IsUnderWay(const Key& key) const;

 private:
  struct Entry {
    Key key;
    StoreTicket ticket;
    Text text;
    bool replaces = false;
  };
  struct Failure {
    Key key;
    Status status;
    std::weak_ptr<const KeptText> text;  // The failure must not keep it in memory.
  };

  // These need mutex_.
  // Takes out the Stores that have ended: those of one name in their order.
  void Settle() const;
  Forgotten Forget(const Key& key) const;

  mutable std::mutex mutex_;
  mutable std::list<Entry> entries_;   // Guarded by mutex_; the oldest first.
  mutable std::list<Failure> failed_;  // Guarded by mutex_; at most one of a name.
  std::multiset<Key> under_way_;       // Guarded by mutex_.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_STORE_LEDGER_H_
