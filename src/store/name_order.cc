#include "store/name_order.h"

namespace attndb::store {

NameOrder::Place NameOrder::Enter(const std::string& tenant, const std::string& name) {
  if (name.empty()) return {nullptr, {}, 0};
  MutexLock lock(&mutex_);
  const uint64_t number = ++num_places_;
  rows_[{tenant, name}].insert(number);
  return {this, {tenant, name}, number};
}

void NameOrder::Place::Await() {
  if (order_ == nullptr) return;
  MutexLock lock(&order_->mutex_);
  while (*order_->rows_[name_].begin() != number_) order_->changed_.Wait(&order_->mutex_);
}

NameOrder::Place::~Place() {
  if (order_ == nullptr) return;
  MutexLock lock(&order_->mutex_);
  const auto row = order_->rows_.find(name_);
  row->second.erase(number_);
  if (row->second.empty()) order_->rows_.erase(row);
  order_->changed_.NotifyAll();
}

}  // namespace attndb::store
