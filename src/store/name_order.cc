#include "store/name_order.h"

namespace attndb::store {

void NameOrder::Add(const std::string& tenant, const std::string& name, Job job) {
  if (name.empty()) return Start(nullptr, {}, std::move(job));
  Place::Name wanted(tenant, name);
  {
    MutexLock lock(&mutex_);
    const auto [row, is_free] = waiting_.try_emplace(wanted);
    if (!is_free) {
      row->second.push_back(std::move(job));
      return;
    }
  }
  Start(this, std::move(wanted), std::move(job));
}

void NameOrder::Start(NameOrder* order, Place::Name name, Job job) {
  start_([order, name = std::move(name), job = std::move(job)] { job(Place(order, name)); });
}

void NameOrder::Leave(const Place::Name& name) {
  Job next;
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
  Start(this, name, std::move(next));
}

NameOrder::Place::~Place() {
  if (order_ != nullptr) order_->Leave(name_);
}

}  // namespace attndb::store
