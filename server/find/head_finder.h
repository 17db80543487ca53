// The heads by which a server's model finds passages: as they were kept, or else found by a trial,
// which runs once, at the first question.
//
// Limits:  kMaxWaiting calls wait for a trial.
// Threads: thread-safe.
#ifndef ATTNDB_SERVER_FIND_HEAD_FINDER_H_
#define ATTNDB_SERVER_FIND_HEAD_FINDER_H_

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "attndb/find.h"
#include "attndb/result.h"

namespace attndb::server {

struct Service;

class HeadFinder {
 public:
  using Heads = std::vector<FindHead>;
  using Then = std::function<void(const Result<Heads>&)>;

  static constexpr size_t kMaxWaiting = 256;

  // The service outlives it.
  explicit HeadFinder(Service* service) : service_(service) {}

  // Calls `then` once: here if the heads are known, else on any thread once the trial has ended. A
  // trial that failed is tried again by the next call.
  void Get(Then then);

 private:
  void Find();
  // Ends with what `make` gives, or with why it threw.
  void EndWith(const std::function<Result<Heads>()>& make);
  void End(const Result<Heads>& heads);

  Service* const service_;
  std::mutex mutex_;
  std::optional<Heads> heads_;  // Guarded by mutex_.
  std::vector<Then> waiting_;   // Guarded by mutex_. Not empty: a trial is under way.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_FIND_HEAD_FINDER_H_
