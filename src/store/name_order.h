// The order in which Stores that nobody waits for take a name: that in which they were asked for,
// however long each takes to write its segment.
//
// Threads: thread-safe. A Place belongs to one thread at a time.
#ifndef ATTNDB_STORE_NAME_ORDER_H_
#define ATTNDB_STORE_NAME_ORDER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "common/mutex.h"

namespace attndb::store {

class NameOrder {
 public:
  // A place in the row of those who want a name; it is given up by the destructor.
  class Place {
   public:
    Place(Place&& other) noexcept
        : order_(std::exchange(other.order_, nullptr)),
          name_(std::move(other.name_)),
          number_(other.number_) {}
    Place& operator=(Place&&) = delete;
    ~Place();

    // Waits until the places before this one are given up. At once where there is no name.
    void Await();

   private:
    friend class NameOrder;
    using Name = std::pair<std::string, std::string>;  // Tenant, context.
    Place(NameOrder* order, Name name, uint64_t number)
        : order_(order), name_(std::move(name)), number_(number) {}

    NameOrder* order_;  // Null: it has no name, or was moved from.
    Name name_;
    uint64_t number_;
  };

  // The last place for the name, which may be empty. The order outlives it.
  Place Enter(const std::string& tenant, const std::string& name) ATTNDB_EXCLUDES(mutex_);

 private:
  Mutex mutex_;  // A leaf.
  CondVar changed_;
  uint64_t num_places_ ATTNDB_GUARDED_BY(mutex_) = 0;
  std::map<Place::Name, std::set<uint64_t>> rows_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_NAME_ORDER_H_
