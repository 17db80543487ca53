// The order in which asynchronous Stores take a name: the order of the calls, however long each one
// writes its segment.
//
// A job waits while another job has its name, and starts once the other job gives up the name. A
// waiting job takes no thread.
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
  // A name that a job holds. The destructor releases the name, and starts the next job that waits
  // for it.
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

    NameOrder* order_;  // Null: holds no name, or was moved from.
    Name name_;
  };
  using Job = std::function<void(Place)>;

  // `start`: runs a function in some thread, now or later.
  explicit NameOrder(std::function<void(std::function<void()>)> start) : start_(std::move(start)) {}

  // Starts the job once it has the name. Jobs without a name start at once. The NameOrder outlives
  // all places.
  void Add(const std::string& tenant, const std::string& name, Job job) ATTNDB_EXCLUDES(mutex_);

 private:
  // A job holds a whole request, so it exists once and is destroyed after it has run.
  using JobPtr = std::shared_ptr<Job>;
  void Start(Place place, JobPtr job);
  void Leave(const Place::Name& name) ATTNDB_EXCLUDES(mutex_);

  const std::function<void(std::function<void()>)> start_;
  Mutex mutex_;  // A leaf.
  // The names that jobs hold, and the jobs that wait for each name.
  std::map<Place::Name, std::deque<JobPtr>> waiting_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_NAME_ORDER_H_
