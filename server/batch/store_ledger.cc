#include "server/batch/store_ledger.h"

#include <algorithm>

namespace attndb::server {
namespace {

constexpr size_t kMaxFailed = 256;  // Stores whose errors are remembered.

}  // namespace

StoreTicket::StoreTicket(const Result<PendingStore>& begun) : refused_(begun.status()) {
  if (begun.ok()) store_ = *begun;
}

Result<ContextId> StoreTicket::Wait() const {
  if (!store_) return refused_;
  return store_->Wait();
}

void StoreLedger::Note(const Key& key, const StoreTicket& ticket, Text text, bool replaces) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Settle();
  Forget(key);
  entries_.push_back({key, ticket, std::move(text), replaces});
}

void StoreLedger::Settle() const {
  std::set<Key> pending;
  for (auto next = entries_.begin(); next != entries_.end();) {
    const auto entry = next++;
    if (!entry->ticket.done() || pending.contains(entry->key)) {
      pending.insert(entry->key);
      continue;
    }
    const Status status = entry->ticket.Wait().status();
    if (status.code() != StatusCode::kAlreadyExists) Forget(entry->key);
    if (!status.ok() && status.code() != StatusCode::kAlreadyExists) {
      failed_.push_back({entry->key, status, entry->text});
      if (failed_.size() > kMaxFailed) failed_.pop_front();
    }
    entries_.erase(entry);
  }
}

StoreLedger::Forgotten StoreLedger::Forget(const Key& key) const {
  const auto found = std::ranges::find(failed_, key, &Failure::key);
  if (found == failed_.end()) return {};
  Forgotten forgotten = {.was_failure = true, .text = found->text.lock()};
  failed_.erase(found);
  return forgotten;
}

bool StoreLedger::IsPending(const Key& key) const { return !PendingOf(key).empty(); }

std::vector<PendingStore> StoreLedger::PendingOf(const Key& key) const {
  std::vector<PendingStore> stores;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.key == key && !entry.ticket.done()) stores.push_back(*entry.ticket.store());
  }
  return stores;
}

std::vector<PendingStore> StoreLedger::Pending() const {
  std::vector<PendingStore> stores;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Entry& entry : entries_) {
    if (!entry.ticket.done()) stores.push_back(*entry.ticket.store());
  }
  return stores;
}

Status StoreLedger::WaitFor(const Key& key) const {
  for (const PendingStore& store : PendingOf(key)) (void)store.Wait();
  return FailureOf(key).value_or(Status::Ok());
}

std::optional<Status> StoreLedger::FailureOf(const Key& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  Settle();
  const auto found = std::ranges::find(failed_, key, &Failure::key);
  return found == failed_.end() ? std::nullopt : std::optional(found->status);
}

StoreLedger::Unstored StoreLedger::UnstoredOf(const Key& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  Settle();
  // The first has the name, unless one behind it takes the name away.
  const Entry* holder = nullptr;
  for (const Entry& entry : entries_) {
    if (entry.key != key || entry.ticket.done()) continue;
    if (holder == nullptr || entry.replaces) holder = &entry;
  }
  if (holder != nullptr) return {holder->text, holder->replaces};
  const auto found = std::ranges::find(failed_, key, &Failure::key);
  if (found == failed_.end()) return {};
  return {found->text.lock(), false};
}

StoreLedger::Forgotten StoreLedger::ForgetFailure(const Key& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Settle();
  return Forget(key);
}

std::shared_ptr<void> StoreLedger::NoteUnderWay(const Key& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  under_way_.insert(key);
  return {nullptr, [this, key](void*) {
            const std::lock_guard<std::mutex> again(mutex_);
            under_way_.erase(under_way_.find(key));
          }};
}

bool StoreLedger::IsUnderWay(const Key& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return under_way_.contains(key);
}

}  // namespace attndb::server
