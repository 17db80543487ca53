// The order in which Stores that nobody waits for take a name: that in which they were asked for,
// however long each takes to write its segment.
//
// A job whose name another one has is kept, and starts once the other has given the name up. It
// takes no thread until then.
//
// Threads: thread-safe. A Place belongs to one thread at a time.
#ifndef ATTNDB_STORE_NAME_ORDER_H_
#define ATTNDB_STORE_NAME_ORDER_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "common/mutex.h"

namespace attndb::store {

class NameOrder {
 public:
  // A name that a job has. The destructor gives it up, and starts the next job that wants it.
  class Place {
   public:
    Place(Place&& other) noexcept
        : order_(std::exchange(other.order_, nullptr)), name_(std::move(other.name_)) {}
    Place& operator=(Place&&) = delete;
    ~Place();

   private:
    friend class NameOrder;
    using Name = std::pair<std::string, std::string>;  // Tenant, context.
    Place(NameOrder* order, Name name) : order_(order), name_(std::move(name)) {}

    NameOrder* order_;  // Null: it has no name, or was moved from.
    Name name_;
  };
  using Job = std::function<void(Place)>;

  // `start`: runs a function in some thread, now or later.
  explicit NameOrder(std::function<void(std::function<void()>)> start) : start_(std::move(start)) {}

  // Starts the job once it has the name. Jobs without a name start at once. The order outlives all
  // places.
  void Add(const std::string& tenant, const std::string& name, Job job) ATTNDB_EXCLUDES(mutex_);

 private:
  // A job holds a whole request: it is made once, and gone when it has run.
  using JobPtr = std::shared_ptr<Job>;
  void Start(Place place, JobPtr job);
  void Leave(const Place::Name& name) ATTNDB_EXCLUDES(mutex_);

  const std::function<void(std::function<void()>)> start_;
  Mutex mutex_;  // A leaf.
  // The names that jobs have, and the jobs that wait for each.
  std::map<Place::Name, std::deque<JobPtr>> waiting_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_NAME_ORDER_H_
