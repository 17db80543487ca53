// Reads of stored conversations from the disk that wait for a thread, in the order in which they
// came: what passes to come will need is known here before they run.
//
// Gone:    a read that nobody waits for any more is let go of, with all that it holds, as soon as
//          somebody looks; one that has begun goes on to its end.
// Errors:  none; a read tells who waits for it.
// Limits:  none of its own: who adds has been let through a MemoryGate, which has one.
// Threads: thread-safe.
#ifndef ATTNDB_SERVER_BATCH_LOAD_QUEUE_H_
#define ATTNDB_SERVER_BATCH_LOAD_QUEUE_H_

#include <cstddef>
#include <functional>
#include <memory>

namespace attndb::server {

class LoadQueue {
 public:
  using Run = std::function<void(std::function<void()>)>;

  // `run` runs what it is given once, on a thread that may wait for the disk; what it has not run
  // yet may outlive the queue. `let_go` runs what destroys those who are gone, on another thread
  // than that which looks for them: a session that ends may have a tenant's files to remove.
  LoadQueue(Run run, Run let_go);

  // Runs `load` once, unless is_gone() by then. `is_gone` is asked under a lock.
  void Add(std::function<void()> load, std::function<bool()> is_gone);
  // Lets those go who are gone. Whoever says so to is_gone() before is not missed.
  void LookForGone();

  size_t num_waiting() const;

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_LOAD_QUEUE_H_
