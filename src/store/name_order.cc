#include "store/name_order.h"

#include <exception>
#include <memory>

namespace attndb::store {

void NameOrder::Add(const std::string& tenant, const std::string& name, Job job) {
  auto shared = std::make_shared<Job>(std::move(job));
  if (name.empty()) return Start(Place(nullptr, {}), std::move(shared));
  const Place::Name wanted(tenant, name);
  {
    MutexLock lock(&mutex_);
    const auto [row, is_free] = waiting_.try_emplace(wanted);
    if (!is_free) {
      row->second.push_back(std::move(shared));
      return;
    }
  }
  Start(Place(this, wanted), std::move(shared));
}

// If the job can't be started, the place gives the name up.
void NameOrder::Start(Place place, JobPtr job) {
  const auto shared = std::make_shared<Place>(std::move(place));
  start_([shared, job = std::move(job)] { (*job)(std::move(*shared)); });
}

void NameOrder::Leave(const Place::Name& name) {
  JobPtr next;
  {
    MutexLock lock(&mutex_);
    const auto row = waiting_.find(name);
    if (row->second.empty()) {
      waiting_.erase(row);
      return;
    }
    next = std::move(row->second.front());
    row->second.pop_front();
  }
  try {
    start_([this, name, next] { (*next)(Place(this, name)); });
  } catch (const std::exception&) {  // No memory for another thread's work: this thread does it.
    (*next)(Place(this, name));
  }
}

NameOrder::Place::~Place() {
  if (order_ != nullptr) order_->Leave(name_);
}

}  // namespace attndb::store
